package secure

import (
	"fmt"
	"os"
	"testing"

	"volley/internal/netnstest"
)

// These are the addresses of a testNAT.
const (
	natServer = "192.0.2.1"
	natWifi   = "192.168.1.2"
	natMobile = "192.168.2.2"
	// The server sees the client at these.
	natPublicWifi   = "192.0.2.254"
	natPublicMobile = "192.0.2.253"
)

// A testNAT stands between a client, which is the namespace of the test, and a server. The client has
// two interfaces, "wifi" and "mobile", and prefers the first. The router gives each of them a
// public address and each socket a random port, and passes nothing inward without a mapping.
type testNAT struct {
	server  *netnstest.Namespace
	router  *netnstest.Namespace
	rebinds int
}

// newTestNAT makes a testNAT. The test must run netnstest.Inside with the commands "ip", "nft" and "conntrack".
func newTestNAT(t *testing.T) *testNAT {
	t.Helper()
	n := &testNAT{server: netnstest.New(t), router: netnstest.New(t)}
	netnstest.Do(t, "ip link set lo up", "ip link add server type veth peer name outside",
		fmt.Sprint("ip link set server netns ", n.server.ID), fmt.Sprint("ip link set outside netns ", n.router.ID))
	n.server.Do(t, "ip link set lo up", "ip addr add "+natServer+"/24 dev server", "ip link set server up")
	n.router.Do(t, "ip addr add "+natPublicWifi+"/24 dev outside", "ip addr add "+natPublicMobile+"/24 dev outside", "ip link set outside up",
		"nft add table ip nat", "nft add chain ip nat out { type nat hook postrouting priority 100; }",
		"nft add chain ip nat in { type filter hook input priority 0; }", "nft add rule ip nat in iif outside drop",
		"nft add chain ip nat pass { type filter hook forward priority 0; }", "nft add rule ip nat pass iif outside ct state new drop",
		"nft add chain ip nat cut { type filter hook forward priority -1; }")
	for i, name := range []string{"wifi", "mobile"} {
		netnstest.Do(t, fmt.Sprintf("ip link add %s type veth peer name %s0", name, name), fmt.Sprintf("ip link set %s0 netns %d", name, n.router.ID))
		n.router.Do(t, fmt.Sprintf("ip addr add 192.168.%d.1/24 dev %s0", i+1, name), fmt.Sprintf("ip link set %s0 up", name))
		n.up(t, name)
	}
	n.rebind(t)
	var err error
	n.router.Run(func() { err = os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0) })
	if err != nil { // such as in a container whose /proc cannot be written
		t.Skip("NOT RUN: ", err)
	}
	return n
}

// rebind makes the router forget its mappings: the next datagram of each socket comes from another port.
func (n *testNAT) rebind(t *testing.T) {
	t.Helper()
	n.rebinds++
	first := 20000 + n.rebinds%2*20000 // so that no port is the same by chance
	rules := "nft flush chain ip nat out"
	for name, public := range map[string]string{"wifi0": natPublicWifi, "mobile0": natPublicMobile} {
		for _, protocol := range []string{"udp", "tcp"} {
			rules += fmt.Sprintf("; add rule ip nat out iif %s oif outside meta l4proto %s snat to %s:%d-%d random", name, protocol, public, first, first+19999)
		}
	}
	n.router.Do(t, rules, "conntrack -F")
}

// down takes an interface of the client away, with its address and its route. The other takes over, if it is up.
func (n *testNAT) down(t *testing.T, name string) {
	t.Helper()
	netnstest.Do(t, "ip link set "+name+" down", "ip addr flush dev "+name)
}

// up gives an interface back.
func (n *testNAT) up(t *testing.T, name string) {
	t.Helper()
	subnet := map[string]int{"wifi": 1, "mobile": 2}[name]
	netnstest.Do(t, fmt.Sprintf("ip addr add 192.168.%d.2/24 dev %s", subnet, name), "ip link set "+name+" up",
		fmt.Sprintf("ip route add default via 192.168.%d.1 metric %d", subnet, subnet))
}

// cut drops all of UDP between a port of the client and the server, both ways, without an error.
// Port 0 means all ports, until mend.
func (n *testNAT) cut(t *testing.T, port int) {
	t.Helper()
	if port == 0 {
		n.router.Do(t, "nft add rule ip nat cut meta l4proto udp drop")
		return
	}
	n.router.Do(t, fmt.Sprintf("nft add rule ip nat cut udp sport %d drop", port), fmt.Sprintf("nft add rule ip nat cut udp dport %d drop", port))
}

// mend ends all cuts.
func (n *testNAT) mend(t *testing.T) {
	t.Helper()
	n.router.Do(t, "nft flush chain ip nat cut")
}
