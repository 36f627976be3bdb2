package riptide

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"volley/internal/wire"

	"volley/internal/testenv"
)

const window = 100 * ms

// datagramOf returns a user message that holds a number.
func datagramOf(t *testing.T, cfg *Config, m Mode, n int) []byte {
	t.Helper()
	sender, _ := newConnected(t, cfg, clientSide)
	var out wire.Batch
	_, err := sender.send(start, m, numbered(cfg, m, n).body(), &out)
	require.NoError(t, err)
	return out.At(0)
}

// Of equal unreliable messages, and of notify messages that have no id, one is
// taken in each window, which begins with the one that was taken; without a
// window each is.
func TestDuplicateWindow(t *testing.T) {
	for _, test := range []struct {
		layout layout
		mode   Mode
	}{{packed, Unreliable}, {notes, Unreliable}, {notes, Notify}} {
		for _, s := range []side{clientSide, serverSide} {
			for _, span := range []time.Duration{0, window} {
				t.Run(fmt.Sprint(test.layout, test.mode, s, span), func(t *testing.T) {
					cfg := &Config{NotesLayout: test.layout == notes, DuplicateWindow: span}
					c, r := newConnected(t, cfg, s)
					taken, copies := 0, uint64(0)
					receive := func(at time.Duration, n int, takes bool) {
						t.Helper()
						c.receive(start.Add(at), datagramOf(t, cfg, test.mode, n), new(wire.Batch))
						if takes || span <= 0 {
							taken++
						} else {
							copies++
						}
						require.Len(t, r.messages, taken, "%d at %v", n, at)
						require.Equal(t, copies, c.stats().UnreliableDuplicates)
					}
					receive(0, 1, true)
					receive(0, 1, false)
					receive(0, 2, true)
					receive(60*ms, 1, false)
					receive(60*ms, 3, true)
					receive(window-1, 1, false)
					receive(window, 1, true)
					receive(window, 2, true)
					receive(window, 3, false)
					receive(2*window-1, 2, false)
					require.Zero(t, c.stats().PacketsInvalid)
					require.EqualValues(t, taken, c.stats().MessagesReceived[test.mode])
					require.Equal(t, span > 0, c.recent.ring != nil)
				})
			}
		}
	}
}

// Messages with an id are not looked at, and neither is what another connection,
// or another mode, has received.
func TestDuplicateWindowOfOthers(t *testing.T) {
	cfg := &Config{DuplicateWindow: window}
	c, r := newConnected(t, cfg, serverSide)
	var out wire.Batch
	for id := range uint16(3) {
		body := numbered(cfg, Reliable, 1).body()
		c.set.appendReliable(&out, typeReliable, id+1, body)
		c.set.appendNotify(&out, id+1, ack{}, body)
	}
	for i := range out.Len() {
		c.receive(start, out.At(i), new(wire.Batch))
	}
	require.Len(t, r.messages, 6)
	require.Nil(t, c.recent.ring)

	cfg.NotesLayout = true
	for range 2 {
		c, r := newConnected(t, cfg, serverSide)
		for _, m := range []Mode{Unreliable, Notify} {
			b := datagramOf(t, cfg, m, 1)
			b[1], b[2] = 0, 0 // the message id
			c.receive(start, b, new(wire.Batch))
		}
		require.Len(t, r.messages, 2)
	}
}

// A message for which there was no room is not known when it comes again.
func TestDuplicateOfRefused(t *testing.T) {
	cfg := &Config{DuplicateWindow: window}
	c, r := newConnected(t, cfg, serverSide)
	b := datagramOf(t, cfg, Unreliable, 1)
	for _, r.refuse = range []bool{true, false, false} {
		c.receive(start, b, new(wire.Batch))
	}
	require.Len(t, r.messages, 1)
	require.EqualValues(t, 1, c.stats().MessagesRefused)
	require.EqualValues(t, 1, c.stats().UnreliableDuplicates)
}

// Streams repeat nothing, so equal messages over them are taken.
func TestDuplicateWindowOverStream(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var j journal
		cfg := &Config{DuplicateWindow: time.Minute}
		w := newStreamWorld(t, j.server(&Server{Config: cfg}))
		c := j.client("c", cfg)
		w.mustDial(c)
		time.Sleep(100 * ms)
		j.want(t, "server: 1 connected")
		for range 2 {
			require.NoError(t, c.Send(text(cfg, Unreliable, 5, "hello")))
			require.NoError(t, w.server.SendAll(text(cfg, Unreliable, 5, "hello")))
		}
		j.want(t, "server: 1: unreliable message 5: hello", "server: 1: unreliable message 5: hello",
			"c: unreliable message 5: hello", "c: unreliable message 5: hello")
		c.Close()
		w.close()
	})
}

// TestRecentModel compares with a list of all that was noted.
func TestRecentModel(t *testing.T) {
	type noted struct {
		number uint32
		at     time.Time
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		var r recent
		var all []noted
		now := start
		numbers, pause := 1+rng.Uint32N(400), time.Duration(1+rng.Int64N(int64(5*ms)))
		copies := 0
		for range 1000 {
			now = now.Add(time.Duration(rng.Int64N(int64(pause))))
			number := rng.Uint32N(numbers)
			want := false
			for i := max(0, len(all)-128); i < len(all); i++ {
				want = want || all[i].number == number && now.Sub(all[i].at) < window
			}
			hash, got := r.has(now, binary.LittleEndian.AppendUint32(nil, number), window)
			require.Equal(t, want, got)
			if got {
				copies++
			}
			if !got || rng.Uint32N(4) == 0 { // also what is known may be noted
				r.note(now, hash)
				all = append(all, noted{number, now})
			}
		}
		require.Positive(t, copies)
	}
}

// TestThreatRecent: what is remembered of messages to find copies is of the last
// 128, in less than 2.5 KiB, which are there from the first message until some
// time without one, and take no further memory.
func TestThreatRecent(t *testing.T) {
	require.LessOrEqual(t, unsafe.Sizeof(recentRing{}), uintptr(2304), "a size class")
	cfg := &Config{DuplicateWindow: time.Hour, Timeout: 2 * time.Hour}
	c, r := newConnected(t, cfg, serverSide)
	receive := func(at time.Duration, n int) {
		c.receive(start.Add(at), datagramOf(t, cfg, Unreliable, n), new(wire.Batch))
	}
	require.Nil(t, c.recent.ring)
	for i := range 128 {
		receive(0, i)
	}
	receive(0, 0)
	require.Len(t, r.messages, 128)
	receive(0, 128) // in place of 0
	receive(0, 1)
	require.Len(t, r.messages, 129)
	receive(0, 0)
	require.Len(t, r.messages, 130)

	beat := func(at time.Duration) {
		var in wire.Batch
		(codec{}).appendHeartbeat(&in, clientSide, 1, noRTT)
		c.receive(start.Add(at), in.At(0), new(wire.Batch))
	}
	receive(time.Second, 200)
	beat(time.Hour + time.Second - 1)
	require.NotNil(t, c.recent.ring)
	beat(time.Hour + time.Second)
	require.Nil(t, c.recent.ring)

	c.set.dupWindow = window // less than the memory is kept
	r.refuse = true
	receive(2*time.Hour, 1)
	beat(2*time.Hour + idleMemory - 1)
	require.NotNil(t, c.recent.ring)
	beat(2*time.Hour + idleMemory)
	require.Nil(t, c.recent.ring)
	receive(2*time.Hour+idleMemory, 1)
	c.end(endTimeout, 0, nil)
	require.Nil(t, c.recent.ring)
}

func TestRecentAllocs(t *testing.T) {
	if testenv.Race {
		t.Skip("the race detector allocates")
	}
	c, r := newConnected(t, &Config{DuplicateWindow: window}, serverSide)
	b := datagramOf(t, nil, Unreliable, 1)
	r.refuse = true // or the recorder allocates
	c.receive(start, b, nil)
	now := start
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		now = now.Add(ms)
		b[len(b)-1]++
		c.receive(now, b, nil)
		hash, _ := c.recent.has(now, b, window)
		c.recent.note(now, hash)
	}))
}

// BenchmarkRecent looks for a message among 128 others.
func BenchmarkRecent(b *testing.B) {
	var r recent
	d := make([]byte, 64)
	n := uint64(0)
	b.ReportAllocs()
	for b.Loop() {
		n++
		binary.LittleEndian.PutUint64(d, n)
		hash, _ := r.has(start, d, window)
		r.note(start, hash)
	}
}

// The shortest window is of what arrives at the same time.
func TestShortestDuplicateWindow(t *testing.T) {
	cfg := &Config{DuplicateWindow: 1}
	c, r := newConnected(t, cfg, clientSide)
	for i, at := range []time.Duration{0, 0, 1, 1, 2} {
		c.receive(start.Add(at), datagramOf(t, cfg, Unreliable, 1), new(wire.Batch))
		require.Len(t, r.messages, 1+int(at), "datagram %d", i)
	}
	require.EqualValues(t, 2, c.stats().UnreliableDuplicates)
}
