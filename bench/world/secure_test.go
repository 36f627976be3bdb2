package world

import (
	"context"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"time"

	"volley"
	"volley/internal/sideband"
	"volley/netcode"
	"volley/secure"
)

// A secureLink is a session of package secure.
type secureLink struct{ *secure.Conn }

func (l secureLink) read(ctx context.Context, dst []byte) ([]byte, uint64, error) {
	msg, err := l.ReadMessage(ctx, dst)
	return msg, 0, err
}

func (l secureLink) write(b []byte) (uint64, error) {
	_, err := l.Write(b)
	return 0, err
}

func (l secureLink) fates(func(uint64, volley.Fate)) error { return net.ErrClosed }
func (l secureLink) close() error                          { return l.CloseWithReason("enough") }
func (l secureLink) max() int                              { return l.MaxMessageSize() }
func (l secureLink) pin() (pin, time.Duration)             { return pinTo(l.Conn), 6 * lag }
func (l secureLink) look()                                 { l.Stats() }

// A tokenServer gives tokens to clients.
type tokenServer interface {
	URL(host string) string
	token() *pipes
}

// A secureServer accepts sessions of package secure.
type secureServer struct {
	*secure.Listener
	w      *world
	home   int
	tokens *pipes
}

func listenSecure(w *world, home int, pc net.PacketConn) (server, error) {
	tokens := &pipes{addr: net.TCPAddrFromAddrPort(w.hosts[home].addr()), conns: make(chan net.Conn), done: make(chan struct{})}
	lc := secure.ListenConfig{KeyFile: w.keyFile, Sessions: &netcode.ListenConfig{MaxMemory: sessionLimit(w.plan.servers[home])}, Public: w.hosts[home].addr()}
	l, err := lc.ListenOn(pc, tokens)
	return &secureServer{l, w, home, tokens}, err
}

func (s *secureServer) run(take func(*end)) {
	open := func(c *secure.Conn, served bool) *end {
		e := newEnd(s.w.book, secureLink{c}, route{home: s.home, peer: s.w.hostOf(c.RemoteAddr()), promises: sealed, served: served})
		take(e)
		return e
	}
	ends := newEndsOf[*secure.Conn]()
	h := secure.Handler{
		Open:    func(c *secure.Conn) { ends.add(c, open(c, true)) },
		Message: func(c *secure.Conn, msg []byte) { ends.of(c).take(msg, 0) },
		Closed:  func(c *secure.Conn, err error) { ends.remove(c).finished(err) },
	}
	s.w.handle(s.home, func() error {
		c, err := s.AcceptConn(context.Background())
		if err == nil {
			open(c, false)
		}
		return err
	}, func() error { return s.Serve(h) }, func() error { return s.Poll(h) })
}

func (s *secureServer) shutdown() error { return within(s.Shutdown) }
func (s *secureServer) close()          { s.Close() }

func (s *secureServer) check(over bool) {
	st := s.Stats()
	s.w.checkMemory(s.home, over, st.Conns, st.Memory, sessionLimit(s.w.plan.servers[s.home]))
}

func (s *secureServer) token() *pipes { return s.tokens }

// A securedServer accepts connections of package volley over such sessions.
type securedServer struct {
	volleyServer
	below *secureServer
}

func (s *securedServer) URL(host string) string { return s.below.URL(host) }
func (s *securedServer) token() *pipes          { return s.below.tokens }

func listenSecured(w *world, home int, pc net.PacketConn) (server, error) {
	s, err := listenSecure(w, home, pc)
	if err != nil {
		return nil, err
	}
	below := s.(*secureServer)
	l, err := volley.NewListener(below.Listener, w.volleyConfig(home).Config)
	return &securedServer{volleyServer{Listener: l, w: w, home: home, below: below.check}, below}, err
}

func dialSecured(w *world, home, peer int, pc net.PacketConn, to netip.AddrPort) (*end, error) {
	inner, err := w.secureSession(home, peer, pc, to)
	if err != nil {
		return nil, err
	}
	return w.overSession(inner, home, peer, pc)
}

// overSession opens a connection of package volley.
func (w *world) overSession(inner *secure.Conn, home, peer int, pc net.PacketConn) (*end, error) {
	c, err := volley.NewConn(w.within(inner, pc, home, peer), &volley.Config{ReadBuffer: clientBuffer(home), Capture: w.recorder})
	if err != nil {
		return nil, err
	}
	return w.volleyEnd(c, home, peer, false), nil
}

func dialSecure(w *world, home, peer int, pc net.PacketConn, to netip.AddrPort) (*end, error) {
	c, err := w.secureSession(home, peer, pc, to)
	if err != nil {
		return nil, err
	}
	return w.secureEnd(c, home, peer), nil
}

func (w *world) secureEnd(c *secure.Conn, home, peer int) *end {
	return newEnd(w.book, secureLink{c}, route{home: home, peer: peer, promises: sealed, dialed: true})
}

// secureSession opens a session with a server, and more sockets when it moves.
func (w *world) secureSession(home, peer int, pc net.PacketConn, to netip.AddrPort) (*secure.Conn, error) {
	server, ok := w.hosts[peer].running().(tokenServer)
	if !ok {
		return nil, net.ErrClosed
	}
	h, first := w.hosts[home], pc
	n := &sideband.Network{
		DialTCP: w.tcpFrom(h),
		DialUDP: func() (net.PacketConn, error) {
			if pc := first; pc != nil {
				first = nil
				return pc, nil
			}
			return h.another()
		},
	}
	ctx, cancel := context.WithTimeout(sideband.WithNetwork(context.Background(), n), sessionWait)
	defer cancel()
	return new(secure.Dialer).Dial(ctx, server.URL(to.Addr().String()))
}

// tcpFrom returns a function that reaches the token services of servers.
func (w *world) tcpFrom(h *host) func(ctx context.Context, _, address string) (net.Conn, error) {
	return func(ctx context.Context, _, address string) (net.Conn, error) {
		time.Sleep(2 * w.plan.link.Latency)
		at, err := netip.ParseAddrPort(address)
		if err != nil {
			return nil, err
		}
		for _, other := range w.servers() {
			if s, ok := other.running().(tokenServer); ok && other.addr() == at {
				return s.token().dial(ctx, net.TCPAddrFromAddrPort(h.addr()))
			}
		}
		return nil, net.ErrClosed
	}
}

// sessionOf returns the session of a link, or nil.
func sessionOf(l link) *secure.Conn {
	switch l := l.(type) {
	case secureLink:
		return l.Conn
	case *volleyLink:
		c, _ := l.NetConn().(*secure.Conn)
		return c
	}
	return nil
}

// forgetful reports whether a client dials anew when it should ask for the session that follows.
func forgetful(host int) bool { return host%3 == 0 }

// followLocked goes on with the session that follows one that has ended, perhaps at another server.
func (h *host) followLocked() bool {
	c := sessionOf(h.end.link)
	if c == nil || forgetful(h.number) {
		return false
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	next, err := c.Next(ctx)
	if err != nil {
		return false
	}
	h.end.close()
	h.runningMu.Lock()
	if n := len(h.more); n > 0 {
		h.sock.Close()
		h.sock, h.more = h.more[n-1], h.more[:n-1]
	}
	h.runningMu.Unlock()
	peer := h.w.hostOf(next.RemoteAddr())
	h.to = h.w.hosts[peer]
	h.w.book.count(func(c *counts) { c.Followed++ })
	if h.stack == secureSessions {
		h.end = h.w.secureEnd(next, h.number, peer)
		return true
	}
	h.end, err = h.w.overSession(next, h.number, peer, h.sock)
	if err != nil {
		h.w.book.fail("host %d: no connection over the session that follows: %v", h.number, err)
		h.end = nil
		return false
	}
	return true
}

// A drainer is a server that can send its clients away.
type drainer interface {
	tokenServer
	drain(ctx context.Context, to string) error
}

func (s *secureServer) drain(ctx context.Context, to string) error {
	return s.Drain(ctx, to, func(c *secure.Conn) []byte { return c.Identity() })
}

func (s *securedServer) drain(ctx context.Context, to string) error { return s.below.drain(ctx, to) }

// drain has a server send its clients to another one, or to itself if there is none. Then
// its process starts again.
func (w *world) drain(h *host, f fault) {
	s, ok := h.running().(drainer)
	if !ok {
		return
	}
	url := ""
	for _, other := range w.servers() {
		if o, ok := other.running().(drainer); ok && other != h && other.stack == h.stack {
			url = o.URL(other.addr().Addr().String())
		}
	}
	ctx := sideband.WithNetwork(context.Background(), &sideband.Network{DialTCP: w.tcpFrom(h)})
	ctx, cancel := context.WithTimeout(ctx, f.lasts)
	defer cancel()
	begin := time.Now()
	err := s.drain(ctx, url) // it fails if there is more trouble
	w.book.trace("host %d drained: %v", h.number, err)
	if err == nil {
		w.book.count(func(c *counts) { c.Drained++ })
	}
	h.kill(max(0, min(f.lasts/8, f.lasts-time.Since(begin))))
}

// running returns the server of a host, nil while there is none.
func (h *host) running() server {
	h.runningMu.Lock()
	defer h.runningMu.Unlock()
	return h.serves
}

// another opens one more socket of a client.
func (h *host) another() (net.PacketConn, error) {
	c, err := h.w.net.Listen(netip.AddrPortFrom(h.addr().Addr(), 0).String())
	if err != nil {
		return nil, err
	}
	s := h.w.socket(c)
	h.runningMu.Lock()
	defer h.runningMu.Unlock()
	s.inherit(h.newest)
	h.newest = s
	h.more = append(h.more, s)
	return s, nil
}

// pipes is a net.Listener for connections in memory, which take the place of TCP.
type pipes struct {
	addr  net.Addr
	conns chan net.Conn
	once  sync.Once
	done  chan struct{}
}

// Accept implements net.Listener.
func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (p *pipes) Close() error {
	p.once.Do(func() { close(p.done) })
	return nil
}

// Addr implements net.Listener.
func (p *pipes) Addr() net.Addr { return p.addr }

func (p *pipes) dial(ctx context.Context, local net.Addr) (net.Conn, error) {
	a, b := newStream(), newStream()
	select {
	case p.conns <- &streamConn{in: a, out: b, local: p.addr, remote: local}:
		return &streamConn{in: b, out: a, local: local, remote: p.addr}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-p.done:
		return nil, net.ErrClosed
	}
}

// A stream is one direction of a connection. Writes do not wait.
type stream struct {
	mu   sync.Mutex
	buf  []byte
	over bool
	news chan struct{} // closed when something has changed
}

func newStream() *stream { return &stream{news: make(chan struct{})} }

// change changes the stream, and wakes its reader.
func (s *stream) change(do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	do()
	close(s.news)
	s.news = make(chan struct{})
}

// A streamConn is an end of two streams.
type streamConn struct {
	in, out       *stream
	local, remote net.Addr

	mu     sync.Mutex
	due    time.Time // of reads
	closed bool
}

// Read implements net.Conn.
func (c *streamConn) Read(b []byte) (int, error) {
	for {
		c.mu.Lock()
		due, closed := c.due, c.closed
		c.mu.Unlock()
		c.in.mu.Lock()
		n := copy(b, c.in.buf)
		c.in.buf = c.in.buf[n:]
		over, news := c.in.over, c.in.news
		c.in.mu.Unlock()
		switch {
		case closed:
			return 0, net.ErrClosed
		case n > 0 || len(b) == 0:
			return n, nil
		case over:
			return 0, io.EOF
		case !due.IsZero() && !time.Now().Before(due):
			return 0, os.ErrDeadlineExceeded
		}
		wait := time.Hour
		if !due.IsZero() {
			wait = time.Until(due)
		}
		t := time.NewTimer(wait)
		select {
		case <-news:
		case <-t.C:
		}
		t.Stop()
	}
}

// Write implements net.Conn.
func (c *streamConn) Write(b []byte) (n int, err error) {
	c.mu.Lock()
	closed := c.closed
	c.mu.Unlock()
	c.out.change(func() {
		if c.out.over || closed {
			err = net.ErrClosed
			return
		}
		c.out.buf = append(c.out.buf, b...)
		n = len(b)
	})
	return n, err
}

// Close implements net.Conn.
func (c *streamConn) Close() error {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.out.change(func() { c.out.over = true })
	c.in.change(func() { c.in.over = true })
	return nil
}

// SetReadDeadline implements net.Conn.
func (c *streamConn) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	c.due = t
	c.mu.Unlock()
	c.in.change(func() {})
	return nil
}

// SetDeadline implements net.Conn.
func (c *streamConn) SetDeadline(t time.Time) error { return c.SetReadDeadline(t) }

// SetWriteDeadline implements net.Conn.
func (c *streamConn) SetWriteDeadline(time.Time) error { return nil }

// LocalAddr implements net.Conn.
func (c *streamConn) LocalAddr() net.Addr { return c.local }

// RemoteAddr implements net.Conn.
func (c *streamConn) RemoteAddr() net.Addr { return c.remote }
