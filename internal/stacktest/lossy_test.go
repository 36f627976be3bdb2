package stacktest

import (
	"context"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"
	"volley"

	"volley/internal/pattern"
	"volley/internal/testenv"
	"volley/simnet"

	"github.com/stretchr/testify/require"
)

// A ledger compares what one side sent with what the other side received and
// with the receipts of the sender.
type ledger struct {
	t         *testing.T
	name      string
	sent      map[uint64]uint32 // number of each message by its id
	fates     map[uint64]volley.Fate
	delivered map[uint32]bool
	loss      float64
	samples   int
}

func newLedger(t *testing.T, name string) *ledger {
	return &ledger{t: t, name: name, sent: map[uint64]uint32{}, fates: map[uint64]volley.Fate{}, delivered: map[uint32]bool{}}
}

func (l *ledger) receive(c *volley.Conn) {
	for {
		m, err := c.ReadMessage(context.Background(), nil)
		if err != nil {
			return
		}
		if len(m) < 4 {
			continue // too short to carry a number
		}
		n, err := pattern.Check(m)
		if err != nil {
			l.t.Errorf("%s: %v", l.name, err)
		}
		if l.delivered[n] {
			l.t.Errorf("%s: message %d was delivered twice", l.name, n)
		}
		l.delivered[n] = true
	}
}

func (l *ledger) receipts(c *volley.Conn) {
	for _, r := range c.AppendReceipts(nil) {
		if _, ok := l.sent[r.ID]; !ok {
			l.t.Errorf("%s: a receipt for message %d, which was not sent", l.name, r.ID)
		}
		if f, ok := l.fates[r.ID]; ok {
			l.t.Errorf("%s: message %d is %v and %v", l.name, r.ID, f, r.Fate)
		}
		l.fates[r.ID] = r.Fate
	}
}

// send writes messages at 60 Hz, and samples the loss figure after warm-up.
func (l *ledger) send(c *volley.Conn, d, warm time.Duration, size func() int) {
	tick := time.NewTicker(time.Second / 60)
	defer tick.Stop()
	start := time.Now()
	for n := uint32(0); time.Since(start) < d; n++ {
		<-tick.C
		id, err := c.WriteMessage(pattern.New(n, size()))
		if err != nil {
			l.t.Errorf("%s: %v", l.name, err)
			return
		}
		l.sent[id] = n
		l.receipts(c)
		if time.Since(start) > warm {
			l.loss += c.Stats().Loss
			l.samples++
		}
	}
}

// check is called after both sides have been closed. It returns how many
// messages arrived and yet were presumed lost.
func (l *ledger) check() (mistaken int) {
	for id, n := range l.sent {
		fate, ok := l.fates[id]
		switch {
		case !ok:
			l.t.Errorf("%s: message %d has no fate", l.name, n)
		case fate == volley.Delivered && !l.delivered[n]:
			l.t.Errorf("%s: message %d was acknowledged and not delivered", l.name, n)
		case fate == volley.Lost && l.delivered[n]:
			mistaken++
		}
	}
	return mistaken
}

func roughLink() simnet.Link {
	return simnet.Link{
		Latency: 50 * time.Millisecond, Jitter: 10 * time.Millisecond,
		Loss: 0.2, Duplicate: 0.05, Reorder: 0.1, ReorderBy: 30 * time.Millisecond,
	}
}

// run sends both ways, or only from a to b, over a link for some virtual time,
// and returns the ledgers.
func run(t *testing.T, link simnet.Link, d time.Duration, oneWay bool, size func(*rand.Rand) int) (ab, ba *ledger) {
	a, b := netPipe(1, link, nil)
	ab, ba = newLedger(t, "a to b"), newLedger(t, "b to a")
	warm := min(d/2, 2*time.Minute)
	done := make(chan struct{})
	spawn := func(f func()) {
		go func() { f(); done <- struct{}{} }()
	}
	sizes := func(seed uint64) func() int {
		r := rand.New(rand.NewPCG(seed, 0))
		return func() int { return size(r) }
	}
	spawn(func() { ab.receive(b) })
	spawn(func() { ba.receive(a) })
	senders := 1
	spawn(func() { ab.send(a, d, warm, sizes(1)) })
	if !oneWay {
		spawn(func() { ba.send(b, d, warm, sizes(2)) })
		senders++
	}
	for range senders {
		<-done
	}
	time.Sleep(20 * time.Second) // keepalives carry the last acknowledgements
	a.Close()
	b.Close()
	for range 2 {
		<-done
	}
	ab.receipts(a)
	ba.receipts(b)
	return ab, ba
}

func TestLossyLink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := time.Duration(testenv.Sized(1, 10)) * time.Minute
		ab, ba := run(t, roughLink(), d, false, func(r *rand.Rand) int { return 4 + r.IntN(16381) })
		for _, l := range []*ledger{ab, ba} {
			l.check()
			if len(l.delivered) < len(l.sent)/20 || len(l.delivered) > len(l.sent)/2 {
				t.Errorf("%s: %d of %d messages delivered", l.name, len(l.delivered), len(l.sent))
			}
		}
	})
}

func TestLossFigure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ab, ba := run(t, roughLink(), testenv.Raced[time.Duration](10, 5)*time.Minute, false, func(r *rand.Rand) int { return 4 + r.IntN(1021) })
		for _, l := range []*ledger{ab, ba} {
			l.check()
			if mean := 100 * l.loss / float64(l.samples); mean < 18 || mean > 22 {
				t.Errorf("%s: the loss figure has a mean of %.2f %%, want 18 to 22", l.name, mean)
			}
			t.Logf("%s: loss figure %.2f %%, true %.2f %%", l.name, 100*l.loss/float64(l.samples),
				100-100*float64(len(l.delivered))/float64(len(l.sent)))
		}
	})
}

func TestOneWayReceipts(t *testing.T) {
	for _, loss := range []float64{0, 0.2} {
		synctest.Test(t, func(t *testing.T) {
			link := simnet.Link{Latency: 50 * time.Millisecond, Loss: loss}
			ab, _ := run(t, link, 5*time.Minute, true, func(r *rand.Rand) int { return 4 + r.IntN(1000) })
			mistaken := ab.check()
			limit := len(ab.delivered) / 100
			if loss == 0 {
				limit = 0
			}
			if mistaken > limit {
				t.Errorf("loss %v: %d of %d delivered messages were presumed lost, want at most %d",
					loss, mistaken, len(ab.delivered), limit)
			}
			t.Logf("loss %v: %d of %d delivered messages presumed lost", loss, mistaken, len(ab.delivered))
		})
	}
}

// Messages of one to three bytes are too short for a number; they are counted.
func TestLossyTinyMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		link := roughLink()
		a, b := netPipe(3, link, nil)
		received := make(chan int)
		go func() {
			n := 0
			for {
				m, err := b.ReadMessage(context.Background(), nil)
				if err != nil {
					received <- n
					return
				}
				if len(m) < 1 || len(m) > 3 {
					t.Errorf("message of %d bytes", len(m))
				}
				n++
			}
		}()
		const sent = 10000
		for i := range sent {
			a.Write(make([]byte, 1+i%3))
			a.AppendReceipts(nil)
			time.Sleep(time.Second / 60)
		}
		time.Sleep(10 * time.Second)
		s := a.Stats()
		a.Close()
		b.Close()
		n := <-received
		if uint64(n) < s.MessagesDelivered || n > sent*83/100 || n < sent*77/100 {
			t.Errorf("%d of %d messages received, %d acknowledged", n, sent, s.MessagesDelivered)
		}
		if s.MessagesDelivered+s.MessagesLost < sent-64 {
			t.Errorf("fates %d + %d of %d messages", s.MessagesDelivered, s.MessagesLost, sent)
		}
	})
}

// A program that only writes gets all its receipts, and keeps its connection,
// beside a peer whose messages it never reads.
func TestWriterBesideFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		link := simnet.Link{Latency: 20 * time.Millisecond}
		a, b := netPipe(0, link, &volley.Config{ReadBuffer: 64 << 10})
		l := newLedger(t, "writer")
		done := make(chan struct{})
		go func() { l.receive(b); done <- struct{}{} }()
		go func() {
			for {
				if _, err := b.Write(make([]byte, 1000)); err != nil {
					done <- struct{}{}
					return
				}
				time.Sleep(time.Millisecond)
			}
		}()
		d := time.Duration(testenv.Sized(20, 300)) * time.Second
		l.send(a, d, 0, func() int { return 100 })
		time.Sleep(time.Second)
		synctest.Wait() // for who receives, and notes it in the ledger
		l.receipts(a)
		if mistaken := l.check(); mistaken != 0 || len(l.delivered) != len(l.sent) {
			t.Errorf("%d of %d messages delivered, %d presumed lost", len(l.delivered), len(l.sent), mistaken)
		}
		if s := a.Stats(); s.MessagesRefused == 0 {
			t.Error("the writer's read buffer never filled")
		}
		b.Close()
		a.Close()
		<-done
		<-done
	})
}

func TestIdleTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := netPipe(0, simnet.Link{Latency: time.Millisecond}, nil)
		defer a.Close()
		b.Write([]byte("last words"))
		time.Sleep(time.Minute)
		if _, err := a.Write([]byte("x")); err != nil {
			t.Fatalf("the connection died in spite of keepalives: %v", err)
		}
		b.NetConn().Close() // as the end of its program does
		b.Close()
		start := time.Now()
		if m, err := a.ReadMessage(context.Background(), nil); string(m) != "last words" || err != nil {
			t.Errorf("ReadMessage = %q, %v", m, err)
		}
		_, err := a.ReadMessage(context.Background(), nil)
		require.ErrorIs(t, err, volley.ErrIdleTimeout, "Read")
		if d := time.Since(start); d < 25*time.Second || d > 30*time.Second+time.Millisecond { // one latency
			t.Errorf("idle timeout after %v", d)
		}
		if ne, ok := err.(interface{ Timeout() bool }); ok && ne.Timeout() {
			t.Error("the idle timeout says Timeout, on which programs try again")
		}
		_, err = a.Write([]byte("x"))
		require.ErrorIs(t, err, volley.ErrIdleTimeout, "Write")
	})
}

// With ReferenceConfig nothing leaves but messages, however long it takes.
func TestReferenceConfigIsQuiet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		link := simnet.Link{Latency: time.Millisecond}
		a, b := netPipe(0, link, volley.ReferenceConfig())
		for range 500 {
			a.Write([]byte("one way"))
			if _, err := b.ReadMessage(context.Background(), nil); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Hour)
		if s := a.Stats(); s.PacketsSent != 500 || s.PacketsReceived != 0 {
			t.Errorf("sent %d, received %d packets, want 500 and 0", s.PacketsSent, s.PacketsReceived)
		}
		if s := b.Stats(); s.PacketsSent != 0 {
			t.Errorf("the receiver sent %d packets, want none", s.PacketsSent)
		}
		a.Close()
		b.Close()
	})
}
