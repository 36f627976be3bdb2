package secure

import (
	"crypto/tls"
	"errors"
	"maps"
	"net"
	"net/netip"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"time"
)

// A gate is the listener of the token service. It bounds the connections: when there are too
// many, the oldest of the network that has most gives way. A connection lasts for
// requestTimeout at most.
type gate struct {
	net.Listener
	tls  *tls.Config
	pace pace

	mu     sync.Mutex
	conns  []*tokenConn // oldest first
	counts map[netip.Prefix]*int
}

const maxTokenConns = 1024

func newGate(tcp net.Listener, config *tls.Config, special func(*tls.ClientHelloInfo) (*tls.Config, error)) *gate {
	g := &gate{Listener: tcp, tls: config.Clone(), counts: make(map[netip.Prefix]*int)}
	g.pace.interval = time.Second / time.Duration(handshakeRate*runtime.GOMAXPROCS(0))
	choose := config.GetConfigForClient
	g.tls.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		if err := hello.Conn.(*rawConn).of.await(); err != nil {
			return nil, err
		}
		if c, err := special(hello); c != nil || err != nil || choose == nil {
			return c, err
		}
		c, err := choose(hello)
		if c != nil {
			c = c.Clone()
			c.MinVersion, c.NextProtos = tls.VersionTLS13, protocols
		}
		return c, err
	}
	return g
}

// Accept waits for a connection.
func (g *gate) Accept() (net.Conn, error) {
	c, err := g.Listener.Accept()
	switch {
	case err == nil:
	case errors.Is(err, net.ErrClosed):
		return nil, err
	default:
		if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) {
			g.makeRoom()
		}
		return nil, acceptError{err}
	}
	tc := &tokenConn{gate: g, end: time.Now().Add(requestTimeout)}
	if ap, err := netip.ParseAddrPort(c.RemoteAddr().String()); err == nil {
		tc.network = networkOf(ap.Addr())
	}
	tc.tls = tls.Server(&rawConn{c, tc}, g.tls)
	tc.Conn = tc.tls
	c.SetDeadline(tc.end)
	if victim := g.add(tc); victim != nil {
		victim.tls.NetConn().Close()
	}
	return tc, nil
}

// An acceptError lets package http try again soon. With most errors it would stop, and the
// server would give no tokens any more.
type acceptError struct{ error }

var _ net.Error = acceptError{}

func (acceptError) Timeout() bool   { return false }
func (acceptError) Temporary() bool { return true }

// add counts a connection, and returns the one that gives way to it.
func (g *gate) add(tc *tokenConn) (victim *tokenConn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if tc.count = g.counts[tc.network]; tc.count == nil {
		tc.count = new(int)
		g.counts[tc.network] = tc.count
	}
	*tc.count++
	g.conns = append(g.conns, tc)
	if len(g.conns) <= maxTokenConns {
		return nil
	}
	return g.giveWayLocked()
}

// giveWayLocked removes the connection that gives way to others, and returns it; nil if there
// is none.
func (g *gate) giveWayLocked() (victim *tokenConn) {
	for _, c := range g.conns {
		if !c.waits && (victim == nil || *c.count > *victim.count) {
			victim = c
		}
	}
	g.removeLocked(victim)
	return victim
}

// makeRoom closes an eighth of the connections, because the system gives no more descriptors.
func (g *gate) makeRoom() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for range len(g.conns)/8 + 1 {
		if victim := g.giveWayLocked(); victim != nil {
			victim.tls.NetConn().Close()
		}
	}
}

func (g *gate) removeLocked(tc *tokenConn) {
	i := slices.Index(g.conns, tc)
	if i < 0 {
		return
	}
	g.conns = slices.Delete(g.conns, i, i+1)
	if *tc.count--; *tc.count == 0 {
		delete(g.counts, tc.network)
	}
}

// A rawConn is the connection of TCP below a tokenConn.
type rawConn struct {
	net.Conn
	of *tokenConn
}

// A tokenConn is a connection of the token service. It is no *tls.Conn for package http,
// which would look at its protocol; the handshake comes with the first Read.
type tokenConn struct {
	net.Conn // tls
	tls      *tls.Conn
	gate     *gate
	network  netip.Prefix
	end      time.Time // of the connection, at the latest

	// gate.mu guards these.
	count *int // connections of the network
	waits bool // for its turn of a handshake, as maxHandshakes do at most: it does not give way
}

// await waits for the turn of the handshake.
func (c *tokenConn) await() error {
	delay, err := c.gate.pace.take(time.Now(), c.network)
	if err != nil || delay <= 0 {
		return err
	}
	c.setWaits(true)
	time.Sleep(delay)
	c.setWaits(false)
	return nil
}

func (c *tokenConn) setWaits(waits bool) {
	c.gate.mu.Lock()
	defer c.gate.mu.Unlock()
	c.waits = waits
}

// SetDeadline sets a deadline that is not after the end, as the others do.
func (c *tokenConn) SetDeadline(t time.Time) error      { return c.Conn.SetDeadline(c.atMost(t)) }
func (c *tokenConn) SetReadDeadline(t time.Time) error  { return c.Conn.SetReadDeadline(c.atMost(t)) }
func (c *tokenConn) SetWriteDeadline(t time.Time) error { return c.Conn.SetWriteDeadline(c.atMost(t)) }

func (c *tokenConn) atMost(t time.Time) time.Time {
	if t.IsZero() || t.After(c.end) {
		return c.end
	}
	return t
}

// Close closes the connection.
func (c *tokenConn) Close() error {
	c.gate.mu.Lock()
	c.gate.removeLocked(c)
	c.gate.mu.Unlock()
	return c.Conn.Close()
}

// A pace bounds the processor time that handshakes take, because a stranger causes one by
// one packet. When too many come they wait for a while, and others are refused: first those of
// networks that ask for more than an equal part of half of the handshakes.
type pace struct {
	interval time.Duration // between handshakes

	mu       sync.Mutex
	next     time.Time
	networks map[netip.Prefix]time.Time // that have asked, until when each has had its part
	swept    time.Time
}

const (
	handshakeRate  = 600         // a second and processor, less than half of its time
	handshakeBurst = time.Second // of handshakes may come at once
	handshakeWait  = time.Second / 2
	maxHandshakes  = maxTokenConns / 2 // that wait
)

var errBusy = errors.New("too many handshakes")

// take returns how long a handshake has to wait for its turn.
func (p *pace) take(now time.Time, network netip.Prefix) (delay time.Duration, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now.Sub(p.swept) >= time.Second {
		p.swept = now
		maps.DeleteFunc(p.networks, func(_ netip.Prefix, until time.Time) bool { return until.Before(now) })
		if p.networks == nil {
			p.networks = make(map[netip.Prefix]time.Time)
		}
	}
	most := min(handshakeWait, maxHandshakes*p.interval)
	until := p.networks[network]
	if until.After(now) {
		most /= 2
	} else {
		until = now
	}
	p.networks[network] = until
	if least := now.Add(-handshakeBurst); p.next.Before(least) {
		p.next = least
	}
	if delay = p.next.Sub(now); delay >= most {
		return 0, errBusy
	}
	p.next = p.next.Add(p.interval)
	until = until.Add(2 * p.interval * time.Duration(len(p.networks)))
	if latest := now.Add(time.Second); until.After(latest) {
		until = latest
	}
	p.networks[network] = until
	return delay, nil
}
