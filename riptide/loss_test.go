package riptide

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"volley/internal/wire"
)

// A talker is a client whose datagrams a test counts and whose acknowledgements it
// makes.
type talker struct {
	t *testing.T
	c *connection
	r *recorder
	// at is the time since start.
	at   time.Duration
	sent map[uint16]int // how often each id was
}

// newTalker returns a talker who has learned that acknowledgements take 8 ms. Its
// next id is 2.
func newTalker(t *testing.T, cfg *Config) *talker {
	c, r := newConnected(t, cfg, clientSide)
	c.beat, c.set.timeout = start.Add(time.Hour), -1
	k := &talker{t: t, c: c, r: r, sent: make(map[uint16]int)}
	k.send()
	k.until(8 * ms)
	k.ack(ack{newest: 1})
	clear(k.sent)
	return k
}

func (k *talker) note(out *wire.Batch) {
	for i := range out.Len() {
		p, _ := (codec{}).parse(clientSide, out.At(i))
		k.sent[p.seq]++
	}
}

func (k *talker) send() uint16 {
	var out wire.Batch
	id, err := k.c.send(start.Add(k.at), Reliable, []byte{0x10, 1}, &out)
	require.NoError(k.t, err)
	k.note(&out)
	return id
}

func (k *talker) ack(a ack) {
	var in, out wire.Batch
	(codec{}).appendAck(&in, a)
	k.c.receive(start.Add(k.at), in.At(0), &out)
	k.note(&out)
}

// until lets time pass.
func (k *talker) until(end time.Duration) {
	for ; k.at < end; k.at += ms / 2 {
		var out wire.Batch
		k.c.tick(start.Add(k.at), false, &out)
		k.note(&out)
	}
}

// A message is sent again when one that left later has been acknowledged, as soon
// as its own acknowledgement should have come; not before, because the network may
// have changed their order, and not because of one that left earlier.
func TestResendAfterLaterAcks(t *testing.T) {
	for _, reordered := range []bool{false, true} {
		k := newTalker(t, nil)
		k.until(20 * ms)
		k.send() // 2
		k.until(21 * ms)
		k.send() // 3
		k.until(22 * ms)
		k.send() // 4
		clear(k.sent)
		k.until(29 * ms)
		k.ack(ack{newest: 3, bits: 1 << 1})
		k.until(30 * ms)
		require.Empty(t, k.sent, "a quarter more than acknowledgements take")
		if reordered {
			k.ack(ack{newest: 3, id: 2, has: true})
		}
		k.until(31 * ms)
		if reordered {
			require.Empty(t, k.sent)
		} else {
			require.Equal(t, map[uint16]int{2: 1}, k.sent)
		}
	}
}

// What was sent again is not sent once more because of something that left before.
func TestResendOncePerAck(t *testing.T) {
	k := newTalker(t, nil)
	k.c.sender.delay.late(40 * ms)
	k.until(20 * ms)
	for range 5 { // 2 to 6
		k.send()
		k.until(k.at + ms)
	}
	clear(k.sent)
	k.until(29 * ms)
	k.ack(ack{newest: 3, bits: 1 << 1})
	k.until(31 * ms)
	require.Equal(t, map[uint16]int{2: 1}, k.sent)
	k.ack(ack{newest: 6, bits: 1<<2 | 1<<1 | 1 | 1<<4})
	require.Equal(t, 1, k.c.sender.waiting())
	k.until(70 * ms)
	require.Equal(t, map[uint16]int{2: 1}, k.sent)
	k.until(77 * ms)
	require.Equal(t, map[uint16]int{2: 2}, k.sent, "not acknowledged in the time that it takes at worst")
}

// An acknowledgement that comes too soon after a message was sent again is about the
// time before, and one that comes late may be: neither shows that what left meanwhile
// was lost.
func TestAmbiguousAcks(t *testing.T) {
	for d, proves := range map[time.Duration]bool{5 * ms: false, 7 * ms: true, 9 * ms: true, 11 * ms: false} {
		k := newTalker(t, nil)
		k.at = 20 * ms
		id := k.send()
		k.until(30*ms + ms/2)
		require.Equal(t, 2, k.sent[id])
		k.until(30*ms + d)
		k.ack(ack{newest: id})
		want := start.Add(20 * ms)
		if proves {
			want = start.Add(30 * ms)
		}
		require.Equal(t, want, k.c.sender.proven, "after %v", d)
		require.Equal(t, start.Add(20*ms), k.c.sender.certain)
	}
}

// What is sent again, and lost again, is sent again when something newer has been
// acknowledged. That happens six times, three of them without a pause. Then it is the
// interval that counts, and only then the limit of sends.
func TestHastenedSends(t *testing.T) {
	k := newTalker(t, nil)
	k.until(20 * ms)
	lost := k.send()
	var times []time.Duration
	for k.c.state == stateConnected {
		before := k.sent[lost]
		id := k.send()
		k.until(k.at + 8*ms)
		k.ack(ack{newest: id})
		k.until(k.at + 2*ms)
		if k.sent[lost] > before {
			times = append(times, k.at-20*ms)
		}
		require.Less(t, k.at, 10*time.Second)
	}
	require.Equal(t, 15+6, k.sent[lost])
	require.Less(t, times[2], 50*ms)
	require.Less(t, times[5], 200*ms)
	require.Greater(t, k.at, 15*50*ms, "no sooner than without")
	require.Equal(t, endPoor, k.r.end)
}

// The oldest messages are sent again after the time that acknowledgements have been
// measured to take, at least 10 ms, which doubles until an acknowledgement has been
// measured again, up to the interval.
func TestQuickResend(t *testing.T) {
	k := newTalker(t, nil)
	k.at = 20 * ms
	for range 5 {
		k.send()
	}
	var times []time.Duration
	for k.at < 250*ms {
		before := k.sent[2]
		k.until(k.at + ms/2)
		if k.sent[2] > before {
			times = append(times, (k.at - 20*ms).Truncate(ms))
		}
	}
	require.Equal(t, []time.Duration{10 * ms, 30 * ms, 70 * ms, 120 * ms, 170 * ms, 220 * ms}, times)
	require.Equal(t, map[uint16]int{2: 7, 3: 7, 4: 1, 5: 1, 6: 1}, k.sent)

	id := k.send()
	k.until(k.at + 9*ms)
	k.ack(ack{newest: id, bits: 1<<5 - 1})
	require.Zero(t, k.c.sender.waiting())
	clear(k.sent)
	id = k.send()
	k.until(k.at + 11*ms)
	require.Equal(t, 2, k.sent[id], "quick again")

	k.c.sender.delay.late(400 * ms)
	require.Equal(t, pace{quick: 450 * ms, full: 450 * ms}, k.c.pace())
	k.c.sender.delay.worst = 30 * ms
	require.Equal(t, 33750*time.Microsecond, k.c.pace().quick)
	k.c.rtt.measured(35)
	require.Equal(t, pace{quick: 42 * ms, full: 50 * ms}, k.c.pace())
}

// New ids are at most 31 ahead of the newest that is known to have arrived, however
// many before it are missing, and 512 ahead of the oldest that is missing.
func TestReliableWindow(t *testing.T) {
	c, _ := newConnected(t, &Config{IgnoreQuality: true}, clientSide)
	var in, out wire.Batch
	for range 1000 {
		_, err := c.send(start, Reliable, []byte{0x10, 1}, &out)
		require.NoError(t, err)
	}
	require.Equal(t, 31, out.Len())
	newest := func() (id uint16) {
		p, _ := (codec{}).parse(clientSide, out.At(out.Len()-1))
		return p.seq
	}
	for _, id := range []uint16{20, 31, 7, 62, 90, 120, 150, 180, 210, 240, 270, 300, 330, 360, 390, 420, 450, 480} {
		in.Reset()
		(codec{}).appendAck(&in, ack{newest: max(id, c.acks.newest), id: id, has: id < c.acks.newest})
		c.receive(start, in.At(0), &out)
		require.Equal(t, int(min(c.acks.newest+31, 511+1)), int(newest()), "after %d", id)
	}
	require.Equal(t, 512, len(c.sender.slots))
	require.Equal(t, 1000-18, c.sender.waiting())
	in.Reset()
	(codec{}).appendAck(&in, ack{newest: 500})
	c.receive(start, in.At(0), &out)
	require.EqualValues(t, 512, newest(), "1 is missing")
	in.Reset()
	(codec{}).appendAck(&in, ack{newest: 500, id: 1, has: true})
	c.receive(start, in.At(0), &out)
	require.EqualValues(t, 513, newest(), "2 is missing")
}

// Bodies are used again, and no more than 32 are kept.
func TestSpareBodies(t *testing.T) {
	k := newTalker(t, nil)
	for range 10 {
		first := k.c.sender.next
		for range 500 {
			id := k.send()
			k.c.sender.arrived = id // so that more than 31 get under way
		}
		for id := first; id != k.c.sender.next; id++ {
			k.c.sender.acked(start.Add(k.at), id, false)
		}
		require.Len(t, k.c.sender.spare, maxSpareBodies)
		require.Zero(t, k.c.sender.bytes)
	}
	k.until(k.at + idleMemory + time.Second)
	require.Nil(t, k.c.sender.spare)
	require.Nil(t, k.c.sender.slots)
}
