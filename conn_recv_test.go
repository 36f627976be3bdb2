package volley

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"volley/internal/pattern"
	"volley/internal/wire"
)

// What Accept says after Close must end loops that go on after a timeout.
func TestAcceptClosedPastDeadline(t *testing.T) {
	l, err := Listen("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.SetDeadline(time.Unix(1, 0))
	l.Close()
	_, err = l.Accept()
	wantErr(t, "Accept", err, net.ErrClosed)
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

// A deadline that passes while WriteBatch waits for another sender.
func TestWriteBatchDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := slowly(t)
		if n, err := c.WriteBatch(nil, nil); n != 0 || err != nil {
			t.Errorf("WriteBatch(nil) = %d, %v, want 0, nil", n, err)
		}
		go c.Write([]byte("slow"))
		<-s.sending
		c.SetWriteDeadline(time.Now().Add(time.Second))
		n, err := c.WriteBatch(nil, [][]byte{{1}, {2}})
		wantTimeout(t, "WriteBatch", err)
		if n != 0 {
			t.Errorf("WriteBatch = %d messages, want 0", n)
		}
		close(s.gate)
		synctest.Wait()
		c.SetWriteDeadline(time.Time{})
		n, err = c.WriteBatch(nil, [][]byte{{1}, nil, make([]byte, 20_000), {2}})
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

// bothWays runs a test of the reading end of a connection with the dialed end
// and with the accepted one, which is its listener's only one.
func bothWays(t *testing.T, test func(t *testing.T, reader, writer *Conn)) {
	t.Run("dialed", func(t *testing.T) {
		client, server := udpPair(t, nil)
		test(t, client, server)
	})
	t.Run("accepted", func(t *testing.T) {
		client, server := udpPair(t, nil)
		test(t, server, client)
	})
}

// A connection with its own socket is read by the callers of its Read.
// What arrives while there are none is acknowledged all the same.
func TestAcksWithoutReader(t *testing.T) { bothWays(t, acksWithoutReader) }

func acksWithoutReader(t *testing.T, client, server *Conn) {
	for round := range 5 {
		server.Write([]byte("read me"))
		client.SetReadDeadline(time.Now().Add(30 * time.Second))
		if _, err := client.ReadMessage(context.Background(), nil); err != nil {
			t.Fatal(err)
		}
		want := server.Stats().MessagesDelivered + 100
		for range 100 {
			server.Write([]byte("nobody reads this for a while"))
		}
		for end := time.Now().Add(30 * time.Second); server.Stats().MessagesDelivered < want; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("round %d: %d of %d messages acknowledged", round, server.Stats().MessagesDelivered, want)
			}
		}
		for range 100 {
			if _, err := client.ReadMessage(context.Background(), nil); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// Readers with and without deadlines take turns at the socket, and none is
// forgotten.
func TestReadersTakeTurns(t *testing.T) { bothWays(t, readersTakeTurns) }

func readersTakeTurns(t *testing.T, client, server *Conn) {
	const readers, messages = 4, 400
	var wg sync.WaitGroup
	got := make(chan struct{}, messages)
	for i := range readers {
		wg.Go(func() {
			for {
				if i%2 == 0 {
					client.SetReadDeadline(time.Now().Add(time.Duration(i+1) * time.Millisecond))
				}
				_, err := client.ReadMessage(context.Background(), nil)
				switch {
				case err == nil:
					got <- struct{}{}
				case os.IsTimeout(err):
				default:
					wantErr(t, "Read", err, net.ErrClosed)
					return
				}
			}
		})
	}
	for i := range messages {
		server.Write(pattern.New(uint32(i), 100))
		if i%7 == 0 {
			time.Sleep(time.Duration(i%11) * time.Millisecond)
		}
	}
	timeout := time.After(30 * time.Second)
	for i := range messages {
		select {
		case <-got:
		case <-timeout:
			t.Fatalf("%d of %d messages read", i, messages)
		}
	}
	client.Close()
	wg.Wait()
}

// A deadline set while the socket is being read counts at once, in both
// directions.
func TestDeadlineOfInlineRead(t *testing.T) { bothWays(t, deadlineOfInlineRead) }

func deadlineOfInlineRead(t *testing.T, client, server *Conn) {
	done := make(chan error, 1)
	read := func() {
		_, err := client.ReadMessage(context.Background(), nil)
		done <- err
	}
	for i := range 50 {
		client.SetReadDeadline(time.Now().Add(time.Hour))
		go read()
		if i%2 == 0 {
			time.Sleep(time.Millisecond)
		}
		client.SetReadDeadline(time.Now().Add(-time.Second))
		wantTimeout(t, "Read with a deadline that was moved to the past", <-done)

		// A machine that stands still before the deadline is taken away
		// lets it pass: another round decides.
		deadline := time.Now().Add(50 * time.Millisecond)
		client.SetReadDeadline(deadline)
		go read()
		client.SetReadDeadline(time.Time{})
		late := !time.Now().Before(deadline)
		if i%5 == 0 {
			time.Sleep(60 * time.Millisecond)
		}
		server.Write([]byte("x"))
		err := <-done
		if late && os.IsTimeout(err) {
			_, err = client.ReadMessage(context.Background(), nil) // what was written to the Read that timed out
		}
		if err != nil {
			t.Fatalf("Read with a deadline that was taken away: %v", err)
		}
	}
}

// Connections come and go while others are read: whoever is the only one reads
// the listener's socket, and nobody's messages stay there.
func TestOnlyConnReads(t *testing.T) {
	l, err := Listen("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var servers, clients sync.WaitGroup
	servers.Go(func() {
		for {
			c, err := l.AcceptConn(context.Background())
			if err != nil {
				return
			}
			servers.Go(func() { echoUntilEmpty(c) })
		}
	})
	for i := range 3 {
		clients.Go(func() {
			for round := range 30 {
				if err := visit(l.Addr().String(), 1+(i+round)%3*10); err != nil {
					t.Errorf("client %d, round %d: %v", i, round, err)
					return
				}
				if i > 0 {
					time.Sleep(time.Duration((i*round)%7) * time.Millisecond)
				}
			}
		})
	}
	clients.Wait()
	l.Close()
	servers.Wait()
}

// Connections that are dialed with the default Config share what comes of it, which
// none of them changes: with the race detector that shows.
func TestDialsAtOnce(t *testing.T) {
	l, err := Listen("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 5 {
				c, err := Dial("udp", l.Addr().String())
				if err != nil {
					t.Error(err)
					return
				}
				c.Close()
			}
		})
	}
	all.Wait()
}

// echoUntilEmpty sends messages back until one of a single byte.
func echoUntilEmpty(c *Conn) {
	defer c.Close()
	b := make([]byte, 1000)
	for {
		n, err := c.Read(b)
		if err != nil {
			return
		}
		c.Write(b[:n])
		if n == 1 {
			return
		}
	}
}

// visit exchanges n messages with a server and takes leave. The first one may
// have to be repeated, if a client that had this port before has just left; then
// it may be answered more than once.
func visit(addr string, n int) error {
	c, err := Dial("udp", addr)
	if err != nil {
		return err
	}
	defer c.Close()
	b := make([]byte, 1000)
	for i := range n + 1 {
		size := 100
		if i == n {
			size = 1
		}
		for try := 0; ; try++ {
			c.Write(b[:size])
			patience := 30 * time.Second
			if i == 0 {
				patience = 2 * strayTime
			}
			c.SetReadDeadline(time.Now().Add(patience))
			_, err := c.Read(b)
			if err == nil {
				break
			}
			if i > 0 || try == 15 {
				return err
			}
		}
	}
	return nil
}

// dialOnly returns both sides of a new connection, over which a message has
// come. On a machine that stands still for longer than the idle timeout the
// accepted one may have ended before that: then it tries again.
func dialOnly(t *testing.T, l *Listener) (client, server *Conn) {
	t.Helper()
	for range 100 {
		client, err := Dial("udp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		l.SetDeadline(time.Now().Add(30 * time.Second))
		server, err := l.AcceptConn(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		client.Write([]byte("x"))
		_, err = server.ReadMessage(context.Background(), nil)
		if err == nil {
			return client, server
		}
		server.Close()
		client.Close()
		if !errors.Is(err, ErrIdleTimeout) {
			t.Fatal(err)
		}
	}
	t.Fatal("no connection lived for long enough")
	return nil, nil
}

// The only connection of a listener ends while its Read waits at the socket:
// that Read returns, and the listener goes on.
func TestOnlyConnEnds(t *testing.T) {
	cfg := &Config{IdleTimeout: 50 * time.Millisecond, KeepAlive: -1}
	for _, test := range []struct {
		name string
		cfg  *Config
		end  func(c *Conn)
		want error
	}{
		{"Close", nil, func(c *Conn) { c.Close() }, net.ErrClosed},
		{"idle timeout", cfg, func(*Conn) {}, ErrIdleTimeout},
	} {
		t.Run(test.name, func(t *testing.T) {
			lc := ListenConfig{Config: test.cfg}
			l, err := lc.Listen(t.Context(), "udp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			for range 5 {
				client, c := dialOnly(t, l)
				done := make(chan error)
				go func() {
					_, err := c.ReadMessage(context.Background(), nil)
					done <- err
				}()
				time.Sleep(10 * time.Millisecond) // so that it is at the socket most times
				test.end(c)
				wantErr(t, "Read", <-done, test.want)
				c.Close()
				client.Close()
			}
		})
	}
}

// FuzzConn feeds a connection with arbitrary datagrams, several from one input.
func FuzzConn(f *testing.F) {
	f.Add([]byte{4, 0x3e, 0, 0, 0, 9, 0x01, 1, 0, 1, 3, 1, 2, 3, 4})
	f.Fuzz(func(t *testing.T, data []byte) {
		a, b := Pipe(&Config{ReadBuffer: 20000, ReassemblyBuffer: 20000})
		defer a.Close()
		defer b.Close()
		var out wire.Batch
		now := time.Now()
		for len(data) > 0 {
			n := min(int(data[0]), len(data)-1)
			(*handler)(a).HandleBatch(now, [][]byte{data[1 : 1+n]}, &out)
			data = data[1+n:]
			now = now.Add(time.Millisecond)
		}
		if m := a.Stats().Memory; m > 100<<10 {
			t.Errorf("%d bytes held", m)
		}
	})
}
