package core

import (
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func simConfig() *Config {
	c := DefaultConfig(0)
	c.Channels = 2
	return &c
}

// numbered returns a message that names its number.
func numbered(n, size int) []byte {
	b := make([]byte, size)
	binary.BigEndian.PutUint32(b, uint32(n))
	return b
}

// expect makes n fail the test unless numbered packets arrive in order, each
// once, and returns their count.
func (n *simNode) expect(t *testing.T) *int {
	count := new(int)
	n.onPacket = func(_ int, b []byte) {
		if got := int(binary.BigEndian.Uint32(b)); got != *count {
			t.Errorf("packet %d arrived, want %d", got, *count)
		}
		*count++
	}
	return count
}

// A feed sends as many numbered packets as find room, whenever it is called.
type feed struct {
	n       *simNode
	channel int
	size    int
	total   int
	next    int
}

func (f *feed) fill() {
	for f.next < f.total {
		if _, ok := f.n.p.Send(f.n.s.now, f.channel, numbered(f.next, f.size), Reliable, 0); !ok {
			break
		}
		f.next++
	}
	f.n.transmit()
}

// keepFull calls fill each millisecond while there is something to send.
func (f *feed) keepFull() {
	f.fill()
	if f.next < f.total {
		f.n.s.at(f.n.s.now+time.Millisecond, f.keepFull)
	}
}

func TestSessionPerfectLink(t *testing.T) {
	s := newSim(1, simConfig(), simConfig(), simLink{delay: 25 * time.Millisecond})
	s.connect(t)
	count := s.b.expect(t)
	f := &feed{n: s.a, size: 1000, total: 5000}
	f.keepFull()
	s.until(t, time.Minute, func() bool { return *count == f.total })
	s.run(time.Second)
	require.Zero(t, s.a.p.Stats().FramesLost)
	require.Len(t, s.a.fates, f.total)
	for _, x := range s.a.fates {
		require.True(t, x.Delivered)
	}
	require.True(t, s.a.p.Flushed())
}

// The bottleneck of the protocol page: a queue of one bandwidth-delay product.
func TestSessionBottleneck(t *testing.T) {
	link := simLink{delay: 25 * time.Millisecond, rate: 20e6 / 8, queue: 125_000}
	for _, loss := range []float64{0, 0.01, 0.05} {
		link.loss = loss
		s := newSim(2, simConfig(), simConfig(), link)
		s.connect(t)
		count := s.b.expect(t)
		f := &feed{n: s.a, size: 16 << 10, total: 1 << 30}
		f.keepFull()
		s.run(20 * time.Second)
		st := s.a.p.Stats()
		rate := float64(*count) * 16 * 1024 * 8 / 20 / 1e6
		t.Logf("loss %v: %.2f Mbit/s, %d frames, %d resent, %d lost, %d spurious, %d timeouts", loss, rate,
			st.FramesSent, st.FramesResent, st.FramesLost, st.Spurious, st.Timeouts)
		require.Greater(t, *count, 100)
	}
}

func TestSessionHorribleLink(t *testing.T) {
	link := simLink{jitter: 2 * time.Second, loss: 0.5, dup: 0.5}
	cfg := simConfig()
	s := newSim(3, cfg, cfg, link)
	s.connect(t)
	there, back := s.b.expect(t), s.a.expect(t)
	f := &feed{n: s.a, size: 100, total: 10_000}
	g := &feed{n: s.b, size: 100, total: 10_000}
	f.keepFull()
	g.keepFull()
	s.until(t, 4*time.Hour, func() bool { return *there == f.total && *back == g.total })
	t.Logf("%v; %+v", s.now, s.a.p.Stats())
	s.until(t, time.Hour, func() bool { return len(s.a.fates) == f.total && len(s.b.fates) == g.total })
}

func TestSessionResumesAfterBlackout(t *testing.T) {
	for _, traffic := range []Mode{Reliable, Unreliable} {
		t.Run(fmt.Sprint(traffic), func(t *testing.T) {
			s := newSim(4, simConfig(), simConfig(), simLink{delay: 25 * time.Millisecond})
			s.connect(t)
			begin := s.now + 3*time.Second
			end := begin + 15*time.Second
			dark := func(now Clock) bool { return now >= begin && now < end }
			s.a.link.dark, s.b.link.dark = dark, dark
			var last Clock
			s.b.onPacket = func(int, []byte) { last = s.now }
			var send func()
			send = func() {
				s.a.p.Send(s.now, 0, numbered(0, 200), traffic, 0)
				s.a.transmit()
				s.at(s.now+16*time.Millisecond, send)
			}
			send()
			s.run(end - s.now)
			require.Less(t, last, begin+100*time.Millisecond)
			s.until(t, 2*time.Second, func() bool { return last > end })
			s.run(5 * time.Second)
			require.Greater(t, last, s.now-200*time.Millisecond, "it goes on")
			require.Equal(t, Connected, s.a.p.State())
		})
	}
}
