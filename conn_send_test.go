package volley

import (
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"volley/internal/datagram"
	"volley/internal/deadline"
	"volley/internal/wire"
)

// A slowConn is a transport whose WriteBatch waits while a test holds it.
type slowConn struct {
	datagram.Conn // nil: whatever is not needed panics
	handler       datagram.Handler
	sending       chan struct{} // a token for each WriteBatch that waits
	gate          chan struct{} // closed: nothing waits

	mu    sync.Mutex
	sizes []int // of the batches sent, in datagrams
}

func newSlowConn() *slowConn {
	return &slowConn{sending: make(chan struct{}, 100), gate: make(chan struct{})}
}

func (s *slowConn) Attach(h datagram.Handler) error { s.handler = h; return nil }
func (s *slowConn) Schedule(time.Time)              {}
func (s *slowConn) LocalAddr() net.Addr             { return pipeAddr("slow") }
func (s *slowConn) RemoteAddr() net.Addr            { return pipeAddr("far") }
func (s *slowConn) Close() error                    { return nil }
func (s *slowConn) Stats() datagram.Stats           { return datagram.Stats{} }
func (s *slowConn) Features() datagram.Features     { return datagram.Features{} }

func (s *slowConn) WriteBatchBy(b *wire.Batch, _ *deadline.Deadline) (int, error) {
	return b.Len(), s.WriteBatch(b)
}

func (s *slowConn) WriteBatch(b *wire.Batch) error {
	s.mu.Lock()
	s.sizes = append(s.sizes, b.Len())
	s.mu.Unlock()
	s.sending <- struct{}{}
	<-s.gate
	return nil
}

func slowly(t *testing.T) (*Conn, *slowConn) {
	t.Helper()
	set, err := newSettings(nil, datagram.MaxUDP, nil)
	if err != nil {
		t.Fatal(err)
	}
	c, s := new(Conn), newSlowConn()
	if err := c.start(s, set); err != nil {
		t.Fatal(err)
	}
	return c, s
}

// A connection that ends from below while a Write empties the full queue in
// front of its message: the Write fails, and nothing is framed any more.
func TestEndDuringFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := slowly(t)
		c.mu.Lock()
		count := uint64(0)
		for !c.out.Full() { // a flood that nobody has begun to send
			(*framer)(c).Frame(c.now(), []byte("x"), c.out.Batch(c.now()))
			count++
		}
		c.mu.Unlock()
		result := make(chan error)
		go func() {
			_, err := c.Write([]byte("late"))
			result <- err
		}()
		<-s.sending
		s.handler.HandleClose(ErrIdleTimeout)
		close(s.gate)
		wantErr(t, "Write", <-result, ErrIdleTimeout)
		if n := c.Stats(); n.MessagesSent != count || n.MessagesLost != count {
			t.Errorf("%d messages sent, %d lost, want %d of each", n.MessagesSent, n.MessagesLost, count)
		}
		c.Close()
	})
}

// With fixed windows a connection needs memory for its first message. A
// Listener that has none left makes Write fail.
func TestWriteWithoutMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, l, dial := network(t, &ListenConfig{Config: &Config{maxWindow: -1}})
		l.budget.Init(1)
		dial("10.0.0.2:1", &Dialer{})
		c := accept(t, l)
		if _, err := c.Write([]byte("x")); err == nil {
			t.Error("Write without memory: no error")
		}
		if n, err := c.WriteBatch(nil, [][]byte{nil, []byte("x")}); n != 1 || err == nil {
			t.Errorf("WriteBatch without memory = %d, %v, want 1 and an error", n, err)
		}
		if n := c.Stats().MessagesSent; n != 0 {
			t.Errorf("%d messages sent, want 0", n)
		}
	})
}
