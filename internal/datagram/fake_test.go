package datagram

import (
	"errors"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"volley/internal/socket"
	"volley/internal/wire"
)

var errBroken = errors.New("broken")

// A fakeSocket is a Socket whose other side is the test.
type fakeSocket struct {
	in      chan any // []socket.Packet or error
	done    chan struct{}
	once    sync.Once
	refuses func(n int) error // asked for each packet written, numbered; may be nil

	mu    sync.Mutex
	reads int
	count int // packets written, or tried
	sent  []socket.Packet
}

func newFakeSocket() *fakeSocket {
	return &fakeSocket{in: make(chan any, 100), done: make(chan struct{})}
}

func (s *fakeSocket) ReadBatch(ps []socket.Packet) (int, error) {
	s.mu.Lock()
	s.reads++
	s.mu.Unlock()
	select {
	case x := <-s.in:
		if err, ok := x.(error); ok {
			return 0, err
		}
		return copy(ps, x.([]socket.Packet)), nil
	case <-s.done:
		return 0, net.ErrClosed
	}
}

func (s *fakeSocket) WriteBatch(ps []socket.Packet) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, p := range ps {
		s.count++
		if s.refuses != nil {
			if err := s.refuses(s.count - 1); err != nil {
				return i, err
			}
		}
		p.Buf = slices.Clone(p.Buf)
		s.sent = append(s.sent, p)
	}
	return len(ps), nil
}

func (s *fakeSocket) LocalAddr() net.Addr       { return &net.UDPAddr{Port: 1} }
func (s *fakeSocket) Stats() socket.Stats       { return socket.Stats{} }
func (s *fakeSocket) Features() socket.Features { return socket.Features{} }
func (s *fakeSocket) Close() error              { s.once.Do(func() { close(s.done) }); return nil }

func (s *fakeSocket) closed() bool {
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}

// datagrams returns what was sent, runs cut into datagrams.
func (s *fakeSocket) datagrams() (ds []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.sent {
		for d, rest := socket.NextDatagram(p.Buf, p.Segment); ; d, rest = socket.NextDatagram(rest, p.Segment) {
			ds = append(ds, string(d))
			if rest == nil {
				break
			}
		}
	}
	return ds
}

// from makes the packets of single datagrams of one address.
func from(addr netip.AddrPort, ds ...string) (ps []socket.Packet) {
	for _, d := range ds {
		ps = append(ps, socket.Packet{Buf: []byte(d), Addr: addr})
	}
	return ps
}

func peerAddr(n int) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, byte(n >> 16), byte(n >> 8), byte(n)}), 1)
}

// A fakeHandler writes down what it is told, and does what the test wants.
type fakeHandler struct {
	batch func(bufs [][]byte, out *wire.Batch)
	tick  func(now time.Time, out *wire.Batch) time.Time
	close func(error)

	mu    sync.Mutex
	got   []string
	ticks []time.Time
	ends  []error
}

func (h *fakeHandler) HandleBatch(now time.Time, bufs [][]byte, out *wire.Batch) {
	h.mu.Lock()
	for _, b := range bufs {
		h.got = append(h.got, string(b))
	}
	h.mu.Unlock()
	if h.batch != nil {
		h.batch(bufs, out)
	}
}

func (h *fakeHandler) HandleTick(now time.Time, out *wire.Batch) time.Time {
	h.mu.Lock()
	h.ticks = append(h.ticks, now)
	h.mu.Unlock()
	if h.tick != nil {
		return h.tick(now, out)
	}
	return time.Time{}
}

func (h *fakeHandler) HandleClose(err error) {
	h.mu.Lock()
	h.ends = append(h.ends, err)
	h.mu.Unlock()
	if h.close != nil {
		h.close(err)
	}
}

func (h *fakeHandler) WaitRoom(int, <-chan struct{}) error { return nil }

// ended returns what HandleClose was given.
func (h *fakeHandler) ended() []error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.ends)
}

// ticked returns when HandleTick was called.
func (h *fakeHandler) ticked() []time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.ticks)
}

func (h *fakeHandler) received() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.got)
}

// A fakeAcceptor makes a Conn of every address whose first datagram is not
// "no".
type fakeAcceptor struct {
	handler func(c Conn) Handler // nil: a new fakeHandler for each

	mu      sync.Mutex
	unknown int
	conns   []*Peer
}

func (a *fakeAcceptor) HandleUnknown(_ time.Time, _ netip.AddrPort, late bool, bufs [][]byte, out *wire.Batch) Admit {
	if late {
		return nil
	}
	a.mu.Lock()
	a.unknown++
	a.mu.Unlock()
	if string(bufs[0]) == "ask" {
		out.Append([]byte("answer"))
	}
	if string(bufs[0]) == "no" || string(bufs[0]) == "ask" {
		return nil
	}
	return a.admit
}

func (a *fakeAcceptor) admit(_ time.Time, c Conn) {
	var h Handler = new(fakeHandler)
	if a.handler != nil {
		h = a.handler(c)
	}
	if h != nil {
		c.Attach(h)
	}
	a.mu.Lock()
	a.conns = append(a.conns, c.(*Peer))
	a.mu.Unlock()
}

func (a *fakeAcceptor) peer(i int) *Peer {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.conns[i]
}

func (a *fakeAcceptor) made() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.conns)
}
