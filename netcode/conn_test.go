package netcode

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"volley/simnet"
)

// bubble runs f in virtual time on a simulated network.
func bubble(t *testing.T, link simnet.Link, f func(t *testing.T, n *simnet.Network)) {
	synctest.Test(t, func(t *testing.T) {
		n := simnet.New(1)
		defer n.Close()
		n.SetDefault(link)
		f(t, n)
	})
}

const simServer = "10.0.0.1:7777"

func simListen(t *testing.T, n *simnet.Network, change func(*ListenConfig)) *Listener {
	t.Helper()
	pc, err := n.Listen(simServer)
	if err != nil {
		t.Fatal(err)
	}
	lc := ListenConfig{PrivateKey: testKey, ProtocolID: testProtocol}
	if change != nil {
		change(&lc)
	}
	l, err := lc.ListenOn(pc)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func simToken(t *testing.T, id uint64) *Token {
	t.Helper()
	tok, err := testIssuer().Issue(id, fmt.Appendf(nil, "client %d", id))
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

func simDial(t *testing.T, n *simnet.Network, tok *Token) (*Conn, error) {
	t.Helper()
	pc, err := n.Listen("10.0.1.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var d Dialer
	return d.DialOn(t.Context(), pc, tok)
}

// simPair returns both sides of a session.
func simPair(t *testing.T, n *simnet.Network, l *Listener, id uint64) (client, server *Conn) {
	t.Helper()
	client, err := simDial(t, n, simToken(t, id))
	if err != nil {
		t.Fatal(err)
	}
	server, err = l.AcceptConn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return client, server
}

func closeAll(cs ...io.Closer) {
	for _, c := range cs {
		c.Close()
	}
}

func wantRead(t *testing.T, c net.Conn, want string) {
	t.Helper()
	b := make([]byte, MaxMessageSize)
	n, err := c.Read(b)
	if err != nil || string(b[:n]) != want {
		t.Fatalf("Read = %q, %v, want %q", b[:n], err, want)
	}
}

func TestSession(t *testing.T) {
	bubble(t, simnet.Link{Latency: 20 * time.Millisecond}, func(t *testing.T, n *simnet.Network) {
		l := simListen(t, n, nil)
		start := time.Now()
		client, server := simPair(t, n, l, 7)
		defer closeAll(client, server, l)
		if d := time.Since(start); d != 80*time.Millisecond {
			t.Errorf("the handshake took %v, want two round trips of 40 ms", d)
		}
		if server.ClientID() != 7 || string(server.UserData()[:9]) != "client 7\x00" {
			t.Errorf("client %d with %q", server.ClientID(), server.UserData()[:10])
		}
		if client.ClientID() != 0 || client.UserData() != nil {
			t.Error("the client knows what is in its token")
		}
		if i, slots := client.ClientIndex(); i != 0 || slots != defaultMaxClients {
			t.Errorf("ClientIndex() = %d, %d", i, slots)
		}
		if client.RemoteAddr().String() != simServer || server.RemoteAddr().String() != client.LocalAddr().String() {
			t.Errorf("addresses: %v, %v", client.RemoteAddr(), server.RemoteAddr())
		}
		for _, size := range []int{1, 256, MaxMessageSize} {
			p := strings.Repeat("x", size)
			if k, err := client.Write([]byte(p)); k != size || err != nil {
				t.Fatalf("Write = %d, %v", k, err)
			}
			wantRead(t, server, p)
			server.Write([]byte(p))
			wantRead(t, client, p)
		}
		time.Sleep(time.Minute) // keep alives
		client.Write([]byte("still"))
		wantRead(t, server, "still")
		if s := server.Stats(); s.MessagesReceived != 4 || s.BytesReceived != 1462 || total(server.Stats().Drops) != 0 {
			t.Errorf("Stats() = %+v", s)
		}
		if s := l.Stats(); s.Conns != 1 || s.Accepted != 1 || s.Requests != 1 || s.Responses != 1 || s.Challenges != 1 {
			t.Errorf("listener's Stats() = %+v", s)
		}
	})
}

func TestCloseIsEOF(t *testing.T) {
	bubble(t, simnet.Link{}, func(t *testing.T, n *simnet.Network) {
		l := simListen(t, n, nil)
		defer l.Close()
		for _, byClient := range []bool{true, false} {
			a, b := simPair(t, n, l, 1)
			if !byClient {
				a, b = b, a
			}
			a.Write([]byte("last words"))
			a.Close()
			if err := a.Close(); err != nil {
				t.Errorf("second Close: %v", err)
			}
			synctest.Wait()
			if err := b.SetReadDeadline(time.Now().Add(time.Second)); err != nil {
				t.Errorf("SetReadDeadline with a payload to read after the peer's Close: %v", err)
			}
			wantRead(t, b, "last words")
			if _, err := b.Read(make([]byte, 9)); err != io.EOF {
				t.Errorf("Read after the peer's Close: %v, want EOF", err)
			}
			if _, err := b.Write([]byte("x")); !errors.Is(err, io.ErrClosedPipe) || errors.Is(err, net.ErrClosed) {
				t.Errorf("Write after the peer's Close: %v", err)
			}
			if _, err := a.Read(make([]byte, 9)); !errors.Is(err, net.ErrClosed) {
				t.Errorf("Read after Close: %v", err)
			}
			if _, err := a.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
				t.Errorf("Write after Close: %v", err)
			}
			b.Close()
			if err := b.SetReadDeadline(time.Time{}); !errors.Is(err, net.ErrClosed) {
				t.Errorf("SetReadDeadline after Close: %v", err)
			}
			if s := l.Stats(); s.Conns != 0 {
				t.Errorf("%d sessions left", s.Conns)
			}
		}
	})
}

// TestCloseOverLoss: nine of ten disconnects may be lost.
func TestCloseOverLoss(t *testing.T) {
	bubble(t, simnet.Link{}, func(t *testing.T, n *simnet.Network) {
		l := simListen(t, n, nil)
		defer l.Close()
		ended := 0
		for i := range 20 {
			n.SetDefault(simnet.Link{})
			a, b := simPair(t, n, l, uint64(i))
			n.SetDefault(simnet.Link{Loss: 0.5})
			a.Close()
			b.SetReadDeadline(time.Now().Add(time.Second))
			if _, err := b.Read(make([]byte, 9)); err == io.EOF {
				ended++
			}
			b.Close()
		}
		if ended < 18 { // each does but once in a thousand times
			t.Errorf("%d of 20 learnt of the end", ended)
		}
	})
}

func TestTimeout(t *testing.T) {
	bubble(t, simnet.Link{}, func(t *testing.T, n *simnet.Network) {
		l := simListen(t, n, nil)
		client, server := simPair(t, n, l, 1)
		defer closeAll(client, server, l)
		client.Write([]byte("before"))
		synctest.Wait()
		n.SetDefault(simnet.Link{Loss: 1})
		start := time.Now()
		wantRead(t, server, "before")
		for _, c := range []*Conn{client, server} {
			_, err := c.Read(make([]byte, 9))
			if !errors.Is(err, ErrIdleTimeout) || errors.Is(err, net.ErrClosed) || errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("Read: %v, want ErrIdleTimeout", err)
			}
			if _, err := c.Write([]byte("x")); !errors.Is(err, ErrIdleTimeout) {
				t.Errorf("Write: %v, want ErrIdleTimeout", err)
			}
		}
		if d := time.Since(start); d < 4900*time.Millisecond || d > 5200*time.Millisecond {
			t.Errorf("the timeout took %v, want 5 s", d)
		}
		if s := l.Stats(); s.TimedOut != 1 || s.Conns != 0 {
			t.Errorf("Stats() = %+v", s)
		}
	})
}

func TestPayloadSizes(t *testing.T) {
	client, server := Pipe(1, nil)
	defer closeAll(client, server)
	var tooLarge *MessageTooLargeError
	if _, err := client.Write(make([]byte, 1201)); !errors.As(err, &tooLarge) || tooLarge.Size != 1201 || tooLarge.Max != 1200 {
		t.Errorf("Write of 1201 bytes: %v", err)
	}
	if !strings.Contains(tooLarge.Error(), "1201") || !strings.Contains(tooLarge.Error(), "1200") {
		t.Errorf("text: %v", tooLarge)
	}
	if n, err := client.Write(nil); n != 0 || err != nil {
		t.Errorf("Write(nil) = %d, %v", n, err)
	}
	client.Write([]byte("longer than that"))
	b := make([]byte, 6)
	if n, err := server.Read(b); n != 6 || !errors.Is(err, io.ErrShortBuffer) || string(b) != "longer" {
		t.Errorf("Read = %d, %v, %q", n, err, b)
	}
	if s := server.Stats(); s.ReadsTruncated != 1 || s.MessagesReceived != 1 {
		t.Errorf("Stats() = %+v", s)
	}
}

func TestWriteBatch(t *testing.T) {
	bubble(t, simnet.Link{}, func(t *testing.T, n *simnet.Network) {
		l := simListen(t, n, nil)
		client, server := simPair(t, n, l, 1)
		defer closeAll(client, server, l)
		var payloads [][]byte
		for i := range 150 {
			payloads = append(payloads, fmt.Appendf(nil, "%d", i))
		}
		payloads = append(payloads, make([]byte, 2000), []byte("not sent"))
		k, err := client.WriteBatch(payloads)
		if k != 150 || err == nil {
			t.Errorf("WriteBatch = %d, %v, want 150 and an error", k, err)
		}
		for i := range 150 {
			wantRead(t, server, fmt.Sprint(i))
		}
	})
}

func TestReadBufferFull(t *testing.T) {
	bubble(t, simnet.Link{}, func(t *testing.T, n *simnet.Network) {
		l := simListen(t, n, func(lc *ListenConfig) { lc.Config = &Config{ReadBuffer: 5 * (100 + 4 + 200)} })
		client, server := simPair(t, n, l, 1)
		defer closeAll(client, server, l)
		for range 40 {
			client.Write(make([]byte, 100))
		}
		synctest.Wait()
		s := server.Stats()
		if s.Drops[dropQueueFull.String()] != 26 || l.Stats().Drops[dropQueueFull.String()] != 26 || s.MessagesReceived != 40 {
			t.Errorf("%d of %d dropped", s.Drops[dropQueueFull.String()], s.MessagesReceived)
		}
	})
}

func TestListenerClose(t *testing.T) {
	bubble(t, simnet.Link{}, func(t *testing.T, n *simnet.Network) {
		l := simListen(t, n, nil)
		client, server := simPair(t, n, l, 1)
		waiting, err := simDial(t, n, simToken(t, 2))
		if err != nil {
			t.Fatal(err)
		}
		accepts := make(chan error)
		go func() {
			time.Sleep(time.Second)
			l.Close()
			close(accepts)
		}()
		<-accepts
		if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("Accept: %v", err)
		}
		if _, err := waiting.Read(make([]byte, 9)); err != io.EOF {
			t.Errorf("a session that nobody accepted: %v, want EOF", err)
		}
		client.Write([]byte("lives on"))
		wantRead(t, server, "lives on")
		if _, err := simDial(t, n, simToken(t, 3)); err == nil {
			t.Error("a closed listener takes clients")
		}
		closeAll(client, server, waiting)
	})
}

func TestAcceptDeadline(t *testing.T) {
	bubble(t, simnet.Link{}, func(t *testing.T, n *simnet.Network) {
		l := simListen(t, n, nil)
		defer l.Close()
		l.SetDeadline(time.Now().Add(time.Minute))
		if _, err := l.Accept(); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("Accept: %v", err)
		}
	})
}

func TestDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := Pipe(1, nil)
		defer closeAll(a, b)
		a.SetReadDeadline(time.Now().Add(time.Second))
		start := time.Now()
		if _, err := a.Read(make([]byte, 9)); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(start) != time.Second {
			t.Errorf("Read: %v after %v", err, time.Since(start))
		}
		a.SetWriteDeadline(time.Now().Add(time.Second))
		var err error
		for err == nil {
			_, err = a.Write(make([]byte, MaxMessageSize)) // until b has no room
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("Write: %v", err)
		}
	})
}

func TestListenErrors(t *testing.T) {
	for want, lc := range map[string]ListenConfig{
		"ListenConfig.PrivateKey": {},
		"ListenConfig.MaxClients": {PrivateKey: testKey, MaxClients: -1},
		"ListenConfig.Backlog":    {PrivateKey: testKey, Backlog: -1},
		"Config.ReplayWindow":     {PrivateKey: testKey, Config: &Config{ReplayWindow: 10}},
		"Config.ReadBuffer":       {PrivateKey: testKey, Config: &Config{ReadBuffer: 10}},
	} {
		_, err := lc.Listen(t.Context(), "udp", "127.0.0.1:0")
		var ce *ConfigError
		if !errors.As(err, &ce) || ce.Field != want {
			t.Errorf("Listen: %v, want an error about %s", err, want)
		}
	}
	lc := ListenConfig{PrivateKey: testKey}
	if _, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0"); err == nil {
		t.Error("Listen on tcp succeeds")
	}
}

// TestLoopback is the whole way over real sockets.
func TestLoopback(t *testing.T) {
	key := GenerateKey()
	for _, address := range []string{"127.0.0.1:0", ":0"} {
		l, err := Listen("udp", address, key, 5)
		if err != nil {
			t.Fatal(err)
		}
		_, port, _ := net.SplitHostPort(l.Addr().String())
		client, err := new(Dialer).DialWithKey(t.Context(), "127.0.0.1:"+port, key, 5, 99)
		if err != nil {
			t.Fatal(err)
		}
		c, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		server := c.(*Conn)
		if server.ClientID() != 99 {
			t.Errorf("client %d", server.ClientID())
		}
		p := bytes.Repeat([]byte("p"), MaxMessageSize)
		client.Write(p)
		wantRead(t, server, string(p))
		server.Write(p)
		wantRead(t, client, string(p))
		client.Close()
		if _, err := server.Read(p); err != io.EOF {
			t.Errorf("Read: %v, want EOF", err)
		}
		closeAll(server, l)
	}
}

// A deadline set while the caller of Read waits at the socket counts at once,
// and so does the end of the session, at both ends.
func TestLoopbackReaders(t *testing.T) {
	key := GenerateKey()
	l, err := Listen("udp", "127.0.0.1:0", key, 5)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for id := range uint64(3) {
		client, err := new(Dialer).DialWithKey(t.Context(), l.Addr().String(), key, 5, id)
		if err != nil {
			t.Fatal(err)
		}
		server, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		ends := make(chan error, 2)
		for _, c := range []net.Conn{client, server} {
			read := func() {
				_, err := c.Read(make([]byte, 10))
				ends <- err
			}
			c.SetReadDeadline(time.Now().Add(time.Hour))
			go read()
			time.Sleep(10 * time.Millisecond) // so that it is at the socket most times
			c.SetReadDeadline(time.Now().Add(-time.Second))
			if err := <-ends; !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("Read with a deadline moved to the past: %v", err)
			}
			c.SetReadDeadline(time.Time{})
			go read()
			time.Sleep(10 * time.Millisecond)
		}
		server.Close()
		one, two := <-ends, <-ends // in any order
		if one == io.EOF {
			one, two = two, one
		}
		if !errors.Is(one, net.ErrClosed) || two != io.EOF {
			t.Errorf("Reads of a closed session: %v and %v, want net.ErrClosed and EOF", one, two)
		}
		client.Close()
	}
}
