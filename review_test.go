package volley

import (
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"volley/internal/datagram"
	"volley/internal/wire"
	"volley/reliable"
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
	if err := c.start(s, set, nil); err != nil {
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
		for !c.send.full() { // a flood whose flush has not begun yet
			c.frameLocked(c.now(), []byte("x"), c.pendingLocked(c.now()))
		}
		c.send.burst = floodMax
		c.send.lastWrite = c.now()
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
		if n := c.Stats(); n.MessagesSent != queueMax || n.MessagesLost != queueMax {
			t.Errorf("%d messages sent, %d lost, want %d of each", n.MessagesSent, n.MessagesLost, queueMax)
		}
		c.Close()
	})
}

// With fixed windows a connection needs memory for its first message. A
// Listener that has none left makes Write fail.
func TestWriteWithoutMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, l, dial := network(t, &ListenConfig{Config: &Config{MaxWindow: -1}, MaxMemory: 1})
		dial("10.0.0.2:1", &Dialer{})
		c := accept(t, l)
		if _, err := c.Write([]byte("x")); err == nil {
			t.Error("Write without memory: no error")
		}
		if n, err := c.WriteBatch([][]byte{nil, []byte("x")}); n != 1 || err == nil {
			t.Errorf("WriteBatch without memory = %d, %v, want 1 and an error", n, err)
		}
		if n := c.Stats().MessagesSent; n != 0 {
			t.Errorf("%d messages sent, want 0", n)
		}
	})
}

// An acknowledgement that finds no memory is tried again, at a measured pace.
func TestAckWithoutMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, l, dial := network(t, &ListenConfig{Config: &Config{MaxWindow: -1}, MaxMemory: 2000})
		c := dial("10.0.0.2:1", &Dialer{})
		accept(t, l)
		c.Write([]byte("please acknowledge"))
		time.Sleep(time.Second)
	})
}

// What Accept says after Close must end loops that go on after a timeout.
func TestAcceptClosedPastDeadline(t *testing.T) {
	l, err := Listen("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.SetDeadline(longAgo)
	l.Close()
	_, err = l.Accept()
	wantErr(t, "Accept", err, net.ErrClosed)
}

// A failed ListenPacket leaves the socket to the caller.
func TestListenPacketFails(t *testing.T) {
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	lc := ListenConfig{Config: &Config{FragmentSize: -1}}
	if _, err := lc.ListenPacket(pc); err == nil {
		t.Fatal("ListenPacket: no error")
	}
	if err := pc.Close(); err != nil {
		t.Errorf("Close: %v, want the socket open", err)
	}
}

// A program that sets a deadline before each Read reads what came before the
// end, too.
func TestReadDeadlineAfterEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := Pipe(nil)
		a.Write([]byte("last words"))
		a.Close()
		synctest.Wait()
		if err := b.SetReadDeadline(time.Now().Add(time.Second)); err != nil {
			t.Errorf("SetReadDeadline before the last message: %v", err)
		}
		wantMessage(t, b, "last words")
		if err := b.SetDeadline(time.Now().Add(time.Second)); err != nil {
			t.Errorf("SetDeadline at the end: %v", err)
		}
		if _, err := b.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("Read: %v, want io.EOF", err)
		}
		_, err := b.Write([]byte("x"))
		wantErr(t, "Write", err, io.ErrClosedPipe)
		b.Close()
		wantErr(t, "SetDeadline", b.SetDeadline(time.Time{}), net.ErrClosed)
	})
}

// After the end nothing waits and nothing is held.
func TestStatsAfterClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := Pipe(nil)
		for range 100 {
			a.Write(make([]byte, 1000))
		}
		if n := b.Stats().ReadQueue; n != 100*1004 {
			t.Errorf("ReadQueue = %d, want %d", n, 100*1004)
		}
		b.Read(make([]byte, 1000))
		a.Close()
		b.Close()
		for _, c := range []*Conn{a, b} {
			if s := c.Stats(); s.ReadQueue != 0 || s.Memory != 0 {
				t.Errorf("after Close: ReadQueue %d, Memory %d, want 0", s.ReadQueue, s.Memory)
			}
		}
	})
}

// An idle timeout alone does not make a contradictory Config.
func TestShortIdleTimeout(t *testing.T) {
	for _, d := range []time.Duration{time.Second, 5 * time.Second, 6 * time.Second, time.Minute} {
		s, err := newSettings(&Config{IdleTimeout: d}, datagram.MaxUDP, nil)
		if err != nil {
			t.Errorf("IdleTimeout %v: %v", d, err)
		} else if want := min(defaultKeepAlive, d/3); s.keepAlive != want {
			t.Errorf("IdleTimeout %v: keepalive %v, want %v", d, s.keepAlive, want)
		}
	}
}

// Streams of any kind are refused.
func TestNewConnOnStreams(t *testing.T) {
	for _, network := range []string{"tcp", "unix"} {
		address := "127.0.0.1:0"
		if network == "unix" {
			dir, err := os.MkdirTemp("", "v")
			if err != nil {
				t.Fatal(err)
			}
			defer os.RemoveAll(dir)
			address = filepath.Join(dir, "s")
		}
		l, err := net.Listen(network, address)
		if err != nil {
			t.Skip(err)
		}
		defer l.Close()
		inner, err := net.Dial(network, l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		c := NewConn(inner, nil)
		var ce *ConfigError
		if _, err := c.Write([]byte("x")); !errors.As(err, &ce) {
			t.Errorf("Write over %s: %v, want a *ConfigError", network, err)
		}
		c.Close()
	}
}

// anonymous is a net.Conn that does not know its addresses.
type anonymous struct{ net.Conn }

func (anonymous) LocalAddr() net.Addr  { return nil }
func (anonymous) RemoteAddr() net.Addr { return nil }

func TestForeignWithoutAddresses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, y := net.Pipe()
		c := NewConn(anonymous{x}, nil)
		if c.LocalAddr() == nil || c.RemoteAddr() == nil {
			t.Error("an address is nil")
		}
		y.Close()
		if _, err := c.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("Read: %v, want io.EOF", err)
		}
		c.Close()
		_, err := c.Write([]byte("x"))
		wantErr(t, "Write", err, net.ErrClosed)
	})
}

// Sizes at the edges of what a Config may say.
func TestExtremeConfigs(t *testing.T) {
	for _, test := range []struct {
		name string
		cfg  Config
	}{
		{"bytes", Config{FragmentSize: 1, MaxMessageSize: 256}},
		{"huge", Config{FragmentSize: 32768, MaxMessageSize: 256 * 32768}},
		{"one at a time", Config{ReadBuffer: 16384 + 4, ReassemblyBuffer: 16384 + reliable.MaxReassemblyOverhead}},
		{"one byte", Config{FragmentSize: 1, MaxMessageSize: 1, ReadBuffer: 5, ReassemblyBuffer: 1 + reliable.MaxReassemblyOverhead}},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, b := Pipe(&PipeConfig{Config: &test.cfg})
				defer b.Close()
				defer a.Close()
				size := func(i int) int { return max(1, a.MaxMessageSize()-i%2) }
				go func() {
					for i := range 5 {
						if _, err := a.Write(pattern(uint32(i), size(i))); err != nil {
							t.Errorf("Write: %v", err)
						}
					}
				}()
				for i := range 5 {
					msg, err := b.ReadMessage(nil)
					if err != nil {
						t.Fatal(err)
					}
					if want := size(i); len(msg) != want {
						t.Errorf("message %d of %d bytes, want %d", i, len(msg), want)
					}
				}
			})
		})
	}
}

// However Close races with writers, each message that was taken has exactly
// one receipt afterwards.
func TestReceiptsWhenClosed(t *testing.T) {
	for round := range 10 {
		a, b := udpPair(t, nil)
		a.AppendReceipts(nil)
		var mu sync.Mutex
		taken := make(map[uint64]bool)
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for {
					id, err := a.WriteMessage([]byte("x"))
					if err != nil {
						return
					}
					mu.Lock()
					taken[id] = true
					mu.Unlock()
				}
			})
		}
		wg.Go(func() {
			for {
				if n, err := a.WriteBatch([][]byte{{1}, {2}, {3}}); err != nil {
					if n < 0 || n > 2 {
						t.Errorf("WriteBatch = %d with an error", n)
					}
					return
				}
			}
		})
		wg.Go(func() {
			for {
				if _, err := b.ReadMessage(nil); err != nil {
					return
				}
			}
		})
		seen := make(map[uint64]bool)
		collect := func() {
			for _, r := range a.AppendReceipts(nil) {
				if seen[r.ID] {
					t.Errorf("message %d has two receipts", r.ID)
				}
				seen[r.ID] = true
			}
		}
		for range round {
			collect()
			time.Sleep(100 * time.Microsecond)
		}
		wg.Go(func() { b.Close() })
		a.Close()
		wg.Wait()
		collect()
		s := a.Stats()
		if s.ReceiptsDropped == 0 {
			for id := range taken {
				if !seen[id] {
					t.Errorf("message %d has no receipt", id)
				}
			}
		}
		if n := uint64(len(seen)) + s.ReceiptsDropped; n != s.MessagesSent || s.MessagesDelivered+s.MessagesLost != s.MessagesSent {
			t.Errorf("%d receipts of %d messages, %d delivered and %d lost", n, s.MessagesSent, s.MessagesDelivered, s.MessagesLost)
		}
	}
}

// A deadline that passes while WriteBatch waits for another sender.
func TestWriteBatchDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := slowly(t)
		if n, err := c.WriteBatch(nil); n != 0 || err != nil {
			t.Errorf("WriteBatch(nil) = %d, %v, want 0, nil", n, err)
		}
		go c.Write([]byte("slow"))
		<-s.sending
		c.SetWriteDeadline(time.Now().Add(time.Second))
		n, err := c.WriteBatch([][]byte{{1}, {2}})
		wantTimeout(t, "WriteBatch", err)
		if n != 0 {
			t.Errorf("WriteBatch = %d messages, want 0", n)
		}
		close(s.gate)
		synctest.Wait()
		c.SetWriteDeadline(time.Time{})
		n, err = c.WriteBatch([][]byte{{1}, nil, make([]byte, 20_000), {2}})
		var tooLarge *MessageTooLargeError
		if n != 2 || !errors.As(err, &tooLarge) {
			t.Errorf("WriteBatch = %d, %v, want 2 and a *MessageTooLargeError", n, err)
		}
		c.Close()
	})
}

// A time without a monotonic reading is a deadline like any other.
func TestWallClockDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := Pipe(nil)
		begin := time.Now()
		a.SetReadDeadline(begin.Add(time.Second).Round(0))
		_, err := a.Read(make([]byte, 1))
		wantTimeout(t, "Read", err)
		if d := time.Since(begin); d != time.Second {
			t.Errorf("Read returned after %v, want 1s", d)
		}
		for _, far := range []time.Time{time.Unix(1<<60, 0), time.Unix(1<<40, 0)} {
			a.SetReadDeadline(far)
			go func() { b.Write([]byte("x")) }()
			if _, err := a.Read(make([]byte, 1)); err != nil {
				t.Errorf("Read with the deadline %v: %v", far, err)
			}
		}
		for _, past := range []time.Time{time.Unix(-1<<60, 0), time.Unix(0, 0), time.Now()} {
			a.SetReadDeadline(past)
			_, err := a.Read(make([]byte, 1))
			wantTimeout(t, "Read", err)
		}
		a.Close()
		b.Close()
	})
}
