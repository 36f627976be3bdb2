package volley

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"volley/internal/pattern"
	"volley/internal/socketpair"
	"volley/internal/testenv"
	"volley/simnet"
)

// A foreign connection that blocks in Write: a reader that waited there for
// the other side's reader, which waits for it, would end all traffic.
func TestForeignBlocksBothWays(t *testing.T) {
	for _, test := range []struct {
		name string
		pair func(t *testing.T) (a, b net.Conn)
	}{
		{"net.Pipe", func(*testing.T) (a, b net.Conn) { return socketpair.Pipe() }},
		{"unixgram", socketpair.Unixgram},
	} {
		t.Run(test.name, func(t *testing.T) {
			x, y := test.pair(t)
			a, b := mustConn(x, nil), mustConn(y, nil)
			defer a.Close()
			defer b.Close()
			var wg sync.WaitGroup
			for _, c := range []*Conn{a, b} {
				c.SetDeadline(time.Now().Add(time.Minute))
				wg.Go(func() {
					for i := range 1000 {
						if _, err := c.Write(pattern.New(uint32(i), 4+i%3000)); err != nil {
							t.Errorf("Write: %v", err)
							return
						}
					}
				})
				wg.Go(func() {
					for range 1000 {
						msg, err := c.ReadMessage(context.Background(), nil)
						if err == nil {
							_, err = pattern.Check(msg)
						}
						if err != nil {
							t.Errorf("ReadMessage: %v", err)
							return
						}
					}
				})
			}
			wg.Wait()
		})
	}
}

// Close does not wait long for a foreign connection that nobody reads from.
func TestForeignCloseWhileStuck(t *testing.T) {
	for _, flood := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			x, y := socketpair.Pipe()
			c := mustConn(x, nil)
			y.Write([]byte{0, 0, 0, 255, 255, 'x'}) // it owes an acknowledgement now
			var wg sync.WaitGroup
			if flood {
				wg.Go(func() { wantErr(t, "Write", writeUntilError(c), net.ErrClosed) })
			}
			synctest.Wait()
			begin := time.Now()
			c.Close()
			if d := time.Since(begin); d > time.Second {
				t.Errorf("Close took %v, want at most a second", d)
			}
			wg.Wait()
			y.Close()
		})
	}
}

func writeUntilError(c *Conn) error {
	for {
		if _, err := c.Write(make([]byte, 1000)); err != nil {
			return err
		}
	}
}

// Close gives a foreign connection what Write has taken.
func TestForeignCloseFlushes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, y := socketpair.Pipe()
		a, b := mustConn(x, nil), mustConn(y, nil)
		for i := range 50 {
			a.Write(pattern.New(uint32(i), 1000))
		}
		a.Close()
		for i := range 50 {
			msg, err := b.ReadMessage(context.Background(), nil)
			if err != nil {
				t.Fatalf("message %d: %v", i, err)
			}
			if n, err := pattern.Check(msg); err != nil || n != uint32(i) {
				t.Errorf("message %d, %v, want %d", n, err, i)
			}
		}
		if _, err := b.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("Read: %v, want io.EOF", err)
		}
		b.Close()
	})
}

// A fragileConn counts calls of Close, of which all but the first fail, as those
// of most connections do.
type fragileConn struct {
	net.Conn
	closes atomic.Int32
}

func (c *fragileConn) Close() error {
	if c.closes.Add(1) > 1 {
		return net.ErrClosed
	}
	return c.Conn.Close()
}

// A foreign connection is closed once, though its Conn has ended before it is
// closed, and the second Close is no failure.
func TestForeignIsClosedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, y := socketpair.Pipe()
		inner := &fragileConn{Conn: x}
		c := mustConn(inner, nil)
		y.Close()
		if _, err := c.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("Read: %v, want io.EOF", err)
		}
		synctest.Wait()
		if n := inner.closes.Load(); n != 1 {
			t.Errorf("closed %d times by its end, want once", n)
		}
		if err := c.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		if n := inner.closes.Load(); n != 1 {
			t.Errorf("closed %d times, want once", n)
		}
	})
}

// A write deadline ends a Write that waits for a foreign connection.
func TestForeignWriteDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, y := socketpair.Pipe()
		c := mustConn(x, nil)
		c.SetWriteDeadline(time.Now().Add(time.Second))
		wantTimeout(t, "Write with a deadline", writeUntilError(c))

		c.SetWriteDeadline(time.Time{})
		go func() {
			time.Sleep(time.Second)
			c.SetWriteDeadline(time.Now().Add(time.Second))
		}()
		wantTimeout(t, "Write given a deadline", writeUntilError(c))

		c.SetWriteDeadline(time.Time{})
		peer := mustConn(y, nil)
		for peer.Stats().MessagesReceived == 0 {
			synctest.Wait()
		}
		c.Write([]byte("somebody listens"))
		for {
			msg, err := peer.ReadMessage(context.Background(), nil)
			if err != nil {
				t.Fatal(err)
			}
			if string(msg) == "somebody listens" {
				break
			}
		}
		c.Close()
		peer.Close()
	})
}

// A moodyConn fails as it is told.
type moodyConn struct {
	net.Conn
	mu          sync.Mutex
	read, write error
}

func (c *moodyConn) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.write != nil {
		return 0, c.write
	}
	return c.Conn.Write(b)
}

func (c *moodyConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil && c.read != nil {
		return 0, c.read
	}
	return n, err
}

func (c *moodyConn) be(read, write error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.read, c.write = read, write
}

// Errors of a foreign connection: passing ones are counted; others are told,
// those of reading end the connection.
func TestForeignErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, y := simnet.Pair(1, simnet.Link{}, simnet.Link{})
		mood := &moodyConn{Conn: x}
		c, peer := mustConn(mood, nil), mustConn(y, nil)
		mood.be(os.ErrDeadlineExceeded, os.ErrDeadlineExceeded)
		c.Write([]byte("lost"))
		peer.Write([]byte("lost"))
		synctest.Wait()
		if s := c.Stats().Transport; s.ReadErrors == 0 || s.WriteErrors == 0 {
			t.Errorf("%d read errors, %d write errors, want some", s.ReadErrors, s.WriteErrors)
		}
		mood.be(nil, nil)
		c.Write([]byte("hello"))
		wantMessage(t, peer, "hello")

		broken := errors.New("broken")
		mood.be(nil, broken)
		c.Write([]byte("lost"))
		synctest.Wait()
		_, err := c.Write([]byte("told"))
		wantErr(t, "Write", err, broken)
		mood.be(broken, nil)
		peer.Write([]byte("end"))
		_, err = c.Read(make([]byte, 1))
		wantErr(t, "Read", err, broken)
		_, err = c.Write([]byte("x"))
		wantErr(t, "Write", err, broken)
		c.Close()
		peer.Close()
	})
}

// A foreign connection's buffer is for datagrams, whatever size messages have.
func TestForeignHugeMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, y := simnet.Pair(1, simnet.Link{}, simnet.Link{})
		cfg := &Config{FragmentSize: 60000, MaxMessageSize: 256 * 60000}
		before := testenv.Heap()
		a, b := mustConn(x, cfg), mustConn(y, cfg)
		if n := testenv.Heap() - before; n > 1<<20 {
			t.Errorf("two connections take %d bytes, want at most 1 MiB", n)
		}
		a.Close()
		b.Close()
	})
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
		defer inner.Close()
		var ce *ConfigError
		if _, err := NewConn(inner, nil); !errors.As(err, &ce) {
			t.Errorf("NewConn over %s: %v, want a *ConfigError", network, err)
		}
	}
}

// A pipe of package net, and TLS over whatever it is, are streams too.
func TestNewConnOnStreamsInMemory(t *testing.T) {
	x, y := net.Pipe()
	defer y.Close()
	a, b := Pipe(nil)
	defer a.Close()
	defer b.Close()
	for name, inner := range map[string]net.Conn{
		"net.Pipe": x, "wrapped": struct{ net.Conn }{x}, "TLS": tls.Client(a, &tls.Config{InsecureSkipVerify: true}),
	} {
		_, err := NewConn(inner, nil)
		ce, ok := errors.AsType[*ConfigError](err)
		if !ok || ce.Field != "inner" {
			t.Errorf("NewConn over %s: %v, want a *ConfigError for inner", name, err)
		}
	}
	c := mustConn(struct{ net.Conn }{b}, nil) // not volley's own to see, and no stream
	defer c.Close()
	if _, err := c.Write([]byte("x")); err != nil {
		t.Error(err)
	}
}

func TestNewConnOnNil(t *testing.T) {
	c, err := NewConn(nil, nil)
	if ce, ok := errors.AsType[*ConfigError](err); !ok || ce.Field != "inner" || c != nil {
		t.Errorf("NewConn over nil: %v, %v, want a *ConfigError for inner", c, err)
	}
}

// anonymous is a net.Conn that does not know its addresses.
type anonymous struct{ net.Conn }

func (anonymous) LocalAddr() net.Addr  { return nil }
func (anonymous) RemoteAddr() net.Addr { return nil }

func TestForeignWithoutAddresses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, y := socketpair.Pipe()
		c := mustConn(anonymous{x}, nil)
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
