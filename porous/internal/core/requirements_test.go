package core

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"volley/internal/wire"
)

// The tests of this file are named after the requirements of the protocol. What
// the recordings and the model show is not shown again.

// frames returns what was appended to a batch, as strings.
func frames(out *wire.Batch) (list []string) {
	for i := range out.Len() {
		list = append(list, string(out.At(i)))
	}
	out.Reset()
	return list
}

func request(cfg *Config, id uint32) []byte {
	return AppendConnect(nil, Connect{cfg.Version, cfg.Channels, cfg.ReceiveBandwidth, id})
}

// newPeer returns a peer that connects.
func newPeer(cfg *Config) (*Peer, *recorder) {
	p, h := new(Peer), new(recorder)
	p.Init(0, cfg, 1000, h)
	return p, h
}

func TestH5H6Bandwidth(t *testing.T) {
	cfg := testConfig()
	cfg.SendBandwidth, cfg.ReceiveBandwidth = 5000, 7000
	var out wire.Batch
	p, _ := newPeer(cfg)
	p.Tick(0, &out)
	c, ok := ParseConnect(out.At(0))
	require.True(t, ok)
	require.Equal(t, Connect{0, 2, 7000, 1000}, c, "H5: the parameters are in the request")
	for _, test := range []struct{ remote, want uint32 }{{3000, 3000}, {9000, 5000}} {
		p, _ := newPeer(cfg)
		p.Receive(0, AppendConnect(nil, Connect{0, 2, test.remote, 1}), &out)
		p.Receive(0, AppendConnectAck(nil, 1000), &out)
		require.EqualValues(t, test.want, p.Stats().SendBandwidth, "H6")
	}
}

// The bandwidth agreed upon holds with both controllers.
func TestH6BandwidthLimitsWhatIsSent(t *testing.T) {
	for _, kind := range []ControllerKind{Cubic, Paper, Tolerant} {
		cfg := simConfig()
		cfg.Controller = kind
		slow := *cfg
		slow.ReceiveBandwidth = 100_000
		s := newSim(1, cfg, &slow, simLink{delay: 25 * time.Millisecond})
		s.connect(t)
		(&feed{n: s.a, size: 1000, total: 1 << 30}).keepFull()
		before := s.a.link.bytes - simHeaders*s.a.link.sent
		s.run(10 * time.Second)
		sent := s.a.link.bytes - simHeaders*s.a.link.sent - before
		require.Less(t, sent, 1_200_000, "controller %d", kind)
		require.Greater(t, sent, 700_000, "controller %d", kind)
	}
}

func TestS1S2States(t *testing.T) {
	cfg := testConfig()
	var out wire.Batch
	all := []State{Connecting, Connected, Disconnecting, Disconnected, Zombie}
	for _, from := range all {
		for _, to := range all {
			p, _ := connectedPeer(t, cfg)
			p.state = from
			p.become(0, to)
			require.Equal(t, max(from, to), p.state, "no arrow leads back, and a zombie is final")
		}
	}
	p, _ := connectedPeer(t, cfg)
	p.Abort(0, &out, false)
	for _, b := range [][]byte{request(cfg, 1), AppendConnectAck(nil, 1000), AppendDisconnect(nil), AppendPing(nil, TypePing, 1)} {
		frames(&out)
		p.Receive(1, b, &out)
		p.Tick(ms(1e6), &out)
		require.Empty(t, frames(&out))
		require.Equal(t, Zombie, p.State())
	}
	_, ok := p.Next(0)
	require.False(t, ok)
}

func TestS3S4Disconnected(t *testing.T) {
	cfg := testConfig()
	var out wire.Batch
	p, h := newPeer(cfg)
	p.Receive(0, AppendConnectAck(nil, 999), &out)
	require.Equal(t, Disconnected, p.State(), "S3: failed handshake")
	require.Equal(t, []Event{EventRefused}, h.events)
	frames(&out)
	p.Receive(1, request(cfg, 5), &out)
	p.Receive(1, AppendPing(nil, TypePing, 1), &out)
	p.Receive(1, AppendDataHeader(nil, 1000, 0), &out)
	p.EndBatch(1, &out)
	require.Empty(t, frames(&out), "S4: late duplicates")
	p.Receive(1, AppendDisconnect(nil), &out)
	require.Equal(t, []string{"\x03"}, frames(&out), "S4, D3")
}

func TestC1Requests(t *testing.T) {
	cfg := testConfig()
	var out wire.Batch
	p, _ := newPeer(cfg)
	for i := range 5 {
		at, ok := p.Next(0)
		require.True(t, ok)
		require.Equal(t, ms(500*i), at)
		p.Tick(at-1, &out)
		require.Empty(t, frames(&out))
		p.Tick(at, &out)
		require.Equal(t, []string{string(request(cfg, 1000))}, frames(&out))
	}
	p.Receive(ms(2100), AppendConnectAck(nil, 1000), &out)
	p.Tick(ms(10_000), &out)
	require.Empty(t, frames(&out), "until an ack arrives")
}

func TestC2C3C8C12Requests(t *testing.T) {
	cfg := testConfig()
	var out wire.Batch
	p, h := newPeer(cfg)
	for _, id := range []uint32{1, 1, 2} {
		p.Receive(0, request(cfg, id), &out)
		require.Equal(t, []string{string(AppendConnectAck(nil, id))}, frames(&out))
		require.Equal(t, Connecting, p.State(), "C3: both are needed")
	}
	p.Receive(0, AppendConnectAck(nil, 1000), &out)
	require.Equal(t, Connected, p.State())
	for _, id := range []uint32{2, 77} {
		p.Receive(0, request(cfg, id), &out)
		require.Equal(t, []string{string(AppendConnectAck(nil, id))}, frames(&out), "C8, C12")
		require.Equal(t, Connected, p.State())
	}
	require.Equal(t, []Event{EventConnect}, h.events)
	p.Send(0, 0, []byte("x"), Reliable, 0)
	p.Transmit(0, &out, 1)
	id, _, _, ok := ParseData(out.At(0))
	require.True(t, ok)
	require.EqualValues(t, 2, id, "the first frame has the id of the request that was received")
}

func TestC4Incompatible(t *testing.T) {
	cfg := testConfig()
	for _, c := range []Connect{{1, 2, 1, 1}, {0, 3, 1, 1}} {
		var out wire.Batch
		p, h := newPeer(cfg)
		p.Receive(0, AppendConnect(nil, c), &out)
		require.Empty(t, frames(&out), "without notice")
		require.Equal(t, Disconnected, p.State())
		require.Equal(t, []Event{EventRefused}, h.events)

		q, _ := connectedPeer(t, cfg)
		q.Receive(0, AppendConnect(nil, c), &out)
		require.Empty(t, frames(&out))
		require.Equal(t, Connected, q.State(), "only compatible requests matter when connected")
	}
}

func TestC5WrongAck(t *testing.T) {
	var out wire.Batch
	p, _ := newPeer(testConfig())
	p.Receive(0, AppendConnectAck(nil, 1001), &out)
	require.Equal(t, Disconnected, p.State())
	q, _ := connectedPeer(t, testConfig())
	q.Receive(0, AppendConnectAck(nil, 1001), &out)
	require.Equal(t, Connected, q.State())
}

// Whatever is lost of a handshake, and whoever begins, it comes about.
func TestC6C7C8Handshakes(t *testing.T) {
	for lost := range 1 << 6 {
		for _, both := range []bool{true, false} {
			cfg := simConfig()
			s := newSim(uint64(lost), cfg, cfg, simLink{delay: 20 * time.Millisecond})
			n := 0
			drop := func(Clock) bool { n++; return n <= 6 && lost>>(n-1)&1 == 1 }
			s.a.link.dark, s.b.link.dark = drop, drop
			s.a.step()
			s.at(ms(20), s.b.step)
			if both {
				s.b.step()
			}
			s.until(t, 10*time.Second, func() bool { return s.a.p.State() == Connected && s.b.p.State() == Connected })
			require.Equal(t, s.a.p.ownID, s.b.p.remoteID, "C6: the ids seed the windows")
			require.Equal(t, s.b.p.ownID, s.a.p.remoteID)
			require.Equal(t, s.a.p.ownID, s.a.p.recv.window.next)
			require.Equal(t, s.b.p.ownID, s.a.p.send.queue.next)
		}
	}
}

func TestC9HandshakeTimeout(t *testing.T) {
	var out wire.Batch
	p, h := newPeer(testConfig())
	p.Tick(ms(19_999), &out)
	require.Equal(t, Connecting, p.State())
	p.Tick(ms(20_000), &out)
	require.Equal(t, Zombie, p.State())
	require.Equal(t, []Event{EventUnanswered}, h.events)
}

func TestC10C11BeforeItIsConnected(t *testing.T) {
	cfg := testConfig()
	var out wire.Batch
	p, h := newPeer(cfg)
	number, ok := p.Send(0, 1, []byte("early"), Reliable, 0)
	require.True(t, ok)
	require.EqualValues(t, 1, number)
	for _, b := range [][]byte{AppendPing(nil, TypePing, 1), AppendDataHeader(nil, 1000, 0), AppendDataAck(nil, []uint32{1}), AppendDisconnectAck(nil)} {
		p.Receive(0, b, &out)
		p.EndBatch(0, &out)
		require.False(t, p.Transmit(0, &out, 10))
		require.Empty(t, frames(&out), "C10")
		require.Equal(t, Connecting, p.State())
	}
	p.Receive(0, request(cfg, 9), &out)
	p.Receive(0, AppendConnectAck(nil, 1000), &out)
	frames(&out)
	p.Transmit(0, &out, 10)
	require.Contains(t, frames(&out)[0], "early", "C11")
	require.Equal(t, []Event{EventConnect}, h.events)
}

func TestD1Disconnect(t *testing.T) {
	var out wire.Batch
	p, h := connectedPeer(t, testConfig())
	p.Disconnect(0, false)
	require.Equal(t, Disconnecting, p.State())
	for i := range 3 {
		p.Tick(ms(500*i), &out)
		require.Equal(t, []string{"\x02"}, frames(&out))
		p.Tick(ms(500*i+499), &out)
		require.Empty(t, frames(&out))
	}
	p.Receive(ms(1400), AppendDisconnectAck(nil), &out)
	require.Equal(t, Disconnected, p.State())
	require.Equal(t, []Event{EventConnect, EventDisconnect}, h.events, "D5")
}

func TestD1Flush(t *testing.T) {
	var out wire.Batch
	p, h := connectedPeer(t, testConfig())
	p.Send(0, 0, []byte("last words"), Reliable, 0)
	p.Disconnect(0, true)
	require.Equal(t, Connected, p.State())
	_, ok := p.Send(0, 0, []byte("too late"), Reliable, 0)
	require.False(t, ok)
	p.Transmit(0, &out, 10)
	require.Contains(t, frames(&out)[0], "last words")
	p.Tick(1, &out)
	require.Equal(t, Connected, p.State())
	p.Receive(2, AppendDataAck(nil, []uint32{2000}), &out)
	p.EndBatch(2, &out)
	require.Equal(t, Disconnecting, p.State())
	require.Len(t, h.fates, 1)
	require.True(t, h.fates[0].Delivered)
}

func TestD2DisconnectedByThePeer(t *testing.T) {
	for _, flushing := range []bool{false, true} {
		var out wire.Batch
		p, h := connectedPeer(t, testConfig())
		p.Send(0, 0, []byte("lost"), Reliable, 0)
		p.Transmit(0, &out, 10)
		frames(&out)
		p.Send(0, 0, []byte("lost"), Reliable, 0)
		if flushing {
			p.Disconnect(0, true)
		}
		p.Receive(0, AppendDisconnect(nil), &out)
		require.Equal(t, []string{"\x03"}, frames(&out))
		require.Equal(t, Disconnected, p.State())
		require.Len(t, h.fates, 2, "pending data is dropped")
		require.False(t, h.fates[0].Delivered || h.fates[1].Delivered)
		require.Equal(t, []Event{EventConnect, EventDisconnect}, h.events)
	}
	var out wire.Batch
	p, _ := connectedPeer(t, testConfig())
	p.Disconnect(0, false)
	p.Receive(0, AppendDisconnect(nil), &out)
	require.Equal(t, Disconnected, p.State())
}

// Who gives up before the handshake is done tells a peer that may be connected.
func TestAbortWhileConnecting(t *testing.T) {
	cfg := testConfig()
	for _, requested := range []bool{false, true} {
		var out wire.Batch
		p, _ := newPeer(cfg)
		if requested {
			p.Receive(0, request(cfg, 1), &out)
			frames(&out)
		}
		p.Abort(0, &out, false)
		require.Equal(t, requested, len(frames(&out)) == 1)
		require.Equal(t, Zombie, p.State())
	}
}

// What arrived in the same batch as the end is delivered.
func TestD2DeliversWhatCameBefore(t *testing.T) {
	var out wire.Batch
	p, h := connectedPeer(t, testConfig())
	for _, n := range []uint32{1, 0} {
		b := AppendMessage(AppendDataHeader(nil, 1000+n, 1), &Message{Packet: n, Data: []byte{byte(n)}})
		p.Receive(0, b, &out)
	}
	p.Receive(0, AppendDisconnect(nil), &out)
	require.Equal(t, []received{{0, "\x00"}, {0, "\x01"}}, h.packets)
}

func TestD3D4Ends(t *testing.T) {
	var out wire.Batch
	p, _ := connectedPeer(t, testConfig())
	p.Receive(0, AppendDisconnect(nil), &out)
	for now := range 20 {
		frames(&out)
		p.Receive(ms(1000*now), AppendDisconnect(nil), &out)
		require.Equal(t, []string{"\x03"}, frames(&out), "D3: it goes on answering")
	}
	p.Tick(ms(19_999), &out)
	require.Equal(t, Disconnected, p.State())
	p.Tick(ms(20_000), &out)
	require.Equal(t, Zombie, p.State(), "D3: traffic does not prolong it")

	p, h := connectedPeer(t, testConfig())
	p.Disconnect(0, false)
	p.Tick(ms(20_000), &out)
	require.Equal(t, Disconnected, p.State(), "D4")
	require.Equal(t, EventUnconfirmed, h.events[1])
}

func TestD5D6Watchdog(t *testing.T) {
	for _, b := range [][]byte{
		AppendPing(nil, TypePing, 1), AppendPing(nil, TypePingAck, 1), AppendDataAck(nil, nil),
		AppendDataHeader(nil, 1000, 0), AppendConnectAck(nil, 5), AppendDisconnectAck(nil),
	} {
		var out wire.Batch
		p, h := connectedPeer(t, testConfig())
		p.Receive(ms(5000), b, &out)
		p.Tick(ms(20_000), &out)
		require.Equal(t, Connected, p.State(), "any valid frame counts: %x", b)
		p.Receive(ms(6000), []byte{9, 9}, &out)
		p.Receive(ms(6000), []byte{0, 9}, &out)
		p.Tick(ms(25_000), &out)
		require.Equal(t, Zombie, p.State())
		require.Equal(t, []Event{EventConnect, EventTimeout}, h.events, "D5")
	}
}

func TestD7AckOutOfPlace(t *testing.T) {
	var out wire.Batch
	p, _ := newPeer(testConfig())
	p.Receive(0, AppendDisconnectAck(nil), &out)
	require.Equal(t, Connecting, p.State())
	q, _ := connectedPeer(t, testConfig())
	q.Receive(0, AppendDisconnectAck(nil), &out)
	require.Equal(t, Connected, q.State())
}

// A forged disconnect is ignored as long as the peer answers pings; a real one
// is not.
func TestVerifyDisconnect(t *testing.T) {
	cfg := testConfig()
	cfg.VerifyDisconnect = true
	var out wire.Batch
	p, _ := connectedPeer(t, cfg)
	for i := range 10 {
		now := ms(1000 * i)
		p.Receive(now, AppendDisconnect(nil), &out)
		list := frames(&out)
		require.Len(t, list, 1)
		id, ok := ParsePing([]byte(list[0]), TypePing)
		require.True(t, ok, "a ping, and no answer")
		p.Receive(now+ms(1), AppendDisconnect(nil), &out)
		require.Empty(t, frames(&out))
		p.Receive(now+ms(30), AppendPing(nil, TypePingAck, id), &out)
		require.Equal(t, Connected, p.State())
	}
	p.Receive(ms(20_000), AppendDisconnect(nil), &out)
	frames(&out)
	p.Receive(ms(20_500), AppendDisconnect(nil), &out)
	require.Equal(t, []string{"\x03"}, frames(&out))
	require.Equal(t, Disconnected, p.State())
}

// A request to end comes with the last acknowledgements: they may have been
// lost, or not have left yet.
func TestD1LastAcks(t *testing.T) {
	cfg := testConfig()
	cfg.AckRepeats = 2
	for _, abort := range []bool{false, true} {
		var out wire.Batch
		p, _ := connectedPeer(t, cfg)
		p.Receive(0, AppendDataHeader(nil, 1000, 0), &out)
		p.EndBatch(0, &out)
		frames(&out)
		p.Receive(1, AppendDataHeader(nil, 1001, 0), &out)
		if abort {
			p.Abort(2, &out, false)
		} else {
			p.EndBatch(1, &out)
			frames(&out)
			p.Disconnect(2, true)
			p.Tick(2, &out)
		}
		frame := parsedFrames(&out)
		require.Len(t, frame, 3)
		require.ElementsMatch(t, []uint32{1000, 1001}, frame[0].acks)
		require.Equal(t, TypeDisconnect, frame[1].kind)
		require.ElementsMatch(t, []uint32{1000, 1001}, frame[2].acks, "again, for what was lost or overtaken")
		if !abort {
			p.Tick(600*time.Millisecond, &out)
			require.Len(t, parsedFrames(&out), 3, "and with each repetition")
		}
	}
}

// D2: a request to end waits for acknowledgements that were lost or overtaken,
// if it is told to, but not for long, and nothing is sent meanwhile.
func TestD2AwaitsAcks(t *testing.T) {
	cfg := testConfig()
	cfg.AwaitAcks = true
	for _, acked := range []bool{true, false} {
		var out wire.Batch
		p, h := connectedPeer(t, cfg)
		p.Send(0, 0, []byte("on its way"), Reliable, 0)
		p.Transmit(0, &out, 10)
		frames(&out)
		p.Receive(ms(10), AppendDisconnect(nil), &out)
		p.EndBatch(ms(10), &out)
		p.Send(ms(10), 0, []byte("in vain"), Reliable, 0)
		p.Transmit(ms(10), &out, 10)
		require.Empty(t, frames(&out))
		require.Equal(t, Connected, p.State())
		at, _ := p.Next(ms(10))
		require.LessOrEqual(t, at, ms(610))
		p.Receive(ms(510), AppendDisconnect(nil), &out)
		if acked {
			p.Receive(ms(510), AppendDataAck(nil, []uint32{2000}), &out)
			p.EndBatch(ms(510), &out)
		} else {
			p.EndBatch(ms(510), &out)
			p.Tick(ms(609), &out)
			require.NotContains(t, frames(&out), "\x03")
			p.Tick(ms(610), &out)
		}
		require.Contains(t, frames(&out), "\x03")
		require.Equal(t, Disconnected, p.State())
		require.Len(t, h.fates, 2)
		require.Equal(t, acked, h.fates[0].Delivered)
		require.False(t, h.fates[1].Delivered)
		require.Equal(t, []Event{EventConnect, EventDisconnect}, h.events)
	}
	var out wire.Batch
	p, _ := connectedPeer(t, cfg)
	p.Send(0, 0, []byte("not sent yet"), Reliable, 0)
	p.Receive(0, AppendDisconnect(nil), &out)
	require.Equal(t, []string{"\x03"}, frames(&out), "nothing is on its way")
}

// A parsed frame is what a test wants to know of one.
type parsed struct {
	kind FrameType
	acks []uint32
}

func parsedFrames(out *wire.Batch) (list []parsed) {
	for _, b := range frames(out) {
		f := parsed{kind: FrameType(b[0])}
		for rest, _ := ParseDataAck([]byte(b)); len(rest) > 0; {
			var id uint32
			id, rest = FrameID(rest)
			f.acks = append(f.acks, id)
		}
		list = append(list, f)
	}
	return list
}
