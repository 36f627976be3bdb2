package webgate

import (
	"net"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/coder/websocket"
	"github.com/quic-go/webtransport-go"
)

// A Gate accepts browsers, over WebTransport and WebSockets. It is a net.Listener for
// [volley.NewListener], and an http.Handler for servers that the application has.
type Gate struct {
	cfg  Config
	wt   *webtransport.Server
	addr net.Addr
	own  *sockets // of Listen; nil: the application's

	accepted chan *Conn
	closed   chan struct{}

	mu       sync.Mutex
	sessions int // also those that are being opened
	ended    bool

	counts struct {
		opened, refused, dropped, streams atomic.Uint64
	}
}

// Stats are the figures of a [Gate] since it was made.
type Stats struct {
	Sessions       int    // that there are
	Opened         uint64 // sessions
	Refused        uint64 // requests that were turned away
	Dropped        uint64 // datagrams to clients that did not take them in time
	StreamsRefused uint64 // streams that pages have opened
}

// New returns a Gate behind a WebTransport server of the application's, which serves the
// Gate as the handler of [Config].Path, and may serve other things. If its CheckOrigin is
// nil, New sets it, because the Gate checks origins. To have WebSockets, too, serve the
// Gate by an http.Server as well. Closing the Gate leaves the servers alone.
func New(server *webtransport.Server, cfg *Config) (*Gate, error) {
	c, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	if server.CheckOrigin == nil {
		server.CheckOrigin = func(*http.Request) bool { return true }
	}
	g := &Gate{cfg: c, wt: server, addr: addr{overWebTransport, "gate"}}
	if server.H3 != nil && server.H3.Addr != "" {
		g.addr = addr{overWebTransport, server.H3.Addr}
	}
	g.accepted = make(chan *Conn, c.MaxSessions)
	g.closed = make(chan struct{})
	return g, nil
}

// Accept waits for the next session and returns it, a *[Conn]. After Close the error
// matches net.ErrClosed.
func (g *Gate) Accept() (net.Conn, error) {
	select {
	case <-g.closed:
		return nil, g.closedError()
	default:
	}
	select {
	case c := <-g.accepted:
		return c, nil
	case <-g.closed:
		return nil, g.closedError()
	}
}

func (g *Gate) closedError() error {
	return &net.OpError{Op: "accept", Net: g.addr.Network(), Addr: g.addr, Err: net.ErrClosed}
}

// Addr returns the address that the Gate listens on, UDP and TCP.
func (g *Gate) Addr() net.Addr { return g.addr }

// Close turns new sessions away and ends those that nobody has accepted. Accepted ones
// live on. After the last of them the sockets of Listen close.
func (g *Gate) Close() error {
	g.mu.Lock()
	if g.ended {
		g.mu.Unlock()
		return nil
	}
	g.ended = true
	close(g.closed)
	last := g.sessions == 0
	g.mu.Unlock()
	if g.own != nil {
		g.own.stop()
	}
	if last {
		g.release()
	}
	for {
		select {
		case c := <-g.accepted:
			c.Close()
		default:
			return nil
		}
	}
}

// release closes what Listen has opened.
func (g *Gate) release() {
	if g.own != nil {
		g.own.close()
	}
}

// Stats returns the present figures.
func (g *Gate) Stats() Stats {
	g.mu.Lock()
	defer g.mu.Unlock()
	return Stats{
		Sessions: g.sessions, Opened: g.counts.opened.Load(), Refused: g.counts.refused.Load(),
		Dropped: g.counts.dropped.Load(), StreamsRefused: g.counts.streams.Load(),
	}
}

// ServeHTTP opens a session for a WebTransport or WebSocket request.
func (g *Gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	identity, status := g.admit(r)
	if status != 0 {
		g.counts.refused.Add(1)
		w.WriteHeader(status)
		return
	}
	c, err := g.open(w, r)
	if err != nil {
		g.counts.refused.Add(1)
		g.leave()
		return
	}
	c.identity = identity
	g.counts.opened.Add(1)
	g.accepted <- c // never full: a session has a place
	select {
	case <-g.closed:
		c.Close() // Close may have emptied the queue before
	default:
	}
}

// admit checks a request and counts its session, or returns the status of a refusal.
func (g *Gate) admit(r *http.Request) (identity any, status int) {
	if r.URL.Path != g.cfg.Path {
		return nil, http.StatusNotFound
	}
	if r.Method != http.MethodConnect && r.Method != http.MethodGet { // others have a body, which Authorize might read
		return nil, http.StatusMethodNotAllowed
	}
	if !g.cfg.admits(r.Header.Get("Origin")) {
		return nil, http.StatusForbidden
	}
	if !g.enter() {
		return nil, http.StatusServiceUnavailable
	}
	if g.cfg.Authorize == nil {
		return nil, 0
	}
	identity, err := g.cfg.Authorize(r)
	if err != nil {
		g.leave()
		return nil, http.StatusForbidden
	}
	return identity, 0
}

// enter counts a session, if there may be one more.
func (g *Gate) enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ended || g.sessions >= g.cfg.MaxSessions {
		return false
	}
	g.sessions++
	return true
}

// leave counts the end of a session.
func (g *Gate) leave() {
	g.mu.Lock()
	g.sessions--
	last := g.ended && g.sessions == 0
	g.mu.Unlock()
	if last {
		g.release()
	}
}

// open makes the session of a request that was let in.
func (g *Gate) open(w http.ResponseWriter, r *http.Request) (*Conn, error) {
	if r.Method == http.MethodConnect {
		s, err := g.wt.Upgrade(w, r)
		if err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return nil, err
		}
		go refuseStreams(g, s)
		go refuseUniStreams(g, s)
		return newConn(g, &transportLink{s}), nil
	}
	// The Gate has checked the origin.
	ws, err := websocket.Accept(w, r, &websocket.AcceptOptions{InsecureSkipVerify: true, CompressionMode: websocket.CompressionDisabled})
	if err != nil {
		return nil, err
	}
	return newConn(g, newSocketLink(ws, r)), nil
}

// Streams carry nothing here. A page that opens some gets each back at once.
func refuseStreams(g *Gate, s *webtransport.Session) {
	for {
		str, err := s.AcceptStream(s.Context())
		if err != nil {
			return
		}
		g.counts.streams.Add(1)
		str.CancelRead(0)
		str.CancelWrite(0)
	}
}

func refuseUniStreams(g *Gate, s *webtransport.Session) {
	for {
		str, err := s.AcceptUniStream(s.Context())
		if err != nil {
			return
		}
		g.counts.streams.Add(1)
		str.CancelRead(0)
	}
}
