package netcode

import (
	"errors"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"volley/internal/listen"
	"volley/internal/socket"
	"volley/simnet"
)

// A brokenSocket fails for good once broken is closed.
type brokenSocket struct {
	socket.Socket
	broken chan struct{}
	got    chan socket.Packet
}

var errBroken = errors.New("cable cut")

func breakable(sock socket.Socket) *brokenSocket {
	s := &brokenSocket{Socket: sock, broken: make(chan struct{}), got: make(chan socket.Packet)}
	go func() {
		for {
			ps := make([]socket.Packet, 1)
			if _, err := sock.ReadBatch(ps); err != nil {
				close(s.got)
				return
			}
			ps[0].Buf = append([]byte(nil), ps[0].Buf...)
			select {
			case s.got <- ps[0]:
			case <-s.broken:
			}
		}
	}()
	return s
}

func (s *brokenSocket) ReadBatch(ps []socket.Packet) (int, error) {
	select {
	case <-s.broken:
		return 0, errBroken
	case p, ok := <-s.got:
		if !ok {
			return 0, net.ErrClosed
		}
		ps[0] = p
		return 1, nil
	}
}

// TestBrokenSocket: the end of a socket ends what stands on it, with the reason.
func TestBrokenSocket(t *testing.T) {
	bubble(t, simnet.Link{}, func(t *testing.T, n *simnet.Network) {
		pc, _ := n.Listen(simServer)
		sock := breakable(socket.NewPacket(pc))
		lc := ListenConfig{PrivateKey: testKey, ProtocolID: testProtocol}
		l, err := lc.newListener()
		if err == nil {
			err = l.serve(listen.PortOf(sock), lc.PrivateKey)
		}
		if err != nil {
			t.Fatal(err)
		}
		client, server := simPair(t, n, l, 1)
		close(sock.broken)
		if _, err := server.Read(make([]byte, 9)); !errors.Is(err, errBroken) {
			t.Errorf("Read: %v, want the socket's error", err)
		}
		if _, err := server.Write([]byte("x")); !errors.Is(err, errBroken) {
			t.Errorf("Write: %v, want the socket's error", err)
		}
		synctest.Wait()
		if _, err := l.Accept(); !errors.Is(err, errBroken) {
			t.Errorf("Accept: %v, want the socket's error", err)
		}
		closeAll(client, server, l)
	})
}

// TestDialUnreachable: a server that there is no way to is passed over.
func TestDialUnreachable(t *testing.T) {
	key := GenerateKey()
	l, err := Listen("udp", "127.0.0.1:0", key, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	good := netip.MustParseAddrPort(l.Addr().String())
	bad, worse := netip.MustParseAddrPort("127.0.0.1:9"), netip.MustParseAddrPort("127.0.0.1:10")
	no := errors.New("no way")
	d := Dialer{NetDialer: net.Dialer{Control: func(_, address string, _ syscall.RawConn) error {
		if address == bad.String() || address == worse.String() {
			return no
		}
		return nil
	}}}
	is := Issuer{PrivateKey: key, Servers: []netip.AddrPort{bad, good}}
	tok, _ := is.Issue(1, nil)
	c, err := d.Dial(t.Context(), tok)
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	is.Servers = []netip.AddrPort{bad, worse}
	tok, _ = is.Issue(2, nil)
	_, err = d.Dial(t.Context(), tok)
	var he *HandshakeError
	if !errors.Is(err, no) || !errors.As(err, &he) || len(he.Attempts) != 2 || he.Attempts[0].Err == nil {
		t.Errorf("Dial: %v, want the error of the socket", err)
	}
	if strings.Contains(err.Error(), "silent") {
		t.Errorf("%q speaks of silence", err)
	}
}

// TestDialBrokenSocket: the socket ends during the handshake.
func TestDialBrokenSocket(t *testing.T) {
	bubble(t, simnet.Link{}, func(t *testing.T, n *simnet.Network) {
		pc, _ := n.Listen("10.0.1.1:0")
		time.AfterFunc(time.Second, func() { pc.Close() })
		var d Dialer
		_, err := d.DialOn(t.Context(), pc, simToken(t, 1))
		if !errors.Is(err, net.ErrClosed) {
			t.Errorf("Dial: %v, want the error of the socket", err)
		}
	})
}

// TestMaxMemory: all sessions together hold no more than they may.
func TestMaxMemory(t *testing.T) {
	bubble(t, simnet.Link{}, func(t *testing.T, n *simnet.Network) {
		l := simListen(t, n, func(lc *ListenConfig) { lc.MaxMemory = 100 << 10 })
		defer l.Close()
		for i := range 5 {
			client, server := simPair(t, n, l, uint64(i))
			defer closeAll(client, server)
			for range 50 {
				client.Write(make([]byte, 1000))
			}
		}
		synctest.Wait()
		s := l.Stats()
		if s.Memory > 100<<10 || s.Memory < 50<<10 || s.Drops[dropQueueFull.String()] < 150 {
			t.Errorf("%d bytes held, %d payloads dropped", s.Memory, s.Drops[dropQueueFull.String()])
		}
	})
}

func TestOwnAddresses(t *testing.T) {
	addrs := func(texts ...string) (as []netip.AddrPort) {
		for _, s := range texts {
			as = append(as, netip.MustParseAddrPort(s))
		}
		return as
	}
	udp := func(s string) net.Addr { return net.UDPAddrFromAddrPort(netip.MustParseAddrPort(s)) }
	for _, test := range []struct {
		given []netip.AddrPort
		local net.Addr
		want  []netip.AddrPort
	}{
		{nil, udp("10.0.0.1:7"), addrs("10.0.0.1:7")},
		{nil, udp("[::ffff:10.0.0.1]:7"), addrs("10.0.0.1:7")},
		{nil, udp("[fe80::1%eth0]:7"), addrs("[fe80::1]:7")},
		{addrs("[::ffff:1.2.3.4]:5", "[::1]:6"), udp("10.0.0.1:7"), addrs("1.2.3.4:5", "[::1]:6")},
		{addrs("1.2.3.4:5"), pipeAddr("x"), addrs("1.2.3.4:5")},
		{nil, pipeAddr("x"), nil},
		{[]netip.AddrPort{{}}, udp("10.0.0.1:7"), nil},
	} {
		got, err := ownAddresses(test.given, test.local)
		if (err == nil) != (test.want != nil) || len(got) != len(test.want) {
			t.Errorf("ownAddresses(%v, %v) = %v, %v, want %v", test.given, test.local, got, err, test.want)
			continue
		}
		for i := range got {
			if got[i] != test.want[i] {
				t.Errorf("ownAddresses(%v, %v) = %v, want %v", test.given, test.local, got, test.want)
			}
		}
	}
	if got, err := ownAddresses(nil, udp("[::]:7")); err != nil || len(got) == 0 || got[0].Port() != 7 {
		t.Errorf("addresses of the machine = %v, %v", got, err)
	}
}

// TestListenPacketFails: after an error the socket is still the caller's.
func TestListenPacketFails(t *testing.T) {
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	for _, lc := range []ListenConfig{
		{},
		{PrivateKey: testKey, Backlog: -1},
		{PrivateKey: testKey, Addresses: []netip.AddrPort{{}}},
	} {
		var ce *ConfigError
		if _, err := lc.ListenOn(pc); !errors.As(err, &ce) {
			t.Errorf("ListenPacket = %v, want a *ConfigError", err)
		}
	}
	if err := pc.Close(); err != nil {
		t.Errorf("Close: %v, want the socket open", err)
	}
}
