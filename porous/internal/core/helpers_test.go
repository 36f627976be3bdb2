package core

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"volley/internal/wire"
)

// testConfig returns the parameters of the recordings.
func testConfig() *Config {
	c := DefaultConfig(0)
	c.Channels = 2
	c.AckRepeats = 0
	c.ReceiveFrames = 32768
	return &c
}

type received struct {
	channel int
	data    string
}

// A recorder is a Handler that notes everything. What it was handed counts as
// read unless unread says otherwise.
type recorder struct {
	packets []received
	fates   []Fate
	events  []Event
	unread  map[int]int
}

func (h *recorder) HandlePacket(channel int, b []byte) {
	h.packets = append(h.packets, received{channel, string(b)})
	if _, ok := h.unread[channel]; ok {
		h.unread[channel] += len(b) + 4
	}
}

func (h *recorder) HandleFate(f Fate)   { h.fates = append(h.fates, f) }
func (h *recorder) HandleEvent(e Event) { h.events = append(h.events, e) }

func (h *recorder) Unread(channel int) (one, all int) {
	for _, n := range h.unread {
		all += n
	}
	return h.unread[channel], all
}

// connectedPeer returns a peer whose handshake is done: own id 1000, the other
// one's 2000.
func connectedPeer(t testing.TB, cfg *Config) (*Peer, *recorder) {
	p, h := new(Peer), new(recorder)
	p.Init(0, cfg, 1000, h)
	var out wire.Batch
	p.Receive(0, AppendConnect(nil, Connect{cfg.Version, cfg.Channels, cfg.SendBandwidth, 2000}), &out)
	p.Receive(0, AppendConnectAck(nil, 1000), &out)
	require.Equal(t, Connected, p.State())
	require.Equal(t, []Event{EventConnect}, h.events)
	p.lastPing, p.pinging = 0, false
	return p, h
}

func ms(n int) Clock { return Clock(n) * time.Millisecond }

// reset gives all memory back.
func (r *receiver) reset() {
	for r.count > 0 {
		r.drop(r.find(markThere, r.base))
	}
}

// pending reports whether there is something to send, now or later.
func (p *Peer) pending() bool { return p.state == Connected && !p.send.empty() }

// Size returns the bytes of m on the wire.
func (m *Message) Size() int {
	switch m.Type {
	case MessageFragment:
		return FragmentHeaderSize + len(m.Data)
	case MessageSentinel:
		return SentinelSize
	default:
		return WindowAckSize
	}
}
