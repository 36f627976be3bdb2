package riptide

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"volley/simnet"
)

// bubble runs a test in virtual time.
func bubble(t *testing.T, f func(*testing.T)) {
	t.Helper()
	synctest.Test(t, f)
}

func TestAccept(t *testing.T) {
	for _, layout := range []layout{packed, notes} {
		cfg := &Config{NotesLayout: layout == notes}
		bubble(t, func(t *testing.T) {
			var j journal
			s := j.server(&Server{Config: cfg})
			s.Accept = func(ctx context.Context, r *Request) error {
				time.Sleep(time.Second) // decisions may take their time
				switch word := r.Data.ReadString(); word {
				case "yes":
					return r.Data.Err()
				case "data":
					why := cfg.NewData()
					why.AddString("why")
					r.Reply = why
					return errors.New(word)
				case "late":
					<-ctx.Done()
					j.add("nobody waits for %v", r.RemoteAddr)
					return nil
				default:
					return errors.New(word)
				}
			}
			w := newWorld(t, s, simnet.Link{Latency: 10 * ms})
			port := 0
			dial := func(word string) error {
				port++ // so that no late datagram meets another client
				c := j.client(word, cfg)
				c.Data = cfg.NewData()
				c.Data.AddString(word)
				defer c.Close()
				return w.dial(c, fmt.Sprint("10.0.0.2:", port))
			}
			if err := dial("yes"); err != nil {
				t.Error(err)
			}
			time.Sleep(time.Second)
			j.want(t, "server: 1 connected", "server: 1 disconnected", "yes: disconnected")
			ce, ok := errors.AsType[*DisconnectError](dial("no"))
			if !ok || ce.Reason != Rejected || ce.Data != nil {
				t.Errorf("no: %v", ce)
			}
			ce, ok = errors.AsType[*DisconnectError](dial("data"))
			if !ok || ce.Reason != Rejected || ce.Data.ReadString() != "why" {
				t.Errorf("data: %v", ce)
			}
			if layout == packed { // in the other the client gives up after 5 s
				if err := dial("late"); err == nil {
					t.Error("nobody decided, and it is connected")
				}
				time.Sleep(10 * time.Second)
				j.want(t, "nobody waits for 10.0.0.2:4")
			}
			w.close()
			time.Sleep(2 * time.Second) // for decisions that nobody waits for
		})
	}
}

// TestConnectErrors: what Connect returns when there is nobody, when the
// context ends, and when the client is not fit.
func TestConnectErrors(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := simnet.New(1)
		defer n.Close()
		open := func() net.Conn {
			c, err := n.Dial("10.0.0.2:0", serverAddr)
			if err != nil {
				t.Fatal(err)
			}
			return c
		}
		var c Client
		begin := time.Now()
		err := c.ConnectOn(t.Context(), open())
		if ce, ok := errors.AsType[*DisconnectError](err); !ok || ce.Reason != NoAnswer || time.Since(begin) != 5*time.Second {
			t.Errorf("nobody there: %v after %v", err, time.Since(begin))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := c.ConnectOn(ctx, open()); err != context.DeadlineExceeded {
			t.Errorf("context: %v", err)
		}
		<-c.Done()
		if c.Err() != nil || c.ID() != 0 {
			t.Errorf("never connected: Err %v, ID %d", c.Err(), c.ID())
		}
		c.Data = NewData()
		c.Data.Fail(io.EOF)
		if err := c.ConnectOn(t.Context(), open()); err != io.EOF {
			t.Errorf("data with an error: %v", err)
		}
		c.Config = &Config{MaxPayload: 1}
		var ce *ConfigError
		if err := c.ConnectOn(t.Context(), open()); !errors.As(err, &ce) {
			t.Errorf("config: %v", err)
		}
		if err := c.Connect(t.Context(), "udp", "127.0.0.1:1"); !errors.As(err, &ce) {
			t.Errorf("config: %v", err)
		}
	})
	var s Server
	s.MaxClients = 65535
	if err := s.ListenAndServe("udp", "127.0.0.1:0"); err == nil || !strings.Contains(err.Error(), "MaxClients") {
		t.Errorf("MaxClients: %v", err)
	}
	s.Close()
}

func TestConfigErrors(t *testing.T) {
	for _, test := range []struct {
		cfg   Config
		field string
	}{
		{Config{DuplicateWindow: -1}, "DuplicateWindow"}, {Config{MaxPayload: -1}, "MaxPayload"},
		{Config{MaxPayload: 70000}, "MaxPayload"}, {Config{HeartbeatInterval: -1}, "HeartbeatInterval"},
		{Config{Timeout: time.Millisecond}, "Timeout"}, {Config{PendingTimeout: -1}, "PendingTimeout"},
		{Config{ConnectAttempts: -1}, "ConnectAttempts"}, {Config{MinResend: -1}, "MinResend"},
		{Config{SendBuffer: 100}, "SendBuffer"}, {Config{ReadBuffer: 100}, "ReadBuffer"},
	} {
		_, err := newSettings(&test.cfg)
		if ce, ok := errors.AsType[*ConfigError](err); !ok || ce.Field != "Config."+test.field {
			t.Errorf("%+v: %v, want an error about %s", test.cfg, err, test.field)
		}
	}
	if _, err := newSettings(&Config{Timeout: -1, MaxSends: -1, MaxMeanSends: -1, MaxNotifyLoss: -1, SocketBuffer: -1}); err != nil {
		t.Error(err)
	}
}

// TestServerFull: ids go around, and who finds no place is told so.
func TestServerFull(t *testing.T) {
	for _, accept := range []func(context.Context, *Request) error{nil, func(context.Context, *Request) error { return nil }} {
		bubble(t, func(t *testing.T) {
			var j journal
			w := newWorld(t, &Server{MaxClients: 2, Accept: accept}, simnet.Link{Latency: 10 * ms})
			a, b, c := j.client("a", nil), j.client("b", nil), j.client("c", nil)
			w.mustDial(a, "10.0.0.2:1")
			w.mustDial(b, "10.0.0.2:2")
			ce, ok := errors.AsType[*DisconnectError](w.dial(c, "10.0.0.2:3"))
			if !ok || ce.Reason != ServerFull {
				t.Errorf("c: %v", ce)
			}
			b.Close()
			time.Sleep(50 * ms)
			a.Close()
			time.Sleep(50 * ms)
			w.mustDial(c, "10.0.0.2:3")
			w.mustDial(a, "10.0.0.2:1")
			if c.ID() != 2 || a.ID() != 1 {
				t.Errorf("ids %d, %d, want the one free for longest first", c.ID(), a.ID())
			}
			w.close()
		})
	}
}

// TestRestartedClient: a client whose program has ended without a word connects
// anew from the same port.
func TestRestartedClient(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var j journal
		w := newWorld(t, j.server(&Server{}), simnet.Link{Latency: 10 * ms})
		conn, err := w.net.Dial("10.0.0.2:1", serverAddr)
		if err != nil {
			t.Fatal(err)
		}
		a := j.client("a", nil)
		if err := a.ConnectOn(t.Context(), conn); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Second)
		conn.Close() // and nothing is said
		begin := time.Now()
		b := j.client("b", nil)
		w.mustDial(b, "10.0.0.2:1")
		time.Sleep(50 * ms)
		j.want(t, "server: 1 connected", "a: transport error", "server: 1 disconnected", "server: 2 connected")
		if took := time.Since(begin); took > 3*time.Second {
			t.Errorf("it took %v", took)
		}
		w.close()
	})
}

// TestTimeouts: both sides notice when the other has gone silent.
func TestTimeouts(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var j journal
		w := newWorld(t, j.server(&Server{}), simnet.Link{Latency: 10 * ms})
		a := j.client("a", nil)
		w.mustDial(a, "10.0.0.2:1")
		time.Sleep(time.Second)
		j.want(t, "server: 1 connected")
		w.net.SetDefault(simnet.Link{Loss: 1})
		time.Sleep(7 * time.Second)
		j.want(t, "a: timed out", "server: 1 timed out")
		w.net.SetDefault(simnet.Link{})
		w.mustDial(a, "10.0.0.2:1")
		time.Sleep(time.Second)
		j.want(t, "server: 2 connected")
		w.server.Peer(2).SetTimeout(-1)
		a.SetTimeout(-1)
		w.net.SetDefault(simnet.Link{Loss: 1})
		time.Sleep(time.Hour)
		j.want(t)
		w.server.Peer(2).SetTimeout(5 * time.Second)
		time.Sleep(time.Second)
		j.want(t, "server: 2 timed out")
		a.Close()
		<-a.Done()
		w.close()
	})
}

// TestSpoofedConnects: a hundred thousand connects from as many addresses cost
// bounded memory, and a hundred honest clients nothing.
func TestSpoofedConnects(t *testing.T) {
	for _, accept := range []func(context.Context, *Request) error{nil, func(ctx context.Context, r *Request) error { <-ctx.Done(); return io.EOF }} {
		bubble(t, func(t *testing.T) {
			var flooded, ended atomic.Int64
			s := &Server{MaxClients: 200, MaxPending: 100}
			if accept != nil { // everybody, until the flood comes
				s.Accept = func(ctx context.Context, r *Request) error {
					if flooded.Load() == 0 {
						return nil
					}
					return accept(ctx, r)
				}
			}
			n := simnet.New(1)
			pc, err := n.Listen(serverAddr)
			if err != nil {
				t.Fatal(err)
			}
			flood := newInjector(pc)
			w := &world{t: t, net: n, server: s, served: make(chan error, 1)}
			go func() { w.served <- s.ServeOn(flood) }()
			var clients []*Client
			for i := range 100 {
				c := &Client{Disconnected: func(*Client, Reason, *Message) { ended.Add(1) }}
				clients = append(clients, c)
				w.mustDial(c, fmt.Sprintf("10.0.9.%d:1", i))
			}
			flooded.Store(1)
			synctest.Wait()
			before := heapSize()
			most := uint64(0)
			for i := range 100_000 {
				from := netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 1, byte(i >> 16), byte(i >> 8)}), uint16(i&0xff)+1)
				flood.in <- injected{[]byte{2, byte(i)}, from}
				if i%10_000 == 0 {
					time.Sleep(500 * ms)
					most = max(most, heapSize())
				}
			}
			time.Sleep(10 * time.Second)
			if ended.Load() > 0 || len(s.Peers()) != 100 {
				t.Errorf("%d sessions ended, %d clients", ended.Load(), len(s.Peers()))
			}
			if grown := int64(most) - int64(before); grown > 8<<20 {
				t.Errorf("memory grew by %d bytes", grown)
			}
			s.mu.Lock()
			if n := len(s.lobby.peers); n > 200 || len(s.lobby.pending[overDatagrams].peers) > 100 {
				t.Errorf("%d in the lobby, %d pending", n, len(s.lobby.pending[overDatagrams].peers))
			}
			s.mu.Unlock()
			if accept == nil { // and others find a place when it is over
				w.mustDial(&Client{}, "10.0.3.1:1")
			}
			for _, c := range clients {
				c.Close()
			}
			w.close()
		})
	}
}

// An injector is a socket on which datagrams also come from elsewhere. What is
// sent to 10.1.0.0/16 is not.
type injector struct {
	net.PacketConn
	in chan injected
}

type injected struct {
	b    []byte
	from netip.AddrPort
}

func newInjector(pc net.PacketConn) *injector {
	i := &injector{pc, make(chan injected)}
	go func() {
		defer close(i.in)
		buf := make([]byte, 2048)
		for {
			n, from, err := pc.ReadFrom(buf)
			if err != nil {
				return
			}
			i.in <- injected{append([]byte(nil), buf[:n]...), from.(*net.UDPAddr).AddrPort()}
		}
	}()
	return i
}

func (i *injector) ReadFrom(b []byte) (int, net.Addr, error) {
	d, ok := <-i.in
	if !ok {
		return 0, nil, net.ErrClosed
	}
	return copy(b, d.b), net.UDPAddrFromAddrPort(d.from), nil
}

func (i *injector) WriteTo(b []byte, to net.Addr) (int, error) {
	if ip := to.(*net.UDPAddr).IP.To4(); ip[0] == 10 && ip[1] == 1 {
		return len(b), nil
	}
	return i.PacketConn.WriteTo(b, to)
}

func addrOf(s string) netip.Addr { return netip.MustParseAddr(s) }

func heapSize() uint64 {
	runtime.GC()
	runtime.GC() // pools keep things for one cycle
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
