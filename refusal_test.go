package volley

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"volley/internal/wire"
	"volley/reliable"
	"volley/simnet"
)

// wantRefused checks that a connection ends as refused, and within which time.
func wantRefused(t *testing.T, c *Conn, reason string, limit time.Duration) {
	t.Helper()
	_, after, err := wantEnd(t, c)
	var re *RefusedError
	require.ErrorAs(t, err, &re)
	require.Equal(t, reason, re.Reason)
	require.LessOrEqual(t, after, limit)
	require.ErrorContains(t, err, "refused: "+reason)
	require.Contains(t, c.Explain().String(), "The connection has ended: refused: "+reason+".")
	require.NotErrorIs(t, err, net.ErrClosed)
	_, err = c.Write([]byte("late"))
	require.ErrorAs(t, err, &re)
	require.NoError(t, c.Close())
}

// A Listener that is full, or closing, says so.
func TestRefused(t *testing.T) {
	for name, lc := range map[string]*ListenConfig{"MaxConns": {MaxConns: 1}, "Backlog": {Backlog: 1}} {
		synctest.Test(t, func(t *testing.T) {
			n, l, dial := network(t, lc)
			first := dial("10.0.0.2:1", &Dialer{})
			defer first.Close()
			time.Sleep(simRTT)
			c := dial("10.0.0.3:1", &Dialer{})
			wantRefused(t, c, "full", 2*simRTT)
			require.EqualValues(t, 1, l.Stats().Refused, name)
			sent := n.LinkStats(netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.3")).Sent
			require.EqualValues(t, 1, sent, name)

			s := accept(t, l)
			l.Close()
			c = dial("10.0.0.4:1", &Dialer{})
			wantRefused(t, c, "closing", 2*simRTT)
			first.Write([]byte("the others live on"))
			wantMessage(t, s, "the others live on")
			s.Close()
		})
	}
}

// Filter turns peers away without a word, whatever else holds.
func TestFilteredInSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, l, dial := network(t, &ListenConfig{MaxConns: 1, Config: &Config{ProtocolID: 1},
			Filter: func(a netip.AddrPort) bool { return a.Port() == 1 }})
		first := dial("10.0.0.2:1", &Dialer{})
		defer first.Close()
		s := accept(t, l)
		defer s.Close()
		for range 2 {
			c := dial("10.0.0.3:2", &Dialer{Config: &Config{ProtocolID: 2}})
			_, _, err := wantEnd(t, c)
			require.ErrorIs(t, err, ErrIdleTimeout)
			c.Close()
			l.Close() // and while it closes
		}
		require.Zero(t, n.LinkStats(netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.3")).Sent)
	})
}

// Sides with different ProtocolIDs have no connection, and those without one go with
// all, unless RequireProtocol is set.
func TestProtocolID(t *testing.T) {
	for _, c := range []struct {
		server, client uint64
		require        bool
		reason         string
	}{
		{7, 7, false, ""}, {7, 7, true, ""}, {0, 0, false, ""}, {0, 7, false, ""}, {7, 0, false, ""},
		{7, 8, false, "protocol"}, {7, 8, true, "protocol"}, {7, 0, true, "protocol"},
	} {
		synctest.Test(t, func(t *testing.T) {
			_, l, dial := network(t, &ListenConfig{Config: &Config{ProtocolID: c.server}, RequireProtocol: c.require})
			d := dial("10.0.0.2:1", &Dialer{Config: &Config{ProtocolID: c.client}})
			defer d.Close()
			if c.reason == "" {
				d.Write([]byte("hello"))
				s := accept(t, l)
				defer s.Close()
				wantMessage(t, s, "hello")
				return
			}
			wantRefused(t, d, c.reason, 2*simRTT)
			l.SetDeadline(time.Now().Add(time.Second))
			if s, err := l.AcceptConn(context.Background()); err == nil {
				// Its first packet came alone; then it learns soon.
				_, after, err := wantEnd(t, s)
				var ce *CloseError
				require.ErrorAs(t, err, &ce)
				require.Equal(t, "protocol", ce.Reason)
				require.LessOrEqual(t, after, 2*simRTT)
				require.False(t, c.require)
			}
		})
	}
	_, err := (&ListenConfig{RequireProtocol: true}).newListener()
	var ce *ConfigError
	require.ErrorAs(t, err, &ce)
	require.Equal(t, "ListenConfig.RequireProtocol", ce.Field)
}

// A PacketConn takes no messages of peers with another ProtocolID once they have greeted, or
// none at all with RequireProtocol. A peer that it refuses is told, and forgets it.
func TestPacketConnProtocolID(t *testing.T) {
	for _, c := range []struct {
		server, client uint64
		require, takes bool
	}{
		{7, 7, false, true}, {7, 7, true, true}, {0, 7, false, true}, {7, 0, false, true},
		{7, 8, false, false}, {7, 8, true, false}, {7, 0, true, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			n := simnet.New(1)
			defer n.Close()
			n.SetDefault(simnet.Link{Latency: simRTT / 2})
			open := func(addr string, lc *ListenConfig) *PacketConn {
				below, err := n.Listen(addr)
				require.NoError(t, err)
				pc, err := NewPacketConn(below, lc)
				require.NoError(t, err)
				return pc
			}
			s := open("10.0.0.1:7", &ListenConfig{Config: &Config{ProtocolID: c.server}, RequireProtocol: c.require})
			defer s.Close()
			p := open("10.0.0.2:7", &ListenConfig{Config: &Config{ProtocolID: c.client}})
			defer p.Close()
			const messages = 20
			read := 0
			for range messages {
				p.WriteTo([]byte("hello"), s.LocalAddr())
				s.SetReadDeadline(time.Now().Add(2 * simRTT))
				if _, _, err := s.ReadFrom(make([]byte, 10)); err == nil {
					read++
				}
				time.Sleep(3 * simRTT)
			}
			switch {
			case c.takes:
				require.Equal(t, messages, read, "%+v", c)
				require.Equal(t, 1, s.Stats().Peers)
			case c.require:
				require.Zero(t, read, "%+v", c)
				require.Zero(t, s.Stats().Peers)
				require.GreaterOrEqual(t, s.Stats().Refused+s.Stats().Unknown, uint64(messages))
			default:
				require.LessOrEqual(t, read, 2, "%+v", c)
				require.Zero(t, p.Stats().Peers)
			}
		})
	}
}

// With RequireProtocol a PacketConn takes nothing of peers that do not greet. A peer of ours
// that it has forgotten learns that, and greets again.
func TestPacketConnRequiresProtocol(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := simnet.New(1)
		defer n.Close()
		n.SetDefault(simnet.Link{Latency: simRTT / 2})
		var s *PacketConn
		begin := func() {
			below, err := n.Listen("10.0.0.1:7777")
			require.NoError(t, err)
			s, err = NewPacketConn(below, &ListenConfig{Config: &Config{ProtocolID: 7}, RequireProtocol: true})
			require.NoError(t, err)
		}
		heard := func() bool {
			s.SetReadDeadline(time.Now().Add(2 * simRTT))
			_, _, err := s.ReadFrom(make([]byte, 10))
			return err == nil
		}
		begin()
		ref := dialShared(t, n, "10.0.0.2:1", ReferenceConfig())
		defer ref.Close()
		for range 5 {
			ref.Write([]byte("hello"))
			require.False(t, heard())
		}
		require.Zero(t, s.Stats().Peers)
		require.Zero(t, n.LinkStats(netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")).Sent)

		p := packetAt(t, n, "10.0.0.3:1", &Config{ProtocolID: 7})
		defer p.Close()
		p.WriteTo([]byte("hello"), s.LocalAddr())
		require.True(t, heard())
		s.WriteTo([]byte("hello"), p.LocalAddr())
		time.Sleep(2 * simRTT)
		n.SetDefault(simnet.Link{Loss: 1}) // so that no goodbye arrives
		require.NoError(t, s.Close())
		n.SetDefault(simnet.Link{Latency: simRTT / 2})
		begin()
		defer s.Close()
		p.WriteTo([]byte("lost"), s.LocalAddr())
		require.False(t, heard())
		time.Sleep(2 * simRTT)
		p.WriteTo([]byte("hello"), s.LocalAddr())
		require.True(t, heard())
	})
}

// A hello that comes first, or with its packet, decides at once.
func TestHelloDecides(t *testing.T) {
	packet := reliable.AppendHeader(nil, reliable.Header{Ack: 65535})
	for _, c := range []struct {
		server, client uint64
		require        bool
		reason         string
	}{
		{7, 7, true, ""}, {0, 7, false, ""}, {7, 0, false, ""}, {7, 8, false, "protocol"}, {7, 0, true, "protocol"},
	} {
		a := newNotifier(t, ListenConfig{Config: &Config{ProtocolID: c.server}, RequireProtocol: c.require})
		first := saluted(helloPrefix, salute{token: 1, protocol: c.client})
		for _, bufs := range [][][]byte{{first}, {packet, first}} {
			var out wire.Batch
			admit := a.HandleUnknown(time.Now(), stranger, false, bufs, &out)
			require.Equal(t, c.reason == "", admit != nil, "%+v", c)
			if c.reason != "" {
				require.Equal(t, tokened(refusalPrefix, 1, c.reason), out.At(0))
			} else {
				require.Zero(t, out.Len())
			}
		}
	}
}

// With RequireProtocol a peer of the reference is turned away in silence, and one of
// ours comes in on a link that loses packets and changes their order.
func TestRequireProtocol(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, l, dial := network(t, &ListenConfig{Config: &Config{ProtocolID: 7}, RequireProtocol: true})
		ref := dial("10.0.0.2:1", &Dialer{Config: ReferenceConfig()})
		defer ref.Close()
		ref.Write([]byte("hello"))
		wantNoConn(t, l)
		require.Zero(t, n.LinkStats(netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")).Sent)
		n.SetDefault(simnet.Link{Latency: 10 * time.Millisecond, Jitter: 20 * time.Millisecond, Loss: 0.3, Duplicate: 0.2})
		for range 50 {
			c := dial("10.0.0.3:0", &Dialer{Config: &Config{ProtocolID: 7}})
			for range 30 {
				c.Write([]byte("hello"))
				time.Sleep(20 * time.Millisecond)
			}
			s := accept(t, l)
			_, err := s.ReadMessage(context.Background(), nil)
			require.NoError(t, err)
			c.Close()
			s.Close()
			time.Sleep(time.Second)
		}
	})
}

// A refusal counts before the peer has answered only, and only with our token.
func TestRefusalsThatSayNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, l, dial := network(t, &ListenConfig{})
		n.SetDefault(simnet.Link{Latency: 100 * time.Millisecond})
		c := dial("10.0.0.2:1", &Dialer{})
		defer c.Close()
		own := greetingOf(c).own
		require.NotZero(t, own)
		forge(c, tokened(refusalPrefix, own+1, "full"), tokened(refusalPrefix, 0, "full"), unknown(own))
		forge(c, tokened(refusalPrefix, own, "a reason of seventeen bytes or more"))
		s := accept(t, l)
		defer s.Close()
		time.Sleep(time.Second)
		require.True(t, greetingOf(c).proved)
		forge(c, tokened(refusalPrefix, own, "full"))
		time.Sleep(time.Second)
		c.Write([]byte("still here"))
		wantMessage(t, s, "still here")
	})
}

// Over a link that loses 30 %, a refused side learns it with the packets that it sends.
func TestRefusedOverLossyLink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, _, dial := network(t, &ListenConfig{MaxConns: 1})
		first := dial("10.0.0.2:1", &Dialer{})
		defer first.Close()
		time.Sleep(simRTT)
		n.SetDefault(simnet.Link{Latency: 10 * time.Millisecond, Loss: 0.3})
		slow := 0
		for range 100 {
			c := dial("10.0.0.3:0", &Dialer{})
			start := time.Now()
			_, err := c.Write([]byte("hello"))
			for err == nil {
				time.Sleep(time.Millisecond)
				_, err = c.Write([]byte("hello"))
			}
			var re *RefusedError
			require.ErrorAs(t, err, &re)
			if time.Since(start) > 2*simRTT {
				slow++
			}
			require.Less(t, time.Since(start), 5*time.Second)
			c.Close()
		}
		require.Less(t, slow, 70, "each try is heard and answered in half of the cases")
	})
}

// What happens at every step of a connection's life, to either side: its program ends,
// with Close or without, or is started again. The other side knows the right end, and
// nothing but that.
func TestEndsAtEveryStep(t *testing.T) {
	const step = simRTT / 8
	for _, byServer := range []bool{false, true} {
		for _, exit := range []bool{false, true} { // with Close
			for _, again := range []bool{false, true} {
				for at := time.Duration(0); at <= 4*simRTT; at += step {
					synctest.Test(t, func(t *testing.T) { endAt(t, at, byServer, exit, again) })
				}
			}
		}
	}
}

func endAt(t *testing.T, at time.Duration, byServer, exit, again bool) {
	t.Helper()
	n := simnet.New(1)
	defer n.Close()
	n.SetDefault(simnet.Link{Latency: simRTT / 2})
	listen := func() *Listener {
		pc, err := n.Listen("10.0.0.1:7777")
		require.NoError(t, err)
		l, err := new(ListenConfig).ListenOn(pc)
		require.NoError(t, err)
		return l
	}
	l := listen()
	c := dialShared(t, n, "10.0.0.2:5000", nil)
	accepted := make(chan *Conn, 1)
	go func() {
		s, err := l.AcceptConn(context.Background())
		if err == nil {
			s.Write([]byte("welcome"))
		}
		accepted <- s
	}()
	time.Sleep(at)
	synctest.Wait() // or Close may meet a connection that is about to be accepted
	end := kill
	if exit {
		end = (*Conn).Close
	}
	var s *Conn
	select {
	case s = <-accepted:
	default:
	}
	if byServer {
		if s != nil {
			end(s)
		}
		l.Close()
		if s == nil {
			<-accepted
		}
		require.NoError(t, l.Shutdown(t.Context()))
		if again {
			l = listen()
			defer l.Close()
		}
		for range 20 { // until it knows
			c.Write([]byte("hello"))
			time.Sleep(simRTT)
		}
		_, after, err := wantEnd(t, c)
		switch {
		case err == io.EOF:
			require.True(t, exit)
		case errors.Is(err, os.ErrDeadlineExceeded): // it had heard nothing yet, and is in
			require.True(t, again && at <= 3*simRTT/2, "again %v exit %v at %v", again, exit, at)
			require.Equal(t, 1, l.Stats().Conns)
		case after > time.Second:
			require.ErrorIs(t, err, ErrIdleTimeout)
			require.False(t, exit && at > 2*simRTT)
			require.False(t, again && at > 4*simRTT-1)
		case errors.As(err, new(*RefusedError)): // it came as the server closed
			require.LessOrEqual(t, at, simRTT/2)
		default:
			require.ErrorIs(t, err, ErrPeerRestarted)
			require.True(t, again)
		}
		c.Close()
		return
	}
	end(c)
	if again {
		time.Sleep(farewellGaps*unknownGap + time.Millisecond) // until the port is free
		c = dialShared(t, n, "10.0.0.2:5000", nil)
		defer c.Close()
	}
	if s == nil {
		s = <-accepted
	}
	if !again || exit && at > 3*simRTT/2 {
		_, after, err := wantEnd(t, s)
		if exit && at > 3*simRTT/2 {
			require.Equal(t, io.EOF, err)
			require.LessOrEqual(t, after, 3*simRTT)
		} else if err != io.EOF {
			require.ErrorIs(t, err, ErrIdleTimeout)
		}
	}
	if again && exit && at > 3*simRTT/2 {
		next := accept(t, l)
		c.Write([]byte("hello again"))
		wantMessage(t, next, "hello again")
		next.Close()
	}
	s.Close()
	l.Close()
}

// A goodbyeRefused is a socket that learns at the goodbye that nobody listens, and whose write leaves
// a Read the time to tell it.
type goodbyeRefused struct {
	*simnet.Conn
	notice atomic.Pointer[func()]
}

func (c *goodbyeRefused) WriteToUDPAddrPort(b []byte, addr netip.AddrPort) (int, error) {
	if notice := c.notice.Load(); notice != nil && b[0] == goodbyePrefix {
		c.notice.Store(nil)
		(*notice)()
		time.Sleep(time.Millisecond)
	}
	return c.Conn.WriteToUDPAddrPort(b, addr)
}

// A Read that Close interrupts does not tell that the other side refuses the goodbye.
func TestRefusedGoodbye(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := simnet.New(1)
		at, err := n.Listen("10.0.0.1:7777")
		require.NoError(t, err)
		l, err := new(ListenConfig).ListenOn(at)
		require.NoError(t, err)
		near, err := n.Listen("10.0.0.2:7777")
		require.NoError(t, err)
		pc := &goodbyeRefused{Conn: near}
		c, err := new(Dialer).DialOn(t.Context(), pc, l.Addr())
		require.NoError(t, err)
		s, err := l.AcceptConn(t.Context())
		require.NoError(t, err)
		time.Sleep(time.Second)
		notice := c.user.In.Notice
		pc.notice.Store(&notice)
		read := make(chan error, 1)
		go func() {
			_, err := c.Read(make([]byte, 10))
			read <- err
		}()
		synctest.Wait()
		c.Close()
		require.ErrorIs(t, <-read, net.ErrClosed)
		require.Nil(t, pc.notice.Load())
		s.Close()
		l.Close()
		time.Sleep(5 * time.Second)
	})
}
