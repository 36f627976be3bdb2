package volley

import (
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"volley/reliable"
	"volley/simnet"
)

// A peer that has fallen silent gets keepalives faster as the timeout nears; one
// that has never acknowledged anything gets no more than usual.
func TestKeepAlivesHurry(t *testing.T) {
	for _, known := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			link := simnet.Link{Latency: 20 * time.Millisecond}
			x, y := simnet.Pair(1, link, link)
			a, b, sim := mustConn(x, nil), mustConn(y, nil), x.Network()
			if known {
				b.Write([]byte("hello"))
				time.Sleep(time.Second)
			}
			for _, c := range []*Conn{a, b} {
				from, to := c.LocalAddr().(*net.UDPAddr), c.RemoteAddr().(*net.UDPAddr)
				sim.SetLink(from.AddrPort().Addr(), to.AddrPort().Addr(), simnet.Link{Blackout: true})
			}
			if !known {
				// A first packet of somebody whose address was forged.
				a.mu.Lock()
				a.endpoint.Receive(time.Now(), reliable.AppendHeader(nil, reliable.Header{Ack: 65535}))
				a.lastHeard = a.now()
				a.mu.Unlock()
			}
			before := b.Stats().KeepAlivesSent + a.Stats().KeepAlivesSent
			time.Sleep(defaultIdleTimeout - 100*time.Millisecond)
			n := b.Stats().KeepAlivesSent + a.Stats().KeepAlivesSent - before
			if known && (n < 30 || n > 100) {
				t.Errorf("%d keepalives towards silence of a known peer, want some dozens", n)
			}
			if !known && n > 10 {
				t.Errorf("%d keepalives of two sides that have heard nothing, want 5 each", n)
			}
			a.Close()
			b.Close()
		})
	}
}

// longestAck returns how long a message waits for its acknowledgement at most, at a server
// that does not answer. Run serves.
func longestAck(t *testing.T, ackDelay time.Duration, others bool, run func(*Listener)) (longest time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		_, l, dial := network(t, &ListenConfig{Config: &Config{AckDelay: ackDelay}})
		run(l)
		c := dial("10.0.1.1:0", &Dialer{})
		other := dial("10.0.1.2:0", &Dialer{})
		say(t, other, "hello")
		for i := range 30 {
			begin := time.Now()
			_, err := c.WriteMessage([]byte("no answer"))
			require.NoError(t, err)
			for len(c.AppendReceipts(nil)) == 0 {
				time.Sleep(time.Millisecond)
				if others {
					say(t, other, "more")
				}
			}
			if i > 5 { // the rhythms are known
				longest = max(longest, time.Since(begin))
			}
			time.Sleep(time.Second)
		}
		c.Close()
		other.Close()
		for c := range l.Conns() {
			c.Close()
		}
		l.Close()
		time.Sleep(time.Second)
	})
	return longest
}

// What is due by time may be late with Serve if no packet comes, by 5 ms or an eighth of
// AckDelay.
func TestServeTicksLate(t *testing.T) {
	h := Handler{Message: func(*Conn, []byte) {}}
	accepts := func(l *Listener) {
		go func() {
			for {
				if _, err := l.Accept(); err != nil {
					return
				}
			}
		}()
	}
	serves := func(l *Listener) { go l.Serve(h) }
	polls := func(l *Listener) {
		go func() {
			for l.Poll(h) == nil {
				time.Sleep(500 * time.Microsecond)
			}
		}()
	}
	const path = 20 * time.Millisecond
	for _, test := range []struct {
		name     string
		run      func(*Listener)
		ackDelay time.Duration
		others   bool
		late     time.Duration
	}{
		{"accepted", accepts, 125 * time.Millisecond, false, 0},
		{"served", serves, 125 * time.Millisecond, false, 5 * time.Millisecond},
		{"served, others send", serves, 125 * time.Millisecond, true, 0},
		{"served, a short AckDelay", serves, 16 * time.Millisecond, false, 2 * time.Millisecond},
		{"polled", polls, 125 * time.Millisecond, false, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			took := longestAck(t, test.ackDelay, test.others, test.run)
			// The poll for the receipt, and the next packet of the others, take 1 ms each.
			require.InDelta(t, path+test.ackDelay/2+test.late, took, float64(2*time.Millisecond))
		})
	}
}

// A message that the handler answers costs no tick: what would have been due by then has left
// or come. Keepalives go on.
func TestServeTicksRarely(t *testing.T) {
	const keepAlive = 2 * time.Second
	for _, serves := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			_, l, dial := network(t, &ListenConfig{Config: &Config{KeepAlive: keepAlive}})
			conns := make(chan *Conn, 1)
			if serves {
				go l.Serve(Handler{
					Open:    func(c *Conn) { conns <- c },
					Message: func(c *Conn, msg []byte) { c.Write(msg) },
				})
			} else {
				go func() {
					c, err := l.AcceptConn(t.Context())
					require.NoError(t, err)
					conns <- c
					io.Copy(c, c)
				}()
			}
			client := dial("10.0.1.1:0", &Dialer{})
			ping := func() {
				say(t, client, "ping")
				hear(t, client, "ping")
			}
			ping()
			c := <-conns
			ticks := 0
			wait := func(d time.Duration) {
				for end := time.Now().Add(d); time.Now().Before(end); {
					c.mu.Lock()
					at := c.tickAt
					c.mu.Unlock()
					time.Sleep(time.Millisecond)
					synctest.Wait()
					if at <= c.now() {
						ticks++
					}
				}
			}
			wait(5 * time.Second) // until the times of acknowledgements are known
			for range 10 {
				ping()
				wait(500 * time.Millisecond)
			}
			ticks = 0
			for range 40 {
				ping()
				wait(500 * time.Millisecond)
			}
			if serves {
				require.LessOrEqual(t, ticks, 4)
			} else {
				require.GreaterOrEqual(t, ticks, 40) // so the count counts
			}
			before := c.Stats().KeepAlivesSent
			time.Sleep(10 * keepAlive)
			require.InDelta(t, 10, c.Stats().KeepAlivesSent-before, 1)
			client.Close()
			c.Close()
			l.Close()
		})
	}
}
