package webgate

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/coder/websocket"
	"github.com/quic-go/quic-go"
	"github.com/quic-go/webtransport-go"
)

// The names of what is below a session, as networks of its addresses.
const (
	overWebTransport = "webtransport"
	overWebSocket    = "websocket"
)

const (
	// maxDatagram is the largest datagram in bytes that is received.
	maxDatagram = 4096
	// slowest is how long a WebSocket may take for one message.
	slowest = 10 * time.Second
	// unread is how many messages of a WebSocket wait for Read. Then TCP holds the
	// client back.
	unread = 32
)

// A link carries the datagrams of a session. receive and send are called by one
// goroutine each.
type link interface {
	// receive waits for a datagram until ctx ends.
	receive(ctx context.Context) ([]byte, error)
	// send sends a datagram. It may wait for the client.
	send(b []byte) error
	// gone is closed when the session has ended.
	gone() <-chan struct{}
	close()
	addrs() (local, remote net.Addr)
}

// An addr is an address of a session.
type addr struct{ network, text string }

func (a addr) Network() string { return a.network }
func (a addr) String() string  { return a.text }

// A transportLink is a link over WebTransport.
type transportLink struct{ s *webtransport.Session }

func (l *transportLink) receive(ctx context.Context) ([]byte, error) {
	b, err := l.s.ReceiveDatagram(ctx)
	if err != nil && l.s.Context().Err() != nil {
		err = io.EOF
	}
	var app *quic.ApplicationError
	var str *quic.StreamError
	if errors.As(err, &app) && app.Remote || errors.As(err, &str) && str.Remote {
		err = io.EOF // the page has been closed
	}
	return b, err
}

func (l *transportLink) send(b []byte) error   { return l.s.SendDatagram(b) }
func (l *transportLink) gone() <-chan struct{} { return l.s.Context().Done() }
func (l *transportLink) close()                { l.s.CloseWithError(0, "") }

func (l *transportLink) addrs() (local, remote net.Addr) {
	return addr{overWebTransport, l.s.LocalAddr().String()}, addr{overWebTransport, l.s.RemoteAddr().String()}
}

// A socketLink is a link over a WebSocket. The end of a context would end the
// WebSocket, so that a goroutine reads.
type socketLink struct {
	ws            *websocket.Conn
	local, remote string
	msgs          chan []byte
	ended         chan struct{}
	err           error // once ended
}

func newSocketLink(ws *websocket.Conn, r *http.Request) *socketLink {
	ws.SetReadLimit(maxDatagram)
	l := &socketLink{ws: ws, remote: r.RemoteAddr, msgs: make(chan []byte, unread), ended: make(chan struct{})}
	if a, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok {
		l.local = a.String()
	}
	go l.read()
	return l
}

func (l *socketLink) read() {
	defer close(l.ended)
	for {
		kind, b, err := l.ws.Read(context.Background())
		switch {
		case websocket.CloseStatus(err) != -1:
			l.err = io.EOF
			return
		case err != nil:
			l.err = err
			return
		case kind != websocket.MessageBinary:
			l.err = errors.New("webgate: a WebSocket message that is text")
			l.ws.CloseNow()
			return
		}
		l.msgs <- b
	}
}

func (l *socketLink) receive(ctx context.Context) ([]byte, error) {
	select {
	case b := <-l.msgs:
		return b, nil
	default:
	}
	select {
	case b := <-l.msgs:
		return b, nil
	case <-l.ended:
		select {
		case b := <-l.msgs:
			return b, nil
		default:
			return nil, l.err
		}
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (l *socketLink) send(b []byte) error {
	ctx, cancel := context.WithTimeout(context.Background(), slowest)
	defer cancel()
	return l.ws.Write(ctx, websocket.MessageBinary, b)
}

func (l *socketLink) gone() <-chan struct{} { return l.ended }

func (l *socketLink) addrs() (local, remote net.Addr) {
	return addr{overWebSocket, l.local}, addr{overWebSocket, l.remote}
}

func (l *socketLink) close() {
	l.ws.CloseNow()
	for { // the reader may wait for room
		select {
		case <-l.msgs:
		case <-l.ended:
			return
		}
	}
}

// tooLarge reports whether a datagram does not fit the path at the moment.
func tooLarge(err error) bool {
	var e *quic.DatagramTooLargeError
	return errors.As(err, &e)
}
