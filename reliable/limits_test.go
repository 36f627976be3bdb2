package reliable

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The limits of time and number at which something changes, each on both sides of it.

// The exported sizes are the least and the most that headers take.
func TestHeaderSizes(t *testing.T) {
	least, most := 1000, 0
	for _, ackBits := range []uint32{0, noBits, 0xffffff00, 0x00ff00ff} {
		for _, ack := range []uint16{99, 100} {
			n := len(AppendHeader(nil, Header{355, ack, ackBits}))
			least, most = min(least, n), max(most, n)
		}
	}
	require.Equal(t, 4, least)
	require.Equal(t, MaxHeaderSize, most)
	require.Len(t, AppendFragmentHeader(nil, FragmentHeader{1, 2, 3}), FragmentHeaderSize)
}

// packet returns a datagram with a message.
func packet(h Header) []byte { return append(AppendHeader(nil, h), 'x') }

// What is behind the window is stale as long as a datagram may live in the network,
// 10 s, and from then on it is only not believed at once. So are fragments.
func TestStaleForTenSeconds(t *testing.T) {
	for _, test := range []struct {
		after time.Duration
		want  Verdict
	}{{10*time.Second - 1, stale}, {10 * time.Second, parked}} {
		for name, datagram := range map[string][]byte{
			"packet":   packet(Header{60000, 65535, 0}),
			"fragment": append(AppendFragmentHeader(nil, FragmentHeader{60000, 1, 3}), noise[:1024]...),
		} {
			e, err := newEndpoint(&Config{JumpGuard: true}, testTime(0), nil)
			require.NoError(t, err)
			require.Equal(t, Delivered, e.Receive(testTime(7), packet(Header{0, 65535, 0})))
			require.Equal(t, test.want, e.Receive(testTime(7).Add(test.after), datagram), "%s after %v", name, test.after)
		}
	}
}

// A peer that says that it has heard nothing is asked for 10 s after the last packet,
// and believed afterwards.
func TestAskedForTenSeconds(t *testing.T) {
	for _, test := range []struct {
		after time.Duration
		want  Verdict
		asked bool
	}{{10*time.Second - 1, stale, true}, {10 * time.Second, Delivered, false}} {
		e, err := newEndpoint(&Config{JumpGuard: true, MidStream: true, AckDelay: 20 * time.Millisecond}, testTime(0), nil)
		require.NoError(t, err)
		require.Equal(t, Delivered, e.Receive(testTime(7), packet(Header{1000, 65535, 0})))
		now := testTime(7).Add(test.after)
		require.Equal(t, test.want, e.Receive(now, packet(Header{0, 65535, 0})), "after %v", test.after)
		require.Equal(t, test.asked, e.Inner().InquiryDue(now), "after %v", test.after)
		require.False(t, e.Inner().InquiryDue(now), "again")
	}
}

// A peer that has started anew and has heard us is believed at once. Within 10 s of
// its former packets those before its first one are taken for copies of them, and
// later they are packets that were overtaken.
func TestStartedAnew(t *testing.T) {
	for _, test := range []struct {
		after time.Duration
		want  Verdict
	}{{10*time.Second - 1, Duplicate}, {10 * time.Second, Delivered}} {
		for name, first := range map[string][]byte{
			"packet":   packet(Header{100, 0, 1}),
			"fragment": append(AppendHeader(AppendFragmentHeader(nil, FragmentHeader{100, 0, 2}), Header{100, 0, 1}), noise[:1024]...),
		} {
			e, err := newEndpoint(&Config{JumpGuard: true, MidStream: true}, testTime(0), nil)
			require.NoError(t, err)
			var out Batch
			mustSend(t, e, testTime(0), []byte("hello"), &out)
			require.Equal(t, Delivered, e.Receive(testTime(7), packet(Header{1000, 65535, 0})))
			now := testTime(7).Add(test.after)
			require.True(t, e.Receive(now, first).Live(), "%s after %v", name, test.after)
			require.Equal(t, test.want, e.Receive(now, packet(Header{99, 65535, 0})), "%s after %v", name, test.after)
			require.Equal(t, Delivered, e.Receive(now, packet(Header{101, 65535, 0})))
		}
	}
}

// Only the first fragment of a packet tells what its sender has heard.
func TestStartedAnewInLaterFragment(t *testing.T) {
	e, err := newEndpoint(&Config{JumpGuard: true, MidStream: true}, testTime(0), nil)
	require.NoError(t, err)
	var out Batch
	mustSend(t, e, testTime(0), []byte("hello"), &out)
	require.Equal(t, Delivered, e.Receive(testTime(7), packet(Header{1000, 65535, 0})))
	for id := uint8(1); id < 3; id++ {
		datagram := append(AppendFragmentHeader(nil, FragmentHeader{100, id, 4}), noise[:1024]...)
		require.Equal(t, stale, e.Receive(testTime(8), datagram), "fragment %d", id)
	}
}

// An inquiry leaves 100 ms after the last packet of ours at the earliest.
func TestInquiryPause(t *testing.T) {
	for _, test := range []struct {
		after time.Duration
		want  bool
	}{{100*time.Millisecond - 1, false}, {100 * time.Millisecond, true}} {
		e, err := newEndpoint(&Config{JumpGuard: true, MidStream: true, AckDelay: 20 * time.Millisecond}, testTime(0), nil)
		require.NoError(t, err)
		require.Equal(t, Delivered, e.Receive(testTime(7), packet(Header{1000, 65535, 0})))
		var out Batch
		mustSend(t, e, testTime(8), []byte("hello"), &out)
		now := testTime(8).Add(test.after)
		require.Equal(t, stale, e.Receive(now, packet(Header{0, 65535, 0})))
		require.Equal(t, test.want, e.Inner().InquiryDue(now), "after %v", test.after)
	}
}

// A window of received packets that turns over within a second doubles, and one that
// takes a second does not.
func TestReceivedTurn(t *testing.T) {
	for _, test := range []struct {
		took  time.Duration
		grows bool
	}{{time.Second - 1, true}, {time.Second, false}} {
		e, err := newEndpoint(&Config{MaxWindow: 256}, testTime(0), nil)
		require.NoError(t, err)
		before := e.in.seen.Track()
		for s := range uint16(before) {
			now := testTime(0)
			if int(s) == before-1 {
				now = now.Add(test.took)
			}
			require.Equal(t, before, e.in.seen.Track(), "packet %d", s)
			require.Equal(t, Delivered, e.Receive(now, packet(Header{s, 65535, 0})))
		}
		require.Equal(t, test.grows, e.in.seen.Track() > before, "in %v", test.took)
	}
}

// From 256 packets on a window of sent packets grows only for packets that are
// younger than 2 s.
func TestGrowthAge(t *testing.T) {
	for _, test := range []struct {
		age   time.Duration
		grows bool
	}{{2*time.Second - 1, true}, {2 * time.Second, false}} {
		e, err := newEndpoint(&Config{MaxWindow: 1024}, testTime(0), nil)
		require.NoError(t, err)
		var out Batch
		send := func(now time.Time) {
			out.Reset()
			mustSend(t, e, now, []byte{1}, &out)
		}
		for len(e.out.ring) < trustedWindow || int(e.NextID())%trustedWindow < trustedWindow/2 {
			send(testTime(0))
		}
		require.Len(t, e.out.ring, 256)
		now := testTime(0).Add(test.age)
		send(now)
		require.Equal(t, test.grows, len(e.out.ring) > trustedWindow, "packets of %v", test.age)
	}
}

// A packet counts as lost in the figure when it is older than 2 s, or than two round
// trips if that is more.
func TestOverdueAge(t *testing.T) {
	for _, test := range []struct {
		rtt  float32
		age  time.Duration
		loss bool
	}{
		{0, 2 * time.Second, false}, {0, 2*time.Second + 1, true},
		{900, 2 * time.Second, false}, {900, 2*time.Second + 1, true},
		{1500, 3 * time.Second, false}, {1500, 3*time.Second + 1, true},
	} {
		e, err := newEndpoint(&Config{MaxWindow: 64}, testTime(0), nil)
		require.NoError(t, err)
		var out Batch
		mustSend(t, e, testTime(0), []byte{1}, &out)
		e.meter.stats.RTT = test.rtt
		e.Update(testTime(0).Add(test.age))
		require.Equal(t, test.loss, e.Stats().PacketLoss > 0, "%v of age, round trips of %v ms", test.age, test.rtt)
	}
}

// Of the buffers that reassemblies leave behind four stay whatever their size, and
// up to sixteen as long as they hold at most 64 KiB.
func TestSpares(t *testing.T) {
	for _, test := range []struct {
		size, open, want int
	}{{16, 30, 16}, {4096, 30, 16}, {4097, 30, 15}, {8192, 30, 8}, {8193, 30, 7}, {16384, 30, 4}, {65000, 30, 4}, {65000, 3, 3}} {
		cfg := &Config{FragmentSize: test.size, MaxPacketSize: 2 * test.size}
		e, err := newEndpoint(cfg, testTime(0), nil)
		require.NoError(t, err)
		for s := range uint16(test.open) {
			datagram := append(AppendFragmentHeader(nil, FragmentHeader{s, 1, 3}), make([]byte, test.size)...)
			require.Equal(t, fragmentStored, e.Receive(testTime(0), datagram))
		}
		each := (e.MemoryUsage() - tableSize(len(e.parts.table)) - e.receivedRest()) / test.open
		require.Equal(t, partSize(&e.env)+test.size, each, "one of %d bytes", test.size)
		e.Reset()
		require.Equal(t, test.want, (e.MemoryUsage()-tableSize(len(e.parts.table))-e.receivedRest())/each, "%d of %d bytes", test.open, test.size)
	}
}

// receivedRest is the memory of the window of received packets.
func (e *Endpoint) receivedRest() int { return e.in.seen.Bytes() }

// ReassemblyDue is zero from when on there is something to expire, not less.
func TestReassemblyOverdue(t *testing.T) {
	e, err := newEndpoint(&Config{ReassemblyTimeout: time.Second}, testTime(0), nil)
	require.NoError(t, err)
	datagram := append(AppendFragmentHeader(nil, FragmentHeader{0, 1, 3}), noise[:1024]...)
	require.Equal(t, fragmentStored, e.Receive(testTime(0), datagram))
	for _, test := range []struct{ at, want time.Duration }{{0, time.Second}, {time.Second - 1, 1}, {time.Second, 0}, {3 * time.Second, 0}} {
		wait, pending := e.Inner().ReassemblyDue(testTime(0).Add(test.at))
		require.True(t, pending)
		require.Equal(t, test.want, wait, "at %v", test.at)
	}
}

// What ControlDue returns is never negative, and it is zero for what is overdue.
func TestControlOverdue(t *testing.T) {
	d := newDialogue(t)
	d.listen()
	d.receive(4000, 4, 'x')
	d.due(4050, 4050)
	d.due(4060, 4060)
}

// ResetAll begins to measure anew: the time before it does not count towards the
// first smoothing.
func TestResetAllMeasuresAnew(t *testing.T) {
	figure := func(idle time.Duration) float32 {
		e, err := newEndpoint(&Config{MaxWindow: 64, SmoothingInterval: time.Second, LossSmoothing: 0.5}, testTime(0), nil)
		require.NoError(t, err)
		e.resetAll(testTime(0).Add(idle))
		var out Batch
		for range 30 {
			mustSend(t, e, testTime(0).Add(idle), []byte{1}, &out)
		}
		e.Update(testTime(3).Add(idle))
		return e.Stats().PacketLoss
	}
	require.Positive(t, figure(0))
	require.Equal(t, figure(0), figure(time.Hour))
}

// Copies of what a peer sent before it started anew stay copies, also where its
// first packet was refused, or is not complete.
func TestStartedAnewButNotAccepted(t *testing.T) {
	e, err := newEndpoint(&Config{JumpGuard: true, MidStream: true}, testTime(0), HandlerFunc(func(s uint16, _ []byte) bool { return s != 100 }))
	require.NoError(t, err)
	var out Batch
	mustSend(t, e, testTime(0), []byte("hello"), &out)
	require.Equal(t, Delivered, e.Receive(testTime(7), packet(Header{1000, 65535, 0})))
	require.Equal(t, Refused, e.Receive(testTime(8), packet(Header{100, 0, 1})))
	require.Equal(t, Duplicate, e.Receive(testTime(8), packet(Header{80, 65535, 0})))
	require.Equal(t, Delivered, e.Receive(testTime(8), packet(Header{101, 65535, 0})))
}
