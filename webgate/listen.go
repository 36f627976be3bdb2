package webgate

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
	"github.com/quic-go/webtransport-go"
)

// Listen listens for browsers on an address, such as ":7443": WebTransport on the UDP
// port, WebSockets on the TCP port of the same number. Port 0 is a free one. The error is
// one of the system, or says what does not fit in cfg, which needs a Certificate.
func Listen(address string, cfg *Config) (*Gate, error) {
	if cfg == nil || len(cfg.Certificate.Certificate) == 0 {
		return nil, errors.New("webgate: Config.Certificate is missing")
	}
	own := &sockets{}
	wt := &webtransport.Server{H3: &http3.Server{}}
	g, err := New(wt, cfg)
	if err != nil {
		return nil, err
	}
	if err := own.listen(address, g); err != nil {
		return nil, err
	}
	g.own, g.addr = own, addr{overWebTransport, own.udp.LocalAddr().String()}
	wt.H3.Handler = g
	own.serve(g)
	return g, nil
}

const (
	handshakeTime = 5 * time.Second  // until a request has come
	silence       = 30 * time.Second // of a connection; browsers keep theirs alive
	// streams is how many streams a client may have open: one for its request, and
	// three of HTTP. A few more are refused one by one.
	streams      = 8
	streamWindow = 32 << 10
	maxHeader    = 16 << 10
	// crowd is how many handshakes there may be before further clients have to prove
	// their addresses first, since those may be forged.
	crowd = 64
)

// sockets are those that Listen has opened.
type sockets struct {
	udp   *net.UDPConn
	quic  *quic.Transport
	ln    *quic.Listener
	wt    *webtransport.Server
	tcp   net.Listener
	http  *http.Server
	conns chan struct{} // a token for each QUIC connection
	begun atomic.Int64  // QUIC connections, with those that shake hands
	wg    sync.WaitGroup
	once  sync.Once
}

// listen opens both sockets on the same port.
func (s *sockets) listen(address string, g *Gate) (err error) {
	for range 10 { // a free UDP port may be taken on TCP
		if err = s.bind(address); err == nil {
			break
		}
		if _, port, bad := net.SplitHostPort(address); bad != nil || port != "0" && port != "" {
			return err
		}
	}
	if err != nil {
		return err
	}
	certs := []tls.Certificate{g.cfg.Certificate}
	s.wt = g.wt
	s.conns = make(chan struct{}, 2*g.cfg.MaxSessions)
	s.quic = &quic.Transport{
		Conn: s.udp, ConnContext: s.begin,
		VerifySourceAddress: func(net.Addr) bool { return s.handshakes() >= crowd },
	}
	s.ln, err = s.quic.Listen(http3.ConfigureTLSConfig(&tls.Config{Certificates: certs}), &quic.Config{
		EnableDatagrams: true, EnableStreamResetPartialDelivery: true,
		HandshakeIdleTimeout: handshakeTime, MaxIdleTimeout: silence,
		MaxIncomingStreams: streams, MaxIncomingUniStreams: streams,
		InitialStreamReceiveWindow: streamWindow, MaxStreamReceiveWindow: streamWindow,
		InitialConnectionReceiveWindow: 2 * streamWindow, MaxConnectionReceiveWindow: 2 * streamWindow,
	})
	if err != nil {
		s.udp.Close()
		s.tcp.Close()
		return err
	}
	s.wt.H3.MaxHeaderBytes = maxHeader
	s.http = &http.Server{
		Handler: g, ReadHeaderTimeout: handshakeTime, IdleTimeout: handshakeTime, MaxHeaderBytes: maxHeader,
		TLSNextProto: map[string]func(*http.Server, *tls.Conn, http.Handler){}, // HTTP/1.1 has the WebSockets
		ErrorLog:     log.New(io.Discard, "", 0),                               // a flood must not fill a log
	}
	s.tcp = tls.NewListener(&boundedListener{s.tcp, make(chan struct{}, 2*g.cfg.MaxSessions)}, &tls.Config{Certificates: certs, NextProtos: []string{"http/1.1"}})
	return nil
}

// begin counts a QUIC connection until it ends.
func (s *sockets) begin(ctx context.Context, _ *quic.ClientInfo) (context.Context, error) {
	if s.handshakes() >= cap(s.conns) {
		return nil, errors.New("webgate: too many handshakes")
	}
	s.begun.Add(1)
	context.AfterFunc(ctx, func() { s.begun.Add(-1) })
	return ctx, nil
}

// handshakes returns how many QUIC connections shake hands.
func (s *sockets) handshakes() int { return int(s.begun.Load()) - len(s.conns) }

func (s *sockets) bind(address string) error {
	a, err := net.ResolveUDPAddr("udp", address)
	if err != nil {
		return err
	}
	if s.udp, err = net.ListenUDP("udp", a); err != nil {
		return err
	}
	host, _, err := net.SplitHostPort(address)
	if err == nil {
		port := s.udp.LocalAddr().(*net.UDPAddr).Port
		s.tcp, err = net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(port)))
	}
	if err != nil {
		s.udp.Close()
	}
	return err
}

func (s *sockets) serve(g *Gate) {
	s.wg.Go(s.acceptQUIC)
	s.wg.Go(func() { s.http.Serve(s.tcp) })
}

// excessiveLoad is the error code of HTTP/3 for a server that is full.
const excessiveLoad = quic.ApplicationErrorCode(http3.ErrCodeExcessiveLoad)

func (s *sockets) acceptQUIC() {
	for {
		c, err := s.ln.Accept(context.Background())
		if err != nil {
			return
		}
		select {
		case s.conns <- struct{}{}:
		default:
			c.CloseWithError(excessiveLoad, "")
			continue
		}
		context.AfterFunc(c.Context(), func() { <-s.conns })
		s.wg.Go(func() { s.wt.ServeQUICConn(c) })
	}
}

// stop accepts no more connections.
func (s *sockets) stop() {
	s.ln.Close()
	s.tcp.Close()
}

// close closes the sockets and all connections that are left.
func (s *sockets) close() {
	s.once.Do(func() {
		s.wt.Close()
		s.http.Close()
		s.quic.Close()
		s.udp.Close()
	})
}

// A boundedListener has a bounded number of connections at a time. Above it the next
// ones wait in the system's queue.
type boundedListener struct {
	net.Listener
	tokens chan struct{}
}

func (l *boundedListener) Accept() (net.Conn, error) {
	l.tokens <- struct{}{}
	c, err := l.Listener.Accept()
	if err != nil {
		<-l.tokens
		return nil, err
	}
	return &boundedConn{Conn: c, tokens: l.tokens}, nil
}

type boundedConn struct {
	net.Conn
	once   sync.Once
	tokens chan struct{}
}

func (c *boundedConn) Close() error {
	c.once.Do(func() { <-c.tokens })
	return c.Conn.Close()
}
