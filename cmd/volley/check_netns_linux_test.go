package main

import (
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"volley/internal/netnstest"
)

// A namespace is a network namespace of its own, that of a thread which waits.
type namespace struct {
	t    *testing.T
	id   int // of the thread
	file *os.File
}

func newNamespace(t *testing.T) *namespace {
	t.Helper()
	type made struct {
		id   int
		file *os.File
		err  error
	}
	ready, stop := make(chan made), make(chan bool)
	go func() {
		runtime.LockOSThread() // for good: the thread is of no more use
		m := made{id: unix.Gettid(), err: unix.Unshare(unix.CLONE_NEWNET)}
		if m.err == nil {
			m.file, m.err = os.Open("/proc/thread-self/ns/net")
		}
		ready <- m
		<-stop
	}()
	t.Cleanup(func() { close(stop) })
	m := <-ready
	require.NoError(t, m.err)
	t.Cleanup(func() { m.file.Close() })
	return &namespace{t: t, id: m.id, file: m.file}
}

// do calls f in the namespace: what it starts runs there.
func (n *namespace) do(f func()) {
	n.t.Helper()
	here, err := os.Open("/proc/thread-self/ns/net")
	require.NoError(n.t, err)
	defer here.Close()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	require.NoError(n.t, unix.Setns(int(n.file.Fd()), unix.CLONE_NEWNET))
	defer func() { require.NoError(n.t, unix.Setns(int(here.Fd()), unix.CLONE_NEWNET)) }()
	f()
}

// ip runs commands there.
func (n *namespace) ip(commands ...string) {
	n.t.Helper()
	n.do(func() { netnstest.Do(n.t, commands...) })
}

// checkAcross runs check here against serve behind a router, and returns what
// it has found. Prepare may change the router, and the server.
func checkAcross(t *testing.T, target, timeout string, prepare func(router, server *namespace)) (checkReport, outcome) {
	t.Helper()
	router, server := newNamespace(t), newNamespace(t)
	netnstest.Do(t, "ip link set lo up", "ip link add c0 type veth peer name r0", "ip link add s0 type veth peer name r1",
		fmt.Sprint("ip link set r0 netns ", router.id), fmt.Sprint("ip link set r1 netns ", router.id),
		fmt.Sprint("ip link set s0 netns ", server.id),
		"ip addr add 10.0.1.1/24 dev c0", "ip link set c0 up", "ip route add default via 10.0.1.254")
	router.ip("ip link set lo up", "ip addr add 10.0.1.254/24 dev r0", "ip addr add 10.0.2.254/24 dev r1", "ip link set r0 up", "ip link set r1 up")
	server.ip("ip link set lo up", "ip addr add 10.0.2.1/24 dev s0", "ip link set s0 up", "ip route add default via 10.0.2.254")
	router.do(func() {
		if err := os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0); err != nil {
			t.Skip("NOT RUN: ", err) // such as in a container whose /proc cannot be written
		}
	})
	prepare(router, server)
	server.do(func() { start(t, "serve", "10.0.2.1:7777").line("listening on ") })
	o := program(t, "check", "--json", "--timeout", timeout, target)
	var r checkReport
	require.NoError(t, json.Unmarshal([]byte(o.stdout), &r), o.stdout+o.stderr)
	return r, o
}

// found returns the finding about a topic.
func (r *checkReport) found(topic string) finding {
	for _, f := range r.Findings {
		if f.Topic == topic {
			return f
		}
	}
	return finding{}
}

func TestCheckWorking(t *testing.T) {
	if !netnstest.Inside(t, "ip") {
		return
	}
	r, o := checkAcross(t, "10.0.2.1:7777", "20s", func(router, server *namespace) {})
	require.Equal(t, exitOK, o.status, o.stdout)
	require.Equal(t, "working", r.Verdict)
	require.Equal(t, stateOK, r.found("large messages").State)
	require.Equal(t, "none", r.NAT)
	require.Contains(t, r.SeenAs, "10.0.1.1:")
	require.Equal(t, stateOK, r.found("clock").State)
}

// TestCheckBlocked: the router drops everything, without a word.
func TestCheckBlocked(t *testing.T) {
	if !netnstest.Inside(t, "ip") {
		return
	}
	r, o := checkAcross(t, "10.0.2.1:7777", "1s", func(router, server *namespace) {
		router.ip("ip route add blackhole 10.0.2.1/32")
	})
	require.Equal(t, exitNegative, o.status, o.stdout)
	require.Equal(t, "unreachable", r.Verdict)
	require.Equal(t, stateWrong, r.found("reachable").State)
	require.Contains(t, r.found("reachable").Text, "nothing came back from 10.0.2.1:7777")
	require.Contains(t, r.found("reachable").Advice, "firewalls")
}

// TestCheckLarge: packets of large messages are dropped without a word.
func TestCheckLarge(t *testing.T) {
	if !netnstest.Inside(t, "ip") {
		return
	}
	r, o := checkAcross(t, "10.0.1.254:7777", "20s", func(router, server *namespace) {
		router.do(func() {
			start(t, "proxy", "--listen", "10.0.1.254:7777", "--to", "10.0.2.1:7777", "--mtu", "1200").line("->")
		})
	})
	require.Equal(t, exitNegative, o.status, o.stdout)
	require.Equal(t, "wrong", r.Verdict)
	require.Equal(t, stateOK, r.found("reachable").State)
	require.Contains(t, r.found("large messages").Advice, "Config.FragmentAbove")
	require.Equal(t, "some", r.NAT)
	require.Contains(t, r.SeenAs, "10.0.2.254:")
}
