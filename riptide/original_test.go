package riptide

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"volley/internal/testenv"
	"volley/internal/wire"
)

// An original sends reliable messages by the rules of the released C# library:
// again after 1.2 round trips, at least 10 ms, unless the last time is less than
// half a round trip ago, and when an id leaves the record of 32 acknowledged ones
// unacknowledged. It has no window; the application has. Its Update is called
// without a pause, which flatters it.
type original struct {
	next    uint16
	pending map[uint16]*outgoing
	newest  uint16
	record  uint32 // bit i: newest-i was acknowledged
	rtt     time.Duration
}

func newOriginal(rtt time.Duration) *original {
	return &original{next: 1, pending: make(map[uint16]*outgoing), record: 1, rtt: rtt}
}

func (o *original) interval() time.Duration { return max(10*ms, o.rtt*12/10) }

func (o *original) waiting() int { return len(o.pending) }

func (o *original) send(now time.Time, body []byte, out *wire.Batch) {
	m := &outgoing{seq: o.next, body: body}
	o.pending[o.next] = m
	o.next++
	o.transmit(now, m, out)
}

func (o *original) transmit(now time.Time, m *outgoing, out *wire.Batch) {
	m.sends++
	m.lastSent, m.due = now, now.Add(o.interval())
	(codec{}).appendReliable(out, typeReliable, m.seq, m.body)
}

func (o *original) resend(now time.Time, m *outgoing, out *wire.Batch) {
	if now.Sub(m.lastSent) < o.rtt/2 {
		m.due = now.Add(o.interval())
		return
	}
	o.transmit(now, m, out)
}

func (o *original) dueAt() (at time.Time) {
	for _, m := range o.pending {
		at = earliest(at, m.due)
	}
	return at
}

func (o *original) tick(now time.Time, out *wire.Batch) {
	for id := o.next - uint16(min(int(o.next), 1<<12)); id != o.next; id++ {
		if m := o.pending[id]; m != nil && !now.Before(m.due) {
			o.resend(now, m, out)
		}
	}
}

func (o *original) receive(now time.Time, b []byte, out *wire.Batch) {
	p, ok := (codec{}).parse(serverSide, b)
	if !ok || p.typ != typeAck {
		return
	}
	if p.ack.has {
		delete(o.pending, p.ack.id)
	} else {
		delete(o.pending, p.ack.newest)
	}
	g := gap(p.ack.newest, o.newest)
	told := uint32(p.ack.bits)<<1 | 1
	if g <= 0 {
		if g > -32 {
			o.record |= told << -g
		}
		return
	}
	for range g {
		left := o.newest - 31
		if m := o.pending[left]; m != nil && o.record>>31 == 0 {
			o.resend(now, m, out)
		}
		o.record <<= 1
		o.newest++
	}
	for i := range uint16(17) {
		if bit := uint32(1) << i; told&bit != 0 && o.record&bit == 0 {
			o.record |= bit
			delete(o.pending, o.newest-i)
		}
	}
}

// volleys is a connection of ours in the place of an original.
type volleys struct {
	t *testing.T
	*connection
}

func (v volleys) waiting() int { return v.sender.waiting() }

func (v volleys) send(now time.Time, body []byte, out *wire.Batch) {
	_, err := v.connection.send(now, Reliable, body, out)
	require.NoError(v.t, err)
}

func (v volleys) dueAt() time.Time { return v.next() }

func (v volleys) tick(now time.Time, out *wire.Batch) { v.connection.tick(now, false, out) }

type reliableSender interface {
	waiting() int
	send(now time.Time, body []byte, out *wire.Batch)
	receive(now time.Time, b []byte, out *wire.Batch)
	dueAt() time.Time
	tick(now time.Time, out *wire.Batch)
}

// A delivery is how a number of reliable messages came over a lossy network.
type delivery struct {
	median time.Duration // from send to arrival
	rate   float64       // messages a second until the sender knows of the last
	sent   int           // datagrams with messages
}

// deliver sends n messages, one each interval, and as soon as fewer than window
// are without an acknowledgement. Latency and loss are those of each direction.
func deliver(t *testing.T, s reliableSender, n, window int, every, latency time.Duration, loss float64) (d delivery) {
	t.Helper()
	rng := rand.New(rand.NewPCG(uint64(loss*1000), 7))
	receiver, got := newConnected(t, &Config{IgnoreQuality: true, Timeout: -1}, serverSide)
	now, begin := start, start
	offered := make([]time.Time, 0, n)
	delays := make([]time.Duration, n)
	count := make([]int, n)
	var pipes [2][]travelling
	var out wire.Batch
	transmit := func(to side) {
		for i := range out.Len() {
			if to == serverSide && out.At(i)[0]&15 == byte(typeReliable) {
				d.sent++
			}
			if rng.Float64() >= loss {
				pipes[to] = append(pipes[to], travelling{at: now.Add(latency), data: slices.Clone(out.At(i))})
			}
		}
		out.Reset()
	}
	for next := start; len(offered) < n || s.waiting() > 0; {
		for len(offered) < n && !now.Before(next) && s.waiting() < window {
			s.send(now, numbered(nil, Reliable, len(offered)).body(), &out)
			transmit(serverSide)
			offered = append(offered, now)
			next = next.Add(every)
		}
		if at := s.dueAt(); !at.IsZero() && !now.Before(at) {
			s.tick(now, &out)
			transmit(serverSide)
		}
		for to := range pipes {
			for len(pipes[to]) > 0 && !now.Before(pipes[to][0].at) {
				b := pipes[to][0].data
				pipes[to] = pipes[to][1:]
				if side(to) == clientSide {
					s.receive(now, b, &out)
					transmit(serverSide)
					continue
				}
				receiver.receive(now, b, &out)
				transmit(clientSide)
				for _, body := range got.messages {
					m := new(Message)
					m.loadUser(packed, Reliable, []byte(body[1:]))
					i := int(Read[uint32](m))
					count[i]++
					delays[i] = now.Sub(offered[i])
				}
				got.messages, got.log = got.messages[:0], got.log[:0]
			}
		}
		at := s.dueAt()
		for _, p := range pipes {
			if len(p) > 0 {
				at = earliest(at, p[0].at)
			}
		}
		if len(offered) < n && s.waiting() < window {
			at = earliest(at, next)
		}
		if at.After(now) && (len(offered) < n || s.waiting() > 0) {
			now = at
		}
		require.Less(t, now.Sub(begin), time.Hour)
	}
	for i, c := range count {
		require.Equal(t, 1, c, "message %d", i)
	}
	d.rate = float64(n) / now.Sub(begin).Seconds()
	slices.Sort(delays)
	d.median = delays[n/2]
	return d
}

// Under loss reliable messages come at no less than half of the rate of the
// released library, and half of them in no more than twice its time; each once.
func TestReliableUnderLoss(t *testing.T) {
	if testenv.Race {
		t.Skip("there is one goroutine, and no lock")
	}
	const n = 4000
	for _, load := range []struct {
		latency time.Duration
		window  int
		every   time.Duration
	}{
		{ms, 32, 0},
		{25 * ms, 32, 0},
		{ms, n, ms},
		{25 * ms, n, 2 * ms},
	} {
		for _, loss := range []float64{0, .01, .1, .3} {
			c, _ := newConnected(t, &Config{IgnoreQuality: true, Timeout: -1}, clientSide)
			c.beat = start.Add(time.Hour)
			c.rtt.measured(toMillis(2 * load.latency))
			ours := deliver(t, volleys{t, c}, n, load.window, load.every, load.latency, loss)
			theirs := deliver(t, newOriginal(2*load.latency), n, load.window, load.every, load.latency, loss)
			t.Logf("%v, %d under way, one each %v, %2.0f %% lost: %.0f a second, half within %v, sent %d times; the original %.0f, %v, %d",
				load.latency, load.window, load.every, 100*loss, ours.rate, ours.median, ours.sent, theirs.rate, theirs.median, theirs.sent)
			require.GreaterOrEqual(t, ours.rate, theirs.rate/2)
			require.LessOrEqual(t, ours.median, 2*theirs.median)
			require.LessOrEqual(t, float64(ours.sent), 1.1*float64(theirs.sent))
		}
	}
}
