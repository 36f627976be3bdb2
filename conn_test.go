package volley

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"volley/internal/loopback"
	"volley/internal/pattern"
	"volley/internal/socket"
	"volley/internal/socketpair"
	"volley/simnet"
)

// conns are the ways to get two connections.
var conns = []struct {
	name string
	make func(tb testing.TB, cfg *Config) (a, b *Conn)
}{
	{"UDP", udpPair},
	{"UDPWithoutOffload", func(tb testing.TB, cfg *Config) (a, b *Conn) {
		tb.Setenv(socket.DisableOffloadEnv, "1")
		return udpPair(tb, cfg)
	}},
	{"Pipe", func(tb testing.TB, cfg *Config) (a, b *Conn) {
		a, b = Pipe(cfg)
		tb.Cleanup(func() { a.Close(); b.Close() })
		return a, b
	}},
	{"Simnet", func(tb testing.TB, cfg *Config) (a, b *Conn) {
		l := simnet.Link{Latency: time.Millisecond, Ordered: true}
		a, b = netPipe(1, l, l, cfg)
		tb.Cleanup(func() { a.Close(); b.Close() })
		return a, b
	}},
	{"NetPipe", func(tb testing.TB, cfg *Config) (a, b *Conn) {
		x, y := socketpair.Pipe()
		a, b = mustConn(x, cfg), mustConn(y, cfg)
		tb.Cleanup(func() { a.Close(); b.Close() })
		return a, b
	}},
}

// everyConn runs a test over every kind of connection.
func everyConn(t *testing.T, cfg *Config, f func(t *testing.T, a, b *Conn)) {
	for _, c := range conns {
		t.Run(c.name, func(t *testing.T) {
			a, b := c.make(t, cfg)
			f(t, a, b)
		})
	}
}

func TestSizes(t *testing.T) {
	everyConn(t, nil, func(t *testing.T, a, b *Conn) {
		most := a.MaxMessageSize()
		for _, size := range []int{1, 2, 3, 1023, 1024, 1025, 2048, 5000, most - 1, most} {
			want := pattern.New(uint32(size), size)
			if n, err := a.Write(want); n != size || err != nil {
				t.Fatalf("Write of %d bytes = %d, %v", size, n, err)
			}
			got, err := b.ReadMessage(context.Background(), nil)
			if err != nil || !bytes.Equal(got, want) {
				t.Fatalf("message of %d bytes: got %d bytes, error %v", size, len(got), err)
			}
		}
	})
}

func TestEmptyAndTooLarge(t *testing.T) {
	everyConn(t, nil, func(t *testing.T, a, b *Conn) {
		if n, err := a.Write(nil); n != 0 || err != nil {
			t.Errorf("Write(nil) = %d, %v, want 0, nil", n, err)
		}
		if n, err := a.Read(nil); n != 0 || err != nil {
			t.Errorf("Read(nil) = %d, %v, want 0, nil", n, err)
		}
		before := a.Stats().PacketsSent
		n, err := a.Write(make([]byte, a.MaxMessageSize()+1))
		var tooLarge *MessageTooLargeError
		if n != 0 || !errors.As(err, &tooLarge) || tooLarge.Size != a.MaxMessageSize()+1 || tooLarge.Max != a.MaxMessageSize() {
			t.Errorf("Write of max+1 = %d, %v", n, err)
		}
		if after := a.Stats().PacketsSent; after != before {
			t.Errorf("%d packets left for a message that is too large", after-before)
		}
		a.Write([]byte("next"))
		if got, err := b.ReadMessage(context.Background(), nil); string(got) != "next" || err != nil {
			t.Errorf("first message read = %q, %v, want next", got, err)
		}
	})
}

func TestShortBuffer(t *testing.T) {
	everyConn(t, nil, func(t *testing.T, a, b *Conn) {
		a.Write([]byte("0123456789"))
		a.Write([]byte("next"))
		buf := make([]byte, 4)
		n, err := b.Read(buf)
		if n != 4 || string(buf) != "0123" || !errors.Is(err, io.ErrShortBuffer) {
			t.Errorf("Read = %d (%q), %v, want 4 (0123) and io.ErrShortBuffer", n, buf[:n], err)
		}
		if n, err := b.Read(buf); string(buf[:n]) != "next" || err != nil {
			t.Errorf("Read = %q, %v, want next", buf[:n], err)
		}
		if got := b.Stats().MessagesTruncated; got != 1 {
			t.Errorf("MessagesTruncated = %d, want 1", got)
		}
	})
}

func TestCloseUnblocksRead(t *testing.T) {
	everyConn(t, nil, func(t *testing.T, a, b *Conn) {
		errs := make(chan error, 2)
		for range cap(errs) {
			go func() {
				_, err := a.Read(make([]byte, 1))
				errs <- err
			}()
		}
		a.Close()
		for range cap(errs) {
			wantErr(t, "blocked Read after Close", <-errs, net.ErrClosed)
		}
	})
}

func TestAfterClose(t *testing.T) {
	everyConn(t, nil, func(t *testing.T, a, b *Conn) {
		local, remote := a.LocalAddr().String(), a.RemoteAddr().String()
		if err := a.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		if err := a.Close(); err != nil {
			t.Errorf("second Close: %v", err)
		}
		_, err := a.Write([]byte("x"))
		wantErr(t, "Write", err, net.ErrClosed)
		_, err = a.WriteBatch(nil, [][]byte{[]byte("x")})
		wantErr(t, "WriteBatch", err, net.ErrClosed)
		_, err = a.Read(make([]byte, 1))
		wantErr(t, "Read", err, net.ErrClosed)
		wantErr(t, "SetDeadline", a.SetDeadline(time.Now()), net.ErrClosed)
		if a.LocalAddr().String() != local || a.RemoteAddr().String() != remote {
			t.Error("addresses changed with Close")
		}
		a.Stats()
		a.AppendReceipts(nil)
	})
}

func TestConcurrentClose(t *testing.T) {
	everyConn(t, nil, func(t *testing.T, a, b *Conn) {
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				for {
					if _, err := a.Write(pattern.New(uint32(i), 3000)); err != nil {
						if !errors.Is(err, io.ErrClosedPipe) {
							wantErr(t, "Write", err, net.ErrClosed)
						}
						return
					}
				}
			})
			wg.Go(func() {
				for {
					if _, err := b.ReadMessage(context.Background(), nil); err != nil {
						return
					}
				}
			})
		}
		b.ReadMessage(context.Background(), nil)
		for range 3 {
			wg.Go(func() { a.Close() })
		}
		wg.Go(func() { b.Close() })
		wg.Wait()
	})
}

func TestDeadlines(t *testing.T) {
	everyConn(t, nil, func(t *testing.T, a, b *Conn) {
		past := time.Now().Add(-time.Hour)
		b.Write([]byte("waiting"))
		a.SetReadDeadline(past)
		_, err := a.Read(make([]byte, 10))
		wantTimeout(t, "Read past the deadline", err)
		if _, err := a.Write([]byte("x")); err != nil {
			t.Errorf("a read deadline concerns Write: %v", err)
		}
		a.SetReadDeadline(time.Time{})
		if got, err := a.ReadMessage(context.Background(), nil); string(got) != "waiting" || err != nil {
			t.Errorf("Read = %q, %v, want waiting", got, err)
		}
		a.SetWriteDeadline(past)
		_, err = a.Write([]byte("x"))
		wantTimeout(t, "Write past the deadline", err)
		_, err = a.WriteBatch(nil, [][]byte{[]byte("x")})
		wantTimeout(t, "WriteBatch past the deadline", err)

		done := make(chan error)
		go func() {
			_, err := a.Read(make([]byte, 10))
			done <- err
		}()
		a.SetDeadline(past)
		wantTimeout(t, "blocked Read with a new deadline", <-done)
		a.SetDeadline(time.Time{})
		if _, err := a.Write([]byte("x")); err != nil {
			t.Errorf("Write after the deadline was taken away: %v", err)
		}
	})
}

func TestWriteBatch(t *testing.T) {
	everyConn(t, nil, func(t *testing.T, a, b *Conn) {
		var msgs [][]byte
		for i := range 100 { // few enough for the smallest receive buffer, whose reader may be late
			msgs = append(msgs, pattern.New(uint32(i), 4+i*14))
		}
		msgs = append(msgs, nil, pattern.New(1000, 16384), pattern.New(1001, 16384))
		var wg sync.WaitGroup
		wg.Go(func() {
			if n, err := a.WriteBatch(nil, msgs); n != len(msgs) || err != nil {
				t.Errorf("WriteBatch = %d, %v, want %d", n, err, len(msgs))
			}
			n, err := a.WriteBatch(nil, [][]byte{[]byte("one"), make([]byte, 20000), []byte("two")})
			var tooLarge *MessageTooLargeError
			if n != 1 || !errors.As(err, &tooLarge) {
				t.Errorf("WriteBatch with one too large = %d, %v", n, err)
			}
		})
		for i, want := range msgs {
			if len(want) == 0 {
				continue
			}
			got, err := b.ReadMessage(context.Background(), nil)
			if err != nil || !bytes.Equal(got, want) {
				t.Fatalf("message %d: %d bytes, %v, want %d", i, len(got), err, len(want))
			}
		}
		if got, _ := b.ReadMessage(context.Background(), nil); string(got) != "one" {
			t.Errorf("got %q, want one", got)
		}
		wg.Wait()
	})
}

// A flood from several goroutines arrives whole over a link that loses
// nothing, each goroutine's messages in order.
func TestFlood(t *testing.T) {
	const writers, each = 4, 500
	everyConn(t, nil, func(t *testing.T, a, b *Conn) {
		window := make(chan struct{}, 64) // no more than sockets and queues hold
		for w := range writers {
			go func() {
				for i := range each {
					window <- struct{}{}
					if _, err := a.Write(pattern.New(uint32(w*each+i), 300)); err != nil {
						t.Errorf("Write: %v", err)
						return
					}
				}
			}()
		}
		var next [writers]int
		b.SetReadDeadline(time.Now().Add(20 * time.Second))
		for range writers * each {
			m, err := b.ReadMessage(context.Background(), nil)
			if err != nil {
				t.Fatalf("after %v messages: %v", next, err)
			}
			n, err := pattern.Check(m)
			require.NoError(t, err)
			if w, i := int(n)/each, int(n)%each; i != next[w] {
				t.Fatalf("writer %d: message %d, want %d", w, i, next[w])
			} else {
				next[w]++
			}
			<-window
		}
	})
}

func TestPipeBackpressureAndEOF(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := Pipe(&Config{ReadBuffer: 20000})
		defer a.Close()
		msg := pattern.New(1, 15000)
		a.Write(msg)
		a.SetWriteDeadline(time.Now().Add(time.Second))
		_, err := a.Write(msg)
		wantTimeout(t, "Write to a full pipe", err)
		a.SetWriteDeadline(time.Time{})
		done := make(chan error)
		go func() {
			_, err := a.Write(msg)
			a.Close()
			done <- err
		}()
		synctest.Wait()
		for range 2 {
			if got, err := b.ReadMessage(context.Background(), nil); !bytes.Equal(got, msg) || err != nil {
				t.Errorf("got %d bytes, %v", len(got), err)
			}
		}
		if err := <-done; err != nil {
			t.Errorf("Write that waited for room: %v", err)
		}
		if _, err := b.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("Read after the peer's Close: %v, want io.EOF", err)
		}
		_, err = b.Write([]byte("x"))
		wantErr(t, "Write after the peer's Close", err, io.ErrClosedPipe)
		if errors.Is(err, net.ErrClosed) {
			t.Errorf("%v matches net.ErrClosed, which is for this side", err)
		}
		b.Close()
	})
}

func TestPipeCloseUnblocksWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, closeOther := range []bool{false, true} {
			a, b := Pipe(&Config{ReadBuffer: 20000})
			a.Write(pattern.New(1, 15000))
			done := make(chan error)
			for range 3 {
				go func() {
					_, err := a.Write(pattern.New(1, 15000))
					done <- err
				}()
			}
			synctest.Wait()
			want := net.ErrClosed
			if closeOther {
				want = io.ErrClosedPipe
				b.Close()
			} else {
				a.Close()
			}
			for range 3 {
				wantErr(t, "blocked Write", <-done, want)
			}
			a.Close()
			b.Close()
		}
	})
}

func TestFullInbox(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := simnet.Link{Latency: time.Millisecond}
		a, b := netPipe(0, l, l, &Config{ReadBuffer: 20000})
		defer a.Close()
		defer b.Close()
		var ids []uint64
		for range 30 {
			id, err := a.WriteMessage(pattern.New(7, 1000))
			require.NoError(t, err)
			ids = append(ids, id)
			time.Sleep(10 * time.Millisecond)
		}
		if got := b.Stats(); got.MessagesReceived != 19 || got.MessagesRefused != 11 {
			t.Errorf("received %d, refused %d, want 19 and 11", got.MessagesReceived, got.MessagesRefused)
		}
		delivered := 0
		for _, r := range a.AppendReceipts(nil) {
			if r.Fate == Delivered {
				delivered++
			}
		}
		if delivered != 19 {
			t.Errorf("%d of %d messages acknowledged, want 19", delivered, len(ids))
		}
		b.ReadMessage(context.Background(), nil)
		a.Write([]byte("fits again"))
		time.Sleep(10 * time.Millisecond)
		for range 18 {
			b.ReadMessage(context.Background(), nil)
		}
		if got, _ := b.ReadMessage(context.Background(), nil); string(got) != "fits again" {
			t.Errorf("got %d bytes, want the message sent after there was room", len(got))
		}
	})
}

// ICMP says that nobody listens: that is counted, one Read tells it where the
// system can, and it ends nothing.
func TestConnectionRefused(t *testing.T) {
	gone, err := net.ListenPacket("udp", loopback.Addr())
	require.NoError(t, err)
	addr := gone.LocalAddr().String()
	gone.Close()
	c, err := Dial("udp", addr)
	require.NoError(t, err)
	defer c.Close()
	for c.Stats().Transport.ReadErrors+c.Stats().Transport.WriteErrors == 0 {
		if _, err := c.Write([]byte("x")); err != nil {
			t.Fatalf("Write: %v", err)
		}
	}
	for range 2 {
		c.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
		if _, err = c.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNREFUSED) {
			break
		}
	}
	wantErr(t, "Read", err, os.ErrDeadlineExceeded)

	back, err := loopback.Again(func() (net.PacketConn, error) { return net.ListenPacket("udp", addr) })
	require.NoError(t, err)
	l, err := (&ListenConfig{AdmitMidStream: true}).ListenOn(back)
	require.NoError(t, err)
	defer l.Close()
	for done := false; !done; {
		if _, err := c.Write([]byte("hello")); err != nil {
			t.Fatalf("Write: %v", err)
		}
		l.SetDeadline(time.Now().Add(10 * time.Millisecond))
		s, err := l.AcceptConn(context.Background())
		if err == nil {
			s.Close()
			done = true
		}
	}
}

// messagesOf returns what c reads until its deadline or the end.
func messagesOf(c *Conn) (all []string) {
	c.SetReadDeadline(time.Now().Add(time.Second))
	for {
		m, err := c.ReadMessage(context.Background(), nil)
		if err != nil {
			return all
		}
		all = append(all, string(m))
	}
}

// What the helpers of the standard library do to messages is as package volley's
// documents say.
func TestHelpersForStreams(t *testing.T) {
	for name, f := range map[string]func(t *testing.T, a, b *Conn){
		"net.Buffers": func(t *testing.T, a, b *Conn) {
			bufs := net.Buffers{[]byte("one"), []byte("two")}
			n, err := bufs.WriteTo(a)
			require.NoError(t, err)
			require.EqualValues(t, 6, n)
			require.Equal(t, []string{"one", "two"}, messagesOf(b))
		},
		"io.Copy to": func(t *testing.T, a, b *Conn) {
			_, err := io.Copy(a, io.LimitReader(strings.NewReader(strings.Repeat("x", 10_000)), 10_000))
			require.NoError(t, err)
			require.Len(t, messagesOf(b), 1)
			_, err = io.Copy(a, struct{ io.Reader }{strings.NewReader(strings.Repeat("x", 40_000))})
			_, ok := errors.AsType[*MessageTooLargeError](err)
			require.True(t, ok, "%v", err)
			_, err = io.CopyBuffer(struct{ io.Writer }{a}, struct{ io.Reader }{strings.NewReader(strings.Repeat("x", 2500))}, make([]byte, 1000))
			require.NoError(t, err)
			require.Len(t, messagesOf(b), 3)
		},
		"io.Copy from": func(t *testing.T, a, b *Conn) {
			a.Write([]byte("one"))
			a.Write([]byte("two"))
			b.SetReadDeadline(time.Now().Add(time.Second))
			var all bytes.Buffer
			_, err := io.Copy(&all, b)
			wantTimeout(t, "io.Copy", err)
			require.Equal(t, "onetwo", all.String()) // where one begins is lost
		},
		"bufio.Writer": func(t *testing.T, a, b *Conn) {
			w := bufio.NewWriterSize(a, 16)
			w.WriteString("one")
			w.WriteString("two")
			w.WriteString("a string of more than the buffer")
			w.Flush()
			got := messagesOf(b)
			require.Equal(t, "onetwoa string of more than the buffer", strings.Join(got, ""))
			require.NotContains(t, got, "one")
		},
		"bufio.Reader": func(t *testing.T, a, b *Conn) {
			a.Write([]byte("line\n"))
			a.Write(make([]byte, 100))
			r := bufio.NewReaderSize(b, 16)
			line, err := r.ReadString('\n')
			require.NoError(t, err)
			require.Equal(t, "line\n", line)
			for err == nil {
				_, err = r.ReadByte()
			}
			require.ErrorIs(t, err, io.ErrShortBuffer)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, b := Pipe(nil)
				defer a.Close()
				defer b.Close()
				f(t, a, b)
			})
		})
	}
}
