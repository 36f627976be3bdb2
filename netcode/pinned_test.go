package netcode

import (
	"net"
	"testing"
	"time"

	"volley/internal/socket"
)

// A pinned socket can do what the one below can, and lets only its server's
// datagrams through, however it is read.
func TestPinnedKeepsFastPath(t *testing.T) {
	listen := func() *net.UDPConn {
		c, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	pc, server, stranger := listen(), listen(), listen()
	set, err := newSettings(nil)
	if err != nil {
		t.Fatal(err)
	}
	bare, err := newSocket(listen(), set)
	if err != nil {
		t.Fatal(err)
	}
	sock, pin, err := newPinned(pc, set)
	if err != nil {
		t.Fatal(err)
	}
	defer sock.Close()
	pin(server.LocalAddr().(*net.UDPAddr).AddrPort())
	if _, ok := sock.(socket.StatsSocket); !ok {
		t.Error("a pinned socket has no SocketStats")
	}
	_, want := bare.(socket.WakeSocket)
	fast, ok := sock.(socket.WakeSocket)
	if ok != want {
		t.Fatalf("a pinned socket can be read in turns: %v, the socket below: %v", ok, want)
	}
	if !ok {
		t.Skip("nor can the socket below")
	}
	stranger.WriteTo([]byte("stranger"), pc.LocalAddr())
	server.WriteTo([]byte("server"), pc.LocalAddr())
	fast.SetReadDeadline(time.Now().Add(10 * time.Second))
	var got []string
	for len(got) == 0 {
		err := fast.ServeOnce(func(ps []socket.Packet) {
			for _, p := range ps {
				got = append(got, string(p.Buf))
			}
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(got) != 1 || got[0] != "server" {
		t.Errorf("received %q, want what the server sent", got)
	}
}
