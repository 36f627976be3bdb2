package volley

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"volley/internal/loopback"
	"volley/simnet"
)

// A restarting is a client with a connection to a server that can go and come
// back, with a link of 10 ms each way between them.
type restarting struct {
	t    *testing.T
	n    *simnet.Network
	lc   *ListenConfig
	l    *Listener
	dial func(addr string, d *Dialer) *Conn
	c, s *Conn
}

const restartRTT = 20 * time.Millisecond

// establish makes the connection, in which both sides have heard each other.
func establish(t *testing.T, client, server *Config) *restarting {
	t.Helper()
	r := &restarting{t: t, lc: &ListenConfig{Config: server}}
	r.n, r.l, r.dial = network(t, r.lc)
	r.c = r.dial("10.0.0.2:5000", &Dialer{Config: client})
	r.s = accept(t, r.l)
	t.Cleanup(func() { r.c.Close(); r.s.Close() })
	r.exchange()
	return r
}

func (r *restarting) exchange() {
	r.t.Helper()
	r.c.Write([]byte("ping"))
	wantMessage(r.t, r.s, "ping")
	r.s.Write([]byte("pong"))
	wantMessage(r.t, r.c, "pong")
	r.c.SetDeadline(time.Time{})
	r.s.SetDeadline(time.Time{})
	time.Sleep(time.Second)
}

// restart ends the server and starts it again at the same address.
func (r *restarting) restart() {
	r.t.Helper()
	kill(r.s)
	require.NoError(r.t, r.l.Close())
	time.Sleep(100 * time.Millisecond)
	pc, err := r.n.Listen("10.0.0.1:7777")
	require.NoError(r.t, err)
	r.l, err = r.lc.ListenOn(pc)
	require.NoError(r.t, err)
	r.t.Cleanup(func() { r.l.Close() })
}

// end waits for the end of the client's connection.
func (r *restarting) end(limit time.Duration) (after time.Duration, err error) {
	start := time.Now()
	r.c.SetReadDeadline(start.Add(limit))
	for err == nil {
		_, err = r.c.ReadMessage(context.Background(), nil)
	}
	return time.Since(start), err
}

var noticing = &Config{}

func TestRestartIsNoticed(t *testing.T) {
	for name, write := range map[string]func(c *Conn) error{
		"a message":   func(c *Conn) error { _, err := c.Write([]byte("hello")); return err },
		"a large one": func(c *Conn) error { _, err := c.Write(make([]byte, 16384)); return err },
		"several": func(c *Conn) error {
			_, err := c.WriteBatch(nil, [][]byte{{1}, make([]byte, 5000), {2}, make([]byte, 16000)})
			return err
		},
		"a flood": func(c *Conn) error {
			for range 2000 {
				if _, err := c.Write(make([]byte, 100)); err != nil {
					return err
				}
			}
			return nil
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := establish(t, noticing, noticing)
			r.c.AppendReceipts(nil)
			r.restart()
			require.NoError(t, write(r.c), name)
			after, err := r.end(time.Minute)
			require.ErrorIs(t, err, ErrPeerRestarted, name)
			require.LessOrEqual(t, after, 2*restartRTT, name)
			r.ended()
		})
	}
}

// ended checks that every call fails in the same way, and that messages get
// their fates.
func (r *restarting) ended() {
	r.t.Helper()
	for range 3 {
		_, read := r.c.Read(make([]byte, 10))
		_, readMessage := r.c.ReadMessage(context.Background(), nil)
		_, write := r.c.Write([]byte("late"))
		_, writeMessage := r.c.WriteMessage([]byte("late"))
		_, writeBatch := r.c.WriteBatch(nil, [][]byte{[]byte("late")})
		for _, err := range []error{read, readMessage, write, writeMessage, writeBatch} {
			var op *net.OpError
			var ne net.Error
			require.ErrorAs(r.t, err, &op)
			require.ErrorIs(r.t, err, ErrPeerRestarted)
			require.NotErrorIs(r.t, err, net.ErrClosed)
			require.ErrorAs(r.t, err, &ne)
			require.False(r.t, ne.Timeout())
			require.NotErrorIs(r.t, err, ErrIdleTimeout)
		}
	}
	s := r.c.Stats()
	require.Equal(r.t, s.MessagesSent, s.MessagesDelivered+s.MessagesLost)
	require.Len(r.t, r.c.AppendReceipts(nil), int(s.MessagesSent)-1) // the first was before
	require.NoError(r.t, r.c.Close())
}

// A client that writes nothing learns of it by its keepalives.
func TestRestartIsNoticedInSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := establish(t, noticing, noticing)
		r.restart()
		after, err := r.end(time.Minute)
		require.ErrorIs(t, err, ErrPeerRestarted)
		require.LessOrEqual(t, after, defaultKeepAlive+2*restartRTT)
	})
}

// What has arrived before is read first, and a new Dial works at once, from the
// same port or another.
func TestDialAfterRestart(t *testing.T) {
	for _, addr := range []string{"10.0.0.2:5000", "10.0.0.2:5001"} {
		synctest.Test(t, func(t *testing.T) {
			r := establish(t, noticing, noticing)
			r.s.Write([]byte("your last"))
			time.Sleep(restartRTT)
			r.restart()
			r.c.Write([]byte("hello"))
			time.Sleep(2 * restartRTT)
			m, err := r.c.ReadMessage(context.Background(), nil)
			require.NoError(t, err)
			require.Equal(t, "your last", string(m))
			_, err = r.c.ReadMessage(context.Background(), nil)
			require.ErrorIs(t, err, ErrPeerRestarted)
			require.NoError(t, r.c.Close())
			r.c = r.dial(addr, &Dialer{Config: noticing})
			r.s = accept(t, r.l)
			r.exchange()
			require.Nil(t, suspicionOf(r.c))
		})
	}
}

// Without greetings nothing is sent that the reference would not send, and only time
// ends the connection.
func TestReferenceNoticesNoRestart(t *testing.T) {
	off := ReferenceConfig()
	off.IdleTimeout, off.KeepAlive = 30*time.Second, 5*time.Second
	for _, cfg := range []struct{ client, server *Config }{{off, off}, {noticing, off}, {off, noticing}} {
		synctest.Test(t, func(t *testing.T) {
			r := establish(t, cfg.client, cfg.server)
			r.restart()
			before := r.n.LinkStats(udpAddr(r.l.Addr()).Addr(), udpAddr(r.c.LocalAddr()).Addr()).Sent
			r.c.Write([]byte("hello"))
			time.Sleep(4 * time.Second)
			now := r.n.LinkStats(udpAddr(r.l.Addr()).Addr(), udpAddr(r.c.LocalAddr()).Addr()).Sent
			if cfg.server == off {
				require.Equal(t, before, now, "the server has sent something")
				require.Zero(t, r.l.Stats().Notices)
			} else {
				require.Less(t, before, now)
				require.Equal(t, now-before, r.l.Stats().Notices)
			}
			_, err := r.end(time.Minute)
			require.ErrorIs(t, err, ErrIdleTimeout)
			require.Nil(t, suspicionOf(r.c))
		})
	}
}

// A server that has closed a connection tells so whoever goes on with it.
func TestClosedConnectionIsNoticed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := establish(t, noticing, noticing)
		kill(r.s)
		time.Sleep(restartRTT)
		r.c.Write([]byte("hello"))
		after, err := r.end(time.Minute)
		require.ErrorIs(t, err, ErrPeerRestarted)
		require.LessOrEqual(t, after, 2*restartRTT)
	})
}

// With AdmitMidStream a restarted server goes on with its peers instead.
func TestAdmitMidStreamIsTheOtherWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := establish(t, noticing, noticing)
		r.lc.AdmitMidStream = true
		r.restart()
		r.c.Write([]byte("hello"))
		r.s = accept(t, r.l)
		wantMessage(t, r.s, "hello")
		r.s.Write([]byte("of a new sequence, with which the restarted side is believed at once"))
		wantMessage(t, r.c, "of a new sequence, with which the restarted side is believed at once")
		r.exchange()
		require.Zero(t, r.l.Stats().Notices)
		require.Nil(t, suspicionOf(r.c))
	})
}

// A link that loses much delays it, by the packets that it takes.
func TestRestartIsNoticedOverLossyLinks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := establish(t, noticing, noticing)
		r.n.SetDefault(simnet.Link{Latency: restartRTT / 2, Loss: 0.3, Reorder: 0.2, Duplicate: 0.2})
		r.restart()
		start := time.Now()
		var err error
		for err == nil && time.Since(start) < time.Minute {
			_, err = r.c.Write(make([]byte, 3000))
			time.Sleep(time.Second / 60)
		}
		require.ErrorIs(t, err, ErrPeerRestarted)
		require.Less(t, time.Since(start), 2*time.Second)
		require.Less(t, r.l.Stats().Notices, uint64(400)) // one a batch, of three datagrams a message
	})
}

// A fresh client whose first message comes with its first fragment last, or not
// at all, is not taken for one of before.
func TestFreshClientIsNotTurnedAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, l, dial := network(t, &ListenConfig{Config: noticing})
		n.SetDefault(simnet.Link{Latency: 10 * time.Millisecond, Jitter: 5 * time.Millisecond, Loss: 0.3, Reorder: 0.5})
		for range 40 {
			c := dial("10.0.0.2:0", &Dialer{Config: noticing, Quiet: true})
			for range 20 {
				_, err := c.Write(make([]byte, 10_000))
				require.NoError(t, err)
				time.Sleep(5 * time.Millisecond)
			}
			accept(t, l).Close()
			c.Close()
			time.Sleep(100 * time.Millisecond)
		}
		require.Positive(t, l.Stats().Notices, "no fragment came first: the test tests nothing")
	})
}

// The same over sockets of the system.
func TestRestartOverUDP(t *testing.T) {
	lc := ListenConfig{Config: noticing}
	l, err := lc.Listen(t.Context(), "udp", loopback.Addr())
	require.NoError(t, err)
	addr := l.Addr().String()
	d := Dialer{Config: noticing}
	c, err := d.Dial(t.Context(), "udp", addr)
	require.NoError(t, err)
	defer c.Close()
	s := accept(t, l)
	s.Write([]byte("welcome"))
	c.SetDeadline(time.Now().Add(30 * time.Second))
	_, err = c.ReadMessage(context.Background(), nil)
	require.NoError(t, err)
	for id, fate := uint64(0), Fate(0); fate != Delivered; { // so that the server is known to know us
		id, err = c.WriteMessage([]byte("hello"))
		require.NoError(t, err)
		_, err = s.ReadMessage(context.Background(), nil)
		require.NoError(t, err)
		_, err = s.Write([]byte("carries the acknowledgement"))
		require.NoError(t, err)
		_, err = c.ReadMessage(context.Background(), nil)
		require.NoError(t, err)
		for _, r := range c.AppendReceipts(nil) {
			if r.ID == id {
				fate = r.Fate
			}
		}
	}
	kill(s)
	l.Close()
	l, err = loopback.Again(func() (*Listener, error) { return lc.Listen(t.Context(), "udp", addr) })
	require.NoError(t, err)
	defer l.Close()
	if _, err = c.Write([]byte("still there?")); err == nil {
		_, err = c.ReadMessage(context.Background(), nil)
	}
	if errors.Is(err, syscall.ECONNREFUSED) { // an acknowledgement came while nobody listened
		_, err = c.ReadMessage(context.Background(), nil)
	}
	if !errors.Is(err, ErrPeerRestarted) {
		t.Errorf("ReadMessage: %v, want %v", err, ErrPeerRestarted)
	}
}

func udpAddr(a net.Addr) netip.AddrPort { return a.(*net.UDPAddr).AddrPort() }

// A side that has accepted the peer's former connection lets the next one of the
// same address in at once, although it has heard of the first.
func TestRestartedPeerIsLetInAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := establish(t, noticing, noticing)
		require.NoError(t, kill(r.c))
		r.s.Write([]byte("hello"))
		time.Sleep(restartRTT)
		tell := func(d []byte) { (*handler)(r.s).HandleBatch(time.Now(), [][]byte{d}, nil) }
		tell(notice(lastSequence(r.s)))
		tell(unknown(suspicionOf(r.s).token))
		synctest.Wait()
		_, err := r.s.ReadMessage(context.Background(), nil)
		require.ErrorIs(t, err, ErrPeerRestarted)
		r.c = r.dial("10.0.0.2:5000", &Dialer{Config: noticing})
		r.s = accept(t, r.l)
		r.exchange()
	})
}

// A connection that a Listener has dialed notices, too, and the Listener can dial
// again at once, from the same address.
func TestListenerNoticesRestartOfWhomItDialed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := establish(t, noticing, noticing)
		pc, err := r.n.Listen("10.0.0.3:7777")
		require.NoError(t, err)
		l, err := r.lc.ListenOn(pc)
		require.NoError(t, err)
		defer l.Close()
		dial := func() {
			r.c.Close()
			r.s.Close()
			r.c, err = l.Dial(t.Context(), "10.0.0.1:7777")
			require.NoError(t, err)
			r.s = accept(t, r.l)
			r.exchange()
		}
		dial()
		r.restart()
		r.c.Write([]byte("hello"))
		after, err := r.end(time.Minute)
		require.ErrorIs(t, err, ErrPeerRestarted)
		require.LessOrEqual(t, after, 2*restartRTT)
		dial()
	})
}
