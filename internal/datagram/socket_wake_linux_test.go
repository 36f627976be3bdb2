package datagram

import (
	"errors"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"volley/internal/deadline"
	"volley/internal/wire"
)

// wakePair returns a dialed socket, a socket to send to it from, and its address.
func wakePair(t *testing.T) (s, from *linuxSocket, addr netip.AddrPort) {
	p := newPair(t, socketMakers["platform"], "udp4", "udp4", "127.0.0.1", true)
	return p.client.(*linuxSocket), p.server.(*linuxSocket), p.clientAddr
}

// A wakeCounter counts the calls of WakeUp.
type wakeCounter struct {
	n     atomic.Int64
	woken chan struct{}
}

func newWakeCounter() *wakeCounter { return &wakeCounter{woken: make(chan struct{}, 100)} }

func (c *wakeCounter) WakeUp() {
	c.n.Add(1)
	c.woken <- struct{}{}
}

func (c *wakeCounter) wait(t *testing.T) {
	t.Helper()
	select {
	case <-c.woken:
	case <-time.After(20 * time.Second):
		t.Fatal("nobody told of a packet")
	}
}

func wakeOn(t *testing.T, s *linuxSocket, sleeper Sleeper) {
	t.Helper()
	if err := s.WakeOnPacket(sleeper); err != nil {
		t.Fatalf("WakeOnPacket = %v, want nil", err)
	}
}

// receiveAll empties the socket.
func receiveAll(s *linuxSocket) {
	s.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
	s.Serve(func([]Packet) {})
	s.SetReadDeadline(time.Time{})
}

// A socket tells of packets once each time it is asked to, also of those that
// are there already, and not after that was taken back.
func TestWakeOnPacket(t *testing.T) {
	s, from, addr := wakePair(t)
	packet := Packet{Buf: []byte("x"), Addr: addr}
	c := newWakeCounter()
	wakeOn(t, s, nil)
	wakeOn(t, s, c)
	send(t, from, packet, packet)
	c.wait(t)
	wakeOn(t, s, c)
	c.wait(t)
	receiveAll(s)

	wakeOn(t, s, c)
	wakeOn(t, s, nil)
	send(t, from, packet)
	// Another socket whose event comes later shows that this one's did not.
	s2, from2, addr2 := wakePair(t)
	c2 := newWakeCounter()
	wakeOn(t, s2, c2)
	send(t, from2, Packet{Buf: []byte("x"), Addr: addr2})
	c2.wait(t)
	if n := c.n.Load(); n != 2 {
		t.Errorf("told %d times, want 2", n)
	}
	wakeOn(t, s, c)
	c.wait(t)
}

// The goroutine that waits for all sockets is there as long as one of them is.
func TestWakerEnds(t *testing.T) {
	s1, _, _ := wakePair(t)
	s2, _, _ := wakePair(t)
	c := newWakeCounter()
	wakeOn(t, s1, c)
	wakeOn(t, s2, c)
	wakers.mu.Lock()
	w := wakers.now
	wakers.mu.Unlock()
	if w == nil || w.socks[s1.wake.fd] != s1 || w.socks[s2.wake.fd] != s2 {
		t.Fatalf("the waker is %+v, want one that knows both sockets", w)
	}
	s1.Close()
	s2.SetReadDeadline(time.Now()) // of no concern
	s2.Close()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
		wakers.mu.Lock()
		gone, left := wakers.now == nil, len(w.socks) // of earlier tests, at first
		wakers.mu.Unlock()
		if gone {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("the waker is there, with %d sockets", left)
		}
	}
	if err := s2.WakeOnPacket(c); !errors.Is(err, net.ErrClosed) {
		t.Errorf("WakeOnPacket after Close = %v, want net.ErrClosed", err)
	}
	if w.file.SetDeadline(time.Time{}) == nil {
		t.Error("the descriptor of epoll is open")
	}
	if n := c.n.Load(); n != 0 {
		t.Errorf("told %d times of nothing", n)
	}
}

// Once the application has closed a socket below a connection, the number of
// its descriptor is another's, who must not suffer.
func TestWakeOfAnother(t *testing.T) {
	s1, _, _ := wakePair(t)
	c := newWakeCounter()
	wakeOn(t, s1, c)
	s1.conn.Close()
	defer s1.Close()
	for range 20 { // others may take the number, too
		p := newPair(t, socketMakers["platform"], "udp4", "udp4", "127.0.0.1", true)
		s2, from, addr := p.server, p.client, p.serverAddr
		for range 2 {
			c2 := newWakeCounter()
			wakeOn(t, s2.(*linuxSocket), c2)
			if s2.(*linuxSocket).wake.fd == s1.wake.fd {
				s1.WakeOnPacket(nil)
				send(t, from, Packet{Buf: []byte("x"), Addr: addr})
				c2.wait(t)
				return
			}
			s2, from, addr = p.client, p.server, p.clientAddr
		}
	}
	t.Skip("somebody else has the number")
}

// Dialed connections that come, sleep, wake and go, all at once, lose nothing.
func TestWakeMany(t *testing.T) {
	server := udpSocket(t, listenUDP(t, "udp4", netip.MustParseAddr("127.0.0.1")), SocketConfig{}).(*linuxSocket)
	defer server.Close()
	to := server.LocalAddr().(*net.UDPAddr)
	go server.Serve(func(ps []Packet) { // echo
		for _, p := range ps {
			server.WriteBatch([]Packet{p})
		}
	})
	var wg sync.WaitGroup
	for i := range 16 {
		r := rand.New(rand.NewPCG(uint64(i), 2))
		wg.Go(func() {
			for range 20 {
				wakeEcho(t, to, r)
			}
		})
	}
	wg.Wait()
}

// wakeEcho sends packets on a new connection and sees each come back, which
// nobody reads but the connection itself.
func wakeEcho(t *testing.T, to *net.UDPAddr, r *rand.Rand) {
	udp, err := net.DialUDP("udp4", nil, to)
	if err != nil {
		t.Error(err)
		return
	}
	sock, err := NewUDPSocket(udp, SocketConfig{})
	if err != nil {
		t.Error(err)
		return
	}
	h := &countHandler{back: make(chan struct{}, 8)}
	c := NewSingle(sock, nil, nil, 1000)
	defer c.Close()
	c.Attach(h)
	for range 1 + r.IntN(5) {
		if r.IntN(2) == 0 {
			time.Sleep(time.Duration(r.IntN(1000)) * time.Microsecond)
		}
		sock.WriteBatch([]Packet{{Buf: []byte("x")}})
		select {
		case <-h.back:
		case <-time.After(20 * time.Second):
			t.Error("a packet is not read")
			return
		}
		if r.IntN(2) == 0 { // the goroutine ends, and then the socket sleeps
			var d deadline.Deadline
			d.Set(time.Now().Add(time.Millisecond))
			c.ReadInline(&d, noReaders{})
			time.Sleep(time.Duration(r.Int64N(int64(2 * inlinePatience))))
		}
	}
}

// An countHandler tells of each packet.
type countHandler struct {
	fakeHandler
	back chan struct{}
}

func (h *countHandler) HandleBatch(_ time.Time, bufs [][]byte, _ *wire.Batch) {
	for range bufs {
		h.back <- struct{}{}
	}
}
