package socket

import (
	"errors"
	"net"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"
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
	case <-time.After(patience):
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
	for s.Unread() {
		s.ReadBatch(make([]Packet, 8))
	}
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
	knows := w != nil && w.socks[s1.wake.fd] == s1 && w.socks[s2.wake.fd] == s2
	wakers.mu.Unlock()
	if !knows {
		t.Fatal("there is no waker that knows both sockets")
	}
	s1.Close()
	s2.SetReadDeadline(time.Now()) // of no concern
	s2.Close()
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
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
