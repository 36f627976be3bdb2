package stacktest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/nettest"

	"volley"
	"volley/internal/socketpair"
	"volley/simnet"
)

// lossless are ways to join two foreign connections that lose nothing.
var lossless = map[string]func(t *testing.T) (a, b net.Conn){
	"net.Pipe": func(*testing.T) (a, b net.Conn) { return socketpair.Pipe() },
	"unixgram": socketpair.Unixgram,
	"wrapper": func(t *testing.T) (a, b net.Conn) {
		x, y := socketpair.Unixgram(t)
		return wrapper{x}, wrapper{y}
	},
}

// A wrapper hides what it wraps, as a DTLS library or a logger does.
type wrapper struct{ inner net.Conn }

func (w wrapper) Read(b []byte) (int, error)         { return w.inner.Read(b) }
func (w wrapper) Write(b []byte) (int, error)        { return w.inner.Write(b) }
func (w wrapper) Close() error                       { return w.inner.Close() }
func (w wrapper) LocalAddr() net.Addr                { return nil }
func (w wrapper) RemoteAddr() net.Addr               { return nil }
func (w wrapper) SetDeadline(t time.Time) error      { return w.inner.SetDeadline(t) }
func (w wrapper) SetReadDeadline(t time.Time) error  { return errors.ErrUnsupported }
func (w wrapper) SetWriteDeadline(t time.Time) error { return errors.ErrUnsupported }

func message(rng *rand.Rand, maximum int) []byte {
	b := make([]byte, 1+rng.IntN(maximum))
	for i := range b {
		b[i] = byte(len(b) + i)
	}
	return b
}

func intact(b []byte) bool {
	for i := range b {
		if b[i] != byte(len(b)+i) {
			return false
		}
	}
	return len(b) > 0
}

// TestForeign sends messages of all sizes both ways at once over foreign
// connections: over those that lose nothing, nothing is lost.
func TestForeign(t *testing.T) {
	const n = 300
	for name, pair := range lossless {
		t.Run(name, func(t *testing.T) {
			x, y := pair(t)
			a, b := newConn(x, nil), newConn(y, nil)
			var wg sync.WaitGroup
			for i, c := range []*volley.Conn{a, b} {
				c.SetDeadline(time.Now().Add(2 * time.Minute))
				wg.Go(func() {
					rng := rand.New(rand.NewPCG(1, uint64(i)))
					for range n {
						if _, err := c.Write(message(rng, c.MaxMessageSize())); err != nil {
							t.Errorf("Write: %v", err)
							return
						}
					}
				})
				wg.Go(func() {
					rng := rand.New(rand.NewPCG(1, uint64(1-i)))
					for k := range n {
						b, err := c.ReadMessage(context.Background(), nil)
						if err != nil {
							t.Errorf("ReadMessage: %v", err)
							return
						}
						if !bytes.Equal(b, message(rng, c.MaxMessageSize())) {
							t.Errorf("message %d of %d bytes is not the one sent", k, len(b))
						}
					}
				})
			}
			wg.Wait()
			a.Close()
			b.Close()
		})
	}
}

// TestNettestOverForeign runs the parts that hold where a link loses nothing
// but has a close, or none, of its own kind. One of them writes for 100 ms to a side
// that does not read, which must not refuse what follows.
func TestNettestOverForeign(t *testing.T) {
	nettest.TestConn(t, func() (c1, c2 net.Conn, stop func(), err error) {
		x, y := socketpair.Pipe()
		cfg := &volley.Config{ReadBuffer: 1 << 30}
		a, b := newConn(x, cfg), newConn(y, cfg)
		return a, b, func() { a.Close(); b.Close() }, nil
	})
}

// TestForeignOverRoughLink: what arrives over simnet is intact and arrives
// once, and each message gets its fate.
func TestForeignOverRoughLink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		link := simnet.Link{Latency: 20 * time.Millisecond, Loss: 0.05, Duplicate: 0.05, Reorder: 0.05}
		x, y := simnet.Pair(7, link, link)
		a, b := newConn(wrapper{x}, nil), newConn(wrapper{y}, nil)
		const n = 3000
		got := 0
		done := make(chan struct{})
		go func() {
			defer close(done)
			for {
				msg, err := b.ReadMessage(context.Background(), nil)
				if err != nil {
					return
				}
				if !intact(msg) {
					t.Errorf("a message of %d bytes is corrupt", len(msg))
				}
				got++
			}
		}()
		rng := rand.New(rand.NewPCG(1, 1))
		for range n {
			if _, err := a.WriteMessage(message(rng, 3000)); err != nil {
				t.Fatal(err)
			}
			time.Sleep(5 * time.Millisecond)
		}
		time.Sleep(10 * time.Second)
		receipts := a.AppendReceipts(nil)
		delivered := 0
		for _, r := range receipts {
			if r.Fate == volley.Delivered {
				delivered++
			}
		}
		if s := a.Stats(); s.Loss < 0.03 || s.Loss > 0.25 || s.RTT < 40*time.Millisecond || s.RTT > 60*time.Millisecond {
			t.Errorf("loss %.1f %%, RTT %v, want about 10 %%, 40 ms to 60 ms", 100*s.Loss, s.RTT)
		}
		a.Close()
		b.Close()
		<-done
		receipts = a.AppendReceipts(receipts)
		if len(receipts) != n {
			t.Errorf("%d receipts, want %d", len(receipts), n)
		}
		if delivered > got || got > n {
			t.Errorf("%d delivered, %d received, of %d", delivered, got, n)
		}
	})
}

// A pipeListener is a net.Listener of a program's own.
type pipeListener struct {
	conns chan net.Conn
	once  sync.Once
	done  chan struct{}
}

func newPipeListener() *pipeListener {
	return &pipeListener{conns: make(chan net.Conn), done: make(chan struct{})}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error   { l.once.Do(func() { close(l.done) }); return nil }
func (l *pipeListener) Addr() net.Addr { return &net.UnixAddr{Name: "own", Net: "unixgram"} }

func (l *pipeListener) dial() net.Conn {
	x, y := socketpair.Pipe()
	l.conns <- y
	return x
}

// TestOwnListener: NewListener over any net.Listener of connections that keep
// messages apart.
func TestOwnListener(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		own := newPipeListener()
		l := newListener(own, nil)
		if l.Addr().String() != "own" {
			t.Errorf("Addr = %v, want that of the listener below", l.Addr())
		}
		var wg sync.WaitGroup
		wg.Go(func() {
			for {
				c, err := l.Accept()
				if err != nil {
					if !errors.Is(err, net.ErrClosed) {
						t.Errorf("Accept: %v", err)
					}
					return
				}
				wg.Go(func() { echo(c.(*volley.Conn)) })
			}
		})
		for range 20 {
			c := newConn(own.dial(), nil)
			c.SetDeadline(time.Now().Add(time.Minute))
			for _, size := range []int{1, 1000, c.MaxMessageSize()} {
				msg := bytes.Repeat([]byte{byte(size)}, size)
				c.Write(msg)
				if b, err := c.ReadMessage(context.Background(), nil); err != nil || !bytes.Equal(b, msg) {
					t.Errorf("echo of %d bytes: %d bytes, %v", size, len(b), err)
				}
			}
			c.Close()
		}
		l.Close()
		wg.Wait()

		var ce *volley.ConfigError
		if _, err := volley.NewListener(own, &volley.Config{FragmentSize: -1}); !errors.As(err, &ce) || ce.Field != "Config.FragmentSize" {
			t.Errorf("NewListener with a bad Config: %v", err)
		}
	})
}

func echo(c *volley.Conn) {
	defer c.Close()
	for {
		b, err := c.ReadMessage(context.Background(), nil)
		if err != nil {
			return
		}
		c.Write(b)
	}
}

// TestTwoLayers: message connections over message connections.
func TestTwoLayers(t *testing.T) {
	a, b := volley.Pipe(nil)
	x, y := newConn(a, nil), newConn(b, nil)
	want := bytes.Repeat([]byte("x"), x.MaxMessageSize())
	x.Write(want)
	if got, err := y.ReadMessage(context.Background(), nil); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%d bytes, %v, want %d", len(got), err, len(want))
	}
	x.Close()
	if _, err := y.Read(want); err != io.EOF {
		t.Errorf("Read after the other side's Close: %v, want io.EOF", err)
	}
	y.Close()
}

// TestForeignTooSlow: a write deadline ends the wait for a peer that has
// stopped reading, and Close does not wait for it.
func TestForeignTooSlow(t *testing.T) {
	x, y := socketpair.Unixgram(t)
	defer y.Close()
	c := newConn(wrapper{x}, nil)
	c.SetWriteDeadline(time.Now().Add(50 * time.Millisecond))
	var err error
	for err == nil {
		_, err = c.Write(make([]byte, 10_000))
	}
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("Write: %v, want a timeout", err)
	}
	c.Close()
}

// TestUnixListener: a Listener on a socket whose addresses are not UDP's.
func TestUnixListener(t *testing.T) {
	dir, err := os.MkdirTemp("", "v") // t.TempDir may be too long for an address
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	addr := func(name string) *net.UnixAddr {
		return &net.UnixAddr{Name: filepath.Join(dir, name), Net: "unixgram"}
	}
	pc, err := net.ListenUnixgram("unixgram", addr("server"))
	if err != nil {
		t.Skip(err)
	}
	var lc volley.ListenConfig
	l, err := lc.ListenOn(pc)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	l.SetDeadline(time.Now().Add(30 * time.Second))
	for _, name := range []string{"one", "two", "three"} {
		inner, err := net.DialUnix("unixgram", addr(name), addr("server"))
		if err != nil {
			t.Fatal(err)
		}
		client := newConn(inner, nil)
		defer client.Close()
		client.Write([]byte(name))
		server, err := l.AcceptConn(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		defer server.Close()
		if got, want := server.RemoteAddr().String(), addr(name).String(); got != want {
			t.Errorf("RemoteAddr = %q, want %q", got, want)
		}
		go echo(server)
		client.SetReadDeadline(time.Now().Add(30 * time.Second))
		if b, err := client.ReadMessage(context.Background(), nil); err != nil || string(b) != name {
			t.Errorf("echo %q, %v, want %q", b, err, name)
		}
	}
}
