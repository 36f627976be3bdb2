package main

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"volley/internal/netnstest"
	"volley/internal/testenv"
)

// namespaces are a network of bridges in the kernel: each node has a namespace with two
// interfaces, one for clients and one for other nodes. The clients are in the test's namespace.
type namespaces struct {
	t  *testing.T
	at [size]*netnstest.Namespace
}

func newNamespaces(t *testing.T) *namespaces {
	t.Helper()
	n := &namespaces{t: t}
	netnstest.Do(t, "ip link set lo up", "ip link add outside type bridge", "ip link set outside up",
		"ip link add inside type bridge", "ip link set inside up", "ip addr add 10.7.0.254/24 dev outside")
	for i := range n.at {
		n.at[i] = netnstest.New(t)
		n.at[i].Do(t, "ip link set lo up")
		for bridge, network := range map[string]string{"outside": "10.7.0", "inside": "10.8.0"} {
			port := fmt.Sprint(bridge, i)
			netnstest.Do(t, fmt.Sprintf("ip link add %s type veth peer name %s-end", port, port), fmt.Sprintf("ip link set %s-end netns %d", port, n.at[i].ID),
				fmt.Sprintf("ip link set %s master %s", port, bridge), fmt.Sprintf("ip link set %s up", port))
			n.at[i].Do(t, fmt.Sprintf("ip addr add %s.%d/24 dev %s-end", network, i+1, port), fmt.Sprintf("ip link set %s-end up", port))
		}
	}
	return n
}

func (n *namespaces) place(node int) (listen, cluster string, err error) {
	return fmt.Sprintf("10.7.0.%d:7777", node+1), clusterOf(node), nil
}

func clusterOf(node int) string { return fmt.Sprintf("10.8.0.%d:6222", node+1) }

func (n *namespaces) routes(node int) (others []string, advertise string) {
	for i := range n.at {
		if i != node {
			others = append(others, clusterOf(i))
		}
	}
	return others, ""
}

func (n *namespaces) start(node int, f func() error) (err error) {
	n.at[node].Run(func() { err = f() })
	return err
}

// cut takes the cable of a node out of the bridge between nodes: what is sent gets lost.
func (n *namespaces) cut(node int, is bool) error {
	cable := []string{"link", "set", fmt.Sprint("inside", node), "nomaster"}
	if !is {
		cable = append(cable[:3], "master", "inside")
	}
	if out, err := exec.Command("ip", cable...).CombinedOutput(); err != nil {
		return fmt.Errorf("ip %s: %w: %s", strings.Join(cable, " "), err, out)
	}
	return nil
}

func (n *namespaces) close() {}

// A partition passes where the kernel drops what nodes tell each other, too.
func TestPartitionOfNamespaces(t *testing.T) {
	if !netnstest.Inside(t, "ip", "nsenter") {
		return
	}
	s := small(sizes{slack: 20})
	if testenv.Sized(0, 1) == 1 {
		s = sizes{clients: 1000, rate: 10, partition: 30 * time.Second, slack: 1}
	}
	table := new(table)
	if err := partitionIn(table, s, newNamespaces(t)); err != nil {
		t.Fatal(err)
	}
	check(t, table)
}
