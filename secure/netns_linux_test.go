package secure

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"volley/internal/netnstest"
)

// talk requires a message each way in a new session.
func talk(t *testing.T, l *Listener, url string) (client, server *Conn) {
	t.Helper()
	client, err := Dial(t.Context(), url)
	require.NoError(t, err)
	t.Cleanup(func() { client.Close() })
	server, err = l.AcceptConn(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { server.Close() })
	for _, c := range [][2]*Conn{{client, server}, {server, client}} {
		_, err := c[0].Write([]byte("hello"))
		require.NoError(t, err)
		c[1].SetReadDeadline(time.Now().Add(10 * time.Second))
		b, err := c[1].ReadMessage(t.Context(), nil)
		require.NoError(t, err)
		require.Equal(t, "hello", string(b))
	}
	return client, server
}

// Where there is only IPv6, a session needs nothing else; and a URL of IPv4 says why not.
func TestIPv6Only(t *testing.T) {
	if !netnstest.Inside(t, "ip") {
		return
	}
	netnstest.Do(t, "ip link set lo up", "ip -6 addr add 2001:db8::1/128 dev lo")
	l, err := Listen("udp", ":0", nil)
	require.NoError(t, err)
	defer l.Close()
	client, _ := talk(t, l, l.URL("2001:db8::1"))
	require.Equal(t, "2001:db8::1", client.RemoteAddr().(*net.UDPAddr).IP.String())
	require.True(t, strings.HasPrefix(l.URL("2001:db8::1"), "volley://[2001:db8::1]:"))
	_, err = Dial(t.Context(), l.URL("192.0.2.1"))
	var de *DialError
	require.ErrorAs(t, err, &de)
	require.Equal(t, "tcp", de.Step)
	require.ErrorContains(t, err, "network is unreachable")
}

// behindNAT starts a server behind a router that translates addresses, by rules of nftables. The
// client is on the other side, where the router is 203.0.113.254, and does not know the server,
// 192.0.2.1. It returns the pins of the server.
func behindNAT(t *testing.T, lc *ListenConfig, rules ...string) (*Listener, string) {
	router, server := netnstest.New(t), netnstest.New(t)
	netnstest.Do(t, "ip link set lo up", "ip link add c0 type veth peer name r0", "ip link add s0 type veth peer name r1",
		fmt.Sprint("ip link set r0 netns ", router.ID), fmt.Sprint("ip link set r1 netns ", router.ID),
		fmt.Sprint("ip link set s0 netns ", server.ID),
		"ip addr add 203.0.113.1/24 dev c0", "ip link set c0 up")
	router.Do(t, "ip addr add 203.0.113.254/24 dev r0", "ip addr add 192.0.2.254/24 dev r1", "ip link set r0 up", "ip link set r1 up",
		"nft add table ip nat", "nft add chain ip nat in { type nat hook prerouting priority -100; }",
		"nft add chain ip nat out { type nat hook postrouting priority 100; }", "nft add rule ip nat out oif r1 masquerade")
	for _, r := range rules {
		router.Do(t, "nft add rule ip nat in "+r)
	}
	server.Do(t, "ip link set lo up", "ip addr add 192.0.2.1/24 dev s0", "ip link set s0 up")
	var err error
	router.Run(func() { err = os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0) })
	if err != nil { // such as in a container whose /proc cannot be written
		t.Skip("NOT RUN: ", err)
	}
	var l *Listener
	server.Run(func() { l, err = lc.Listen(t.Context(), "udp4", ":7777") })
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	_, pins, _ := strings.Cut(l.URL("x"), "#")
	return l, pins
}

// Behind NAT with mapped ports the server knows neither its address nor its port. The client
// uses those that it has dialed.
func TestMappedPorts(t *testing.T) {
	if !netnstest.Inside(t, "ip", "nft") {
		return
	}
	l, pins := behindNAT(t, &ListenConfig{}, "tcp dport 8000 dnat to 192.0.2.1:7777", "udp dport 8000 dnat to 192.0.2.1:7777")
	client, server := talk(t, l, "volley://203.0.113.254:8000#"+pins)
	require.Equal(t, "203.0.113.254:8000", client.RemoteAddr().String())
	require.Equal(t, "192.0.2.254", server.RemoteAddr().(*net.UDPAddr).IP.String(), "the server knows the router alone")
}

// A server behind a router that maps UDP to another port than TCP has Public.
func TestPortsMappedApart(t *testing.T) {
	if !netnstest.Inside(t, "ip", "nft") {
		return
	}
	public := netip.MustParseAddrPort("203.0.113.254:9000")
	l, pins := behindNAT(t, &ListenConfig{Public: public}, "tcp dport 8000 dnat to 192.0.2.1:7777", "udp dport 9000 dnat to 192.0.2.1:7777")
	client, _ := talk(t, l, "volley://203.0.113.254:8000#"+pins)
	require.Equal(t, public.String(), client.RemoteAddr().String())
}

// The usual mistake: only TCP is mapped.
func TestUDPIsNotMapped(t *testing.T) {
	if !netnstest.Inside(t, "ip", "nft") {
		return
	}
	_, pins := behindNAT(t, &ListenConfig{}, "tcp dport 8000 dnat to 192.0.2.1:7777")
	_, err := Dial(t.Context(), "volley://203.0.113.254:8000#"+pins)
	var de *DialError
	require.ErrorAs(t, err, &de)
	require.Equal(t, "udp", de.Step)
	require.ErrorContains(t, err, "the server gives tokens by TCP, and UDP port 8000 does not answer; is UDP open in the firewall?")
}

// An address of a link needs its zone, which a token cannot say: the client takes that of its URL.
func TestLinkLocal(t *testing.T) {
	if !netnstest.Inside(t, "ip") {
		return
	}
	netnstest.Do(t, "ip link set lo up", "ip link add a0 type veth peer name a1", "ip link set a0 up", "ip link set a1 up",
		"ip -6 addr add fe80::1/64 dev a0 nodad")
	l, err := Listen("udp", "[fe80::1%a0]:0", nil)
	require.NoError(t, err)
	defer l.Close()
	client, _ := talk(t, l, l.URL("fe80::1%a0"))
	require.Equal(t, "a0", client.RemoteAddr().(*net.UDPAddr).Zone)
	everywhere, err := Listen("udp", ":0", nil)
	require.NoError(t, err)
	defer everywhere.Close()
	talk(t, everywhere, everywhere.URL("fe80::1%a0"))
}
