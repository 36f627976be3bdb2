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
	got1, want := sock.Features(), bare.Features()
	if (got1.Loop != nil) != (want.Loop != nil) || (got1.Steps != nil) != (want.Steps != nil) ||
		(got1.Notifier != nil) != (want.Notifier != nil) || (got1.Late != nil) != (want.Late != nil) {
		t.Fatalf("a pinned socket has %+v, the socket below %+v", got1, want)
	}
	fast := got1.Steps
	if fast == nil {
		t.Skip("nor can the socket below")
	}
	stranger.WriteTo([]byte("stranger"), pc.LocalAddr())
	server.WriteTo([]byte("server"), pc.LocalAddr())
	fast.SetReadDeadline(time.Now().Add(10 * time.Second))
	var got []string
	for len(got) == 0 {
		err := fast.ReadStep(func(ps []socket.Packet) {
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
