package world

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"volley"
)

// A slowLink is a link of a reader. To write an answer takes it half a minute.
type slowLink struct {
	arrive chan []byte // with room; nil closes
	over   *atomic.Bool
}

func (l slowLink) read(context.Context, []byte) ([]byte, uint64, error) {
	if b := <-l.arrive; b != nil && !l.over.Load() {
		return b, 0, nil
	}
	return nil, 0, net.ErrClosed
}

func (l slowLink) write([]byte) (uint64, error) {
	time.Sleep(30 * time.Second)
	return 0, nil
}

func (l slowLink) fates(func(uint64, volley.Fate)) error { return net.ErrClosed }
func (l slowLink) SetReadDeadline(time.Time) error       { return nil }
func (l slowLink) look()                                 {}
func (l slowLink) max() int                              { return largestSize }
func (l slowLink) pin() (pin, time.Duration)             { return func() bool { return false }, 0 }

func (l slowLink) close() error {
	l.over.Store(true)
	l.arrive <- nil
	return nil
}

// A message may be Delivered and unread if its reader closes, and was busy when it came. A
// reader that waited when it came, or has waited since, has to have read it. When it was
// written does not matter.
func TestUnread(t *testing.T) {
	for _, test := range []struct {
		name    string
		rests   time.Duration // before the second message
		answer  int           // that the first message asks for
		vanish  bool          // the last message is acknowledged, and is not there
		excused bool
	}{
		{name: "resting", rests: time.Hour, excused: true},
		{name: "writing an answer", answer: headerSize, excused: true},
		{name: "waiting", vanish: true},
		{name: "waiting after a rest", rests: 15 * time.Second, vanish: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBook(&plan{servers: []serverPlan{{}}, clients: []clientPlan{{}}})
				b.slowest = time.Minute
				l := slowLink{make(chan []byte, 8), new(atomic.Bool)}
				f := b.open(route{home: 1, peer: 0, promises: promises{exact: true}, fates: true}, nil)
				e := newEnd(b, l, route{home: 0, peer: 1, promises: promises{exact: true}, dialed: true})
				write := func(id uint64, answer int) (msg []byte) {
					f.write(headerSize, answer, func(m []byte) (uint64, error) {
						msg = m
						return id, nil
					})
					return msg
				}
				first, second, last := write(1, test.answer), write(2, 0), write(3, 0)
				time.Sleep(10 * time.Second)
				l.arrive <- first
				time.Sleep(time.Second)
				if test.rests > 0 {
					e.rest(test.rests)
				}
				l.arrive <- second
				time.Sleep(time.Second)
				if !test.vanish {
					l.arrive <- last
				}
				for id := range uint64(3) {
					f.decide(id+1, volley.Delivered)
				}
				time.Sleep(20 * time.Second)
				e.close()
				<-e.done
				f.settle()
				b.judge()
				if excused := len(b.failures) == 0; excused != test.excused {
					t.Errorf("excused: %v, failures: %q", excused, b.failures)
				}
			})
		})
	}
}

// A program that reads again needs some time to read what has come meanwhile. If it rests again before
// that, this goes on from the first rest.
func TestReadAll(t *testing.T) {
	const first, lasts = time.Minute, 10 * time.Second
	for _, test := range []struct {
		again, after time.Duration // since the first rest was over
		want         time.Duration
	}{
		{0, time.Second, first},
		{catchUp - 1, time.Second, first},
		{catchUp, time.Second, first + lasts + catchUp},
		{catchUp - 1, lasts + catchUp - 1, first},
		{catchUp - 1, lasts + catchUp, first + 2*(lasts+catchUp) - 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			b := newBook(&plan{})
			h := &host{w: &world{plan: b.plan, book: b}}
			require.Equal(t, -catchUp, h.readAllLocked())
			time.Sleep(first)
			h.restLocked(lasts)
			time.Sleep(lasts + test.again)
			h.restLocked(lasts)
			time.Sleep(test.after)
			require.Equal(t, test.want-catchUp, h.readAllLocked())
		})
	}
}

// A reliable message may be Lost only as its connection ends. A Handler that waits learns of the end
// later, by as long as it has waited since.
func TestLostBeforeTheEnd(t *testing.T) {
	for _, test := range []struct {
		name                  string
		before, waited, until time.Duration // that the Handler waited before, and since; when it learned of the end
		excused               bool
	}{
		{"soon", 0, 0, endLag, true},
		{"late", 0, 0, endLag + 1, false},
		{"had waited before", time.Second, 0, endLag + 1, false},
		{"waited", time.Second, 200 * time.Millisecond, endLag + 200*time.Millisecond, true},
		{"waited less", time.Second, 200 * time.Millisecond, endLag + 200*time.Millisecond + 1, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBook(&plan{servers: []serverPlan{{}}, clients: []clientPlan{{}}})
				f := b.open(route{home: 0, peer: 1, promises: promises{exact: true, reliable: true}, fates: true}, nil)
				for id := range uint64(2) {
					f.write(headerSize, 0, func([]byte) (uint64, error) { return id + 1, nil })
				}
				time.Sleep(10 * time.Second)
				handler := newEnd(b, slowLink{}, route{home: 0, peer: 1, served: true})
				wait := func(d time.Duration) {
					b.stalls[0].next.Store(int64(d))
					handler.take([]byte("no message"), 0)
				}
				wait(test.before)
				f.decide(1, volley.Lost)
				wait(test.waited)
				f.decide(2, volley.Lost)
				time.Sleep(test.until - test.waited)
				f.end()
				f.settle()
				b.judge()
				if excused := len(b.failures) == 0; excused != test.excused {
					t.Errorf("excused: %v, failures: %q", excused, b.failures)
				}
			})
		})
	}
}

// A message that was read may be Lost if the writer had heard nothing yet. One that never hears of a
// message may lose those of the first seconds only.
func TestLostUnheard(t *testing.T) {
	for _, test := range []struct {
		name    string
		after   time.Duration // the first message, when the one in question was written
		heard   bool          // then another was Delivered
		excused bool
	}{
		{"at first", 0, false, true},
		{"in the first seconds", lag - 1, false, true},
		{"later", lag, false, false},
		{"before it heard", time.Minute, true, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBook(&plan{servers: []serverPlan{{}}, clients: []clientPlan{{}}})
				f := b.open(route{home: 1, peer: 0, promises: promises{exact: true}, fates: true}, nil)
				time.Sleep(time.Minute) // all is calm
				for id := range uint64(2) {
					f.write(headerSize, 0, func([]byte) (uint64, error) { return id + 1, nil })
					time.Sleep(test.after)
				}
				f.write(headerSize, 0, func([]byte) (uint64, error) { return 3, nil })
				f.arrived(1)
				if test.heard {
					f.arrived(0)
					f.decide(1, volley.Delivered)
				}
				f.decide(2, volley.Lost)
				time.Sleep(time.Hour)
				f.end()
				f.settle()
				if lost := f.wronglyLost(1, f.sent[1]); lost == test.excused {
					t.Errorf("wrongly lost: %v", lost)
				}
			})
		})
	}
}
