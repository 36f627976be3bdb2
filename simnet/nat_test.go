package simnet

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// These are the addresses of a network with a NAT.
const (
	natServer = "10.0.0.1:7777"
	natPublic = "203.0.113.1"
	natInside = "192.168.1.0/24"
)

// newNAT returns a network with a NAT, and a server outside.
func newNAT(t *testing.T, idle time.Duration) (*Network, *NAT, *Conn) {
	t.Helper()
	n := New(1)
	t.Cleanup(func() { n.Close() })
	n.SetDefault(Link{Latency: 10 * ms})
	nat, err := n.AddNAT(addr(natPublic), prefix(natInside), idle)
	require.NoError(t, err)
	return n, nat, listen(t, n, natServer)
}

// hear requires that a datagram arrives at a socket, and returns from where.
func hear(t *testing.T, c *Conn, want string) netip.AddrPort {
	t.Helper()
	buf := make([]byte, 100)
	c.SetReadDeadline(time.Now().Add(time.Second))
	k, from, err := c.ReadFromUDPAddrPort(buf)
	require.NoError(t, err)
	require.Equal(t, want, string(buf[:k]))
	return from
}

// quiet requires that nothing arrives at a socket.
func quiet(t *testing.T, c *Conn) {
	t.Helper()
	c.SetReadDeadline(time.Now().Add(time.Second))
	k, from, err := c.ReadFromUDPAddrPort(make([]byte, 100))
	require.ErrorIs(t, err, os.ErrDeadlineExceeded, "%d bytes from %v", k, from)
}

// held returns how many mappings and flows a NAT holds.
func held(t *NAT) [2]int {
	t.net.mu.Lock()
	defer t.net.mu.Unlock()
	return [2]int{len(t.mapped), len(t.flows)}
}

// say sends a datagram.
func say(t *testing.T, c *Conn, text string, to netip.AddrPort) {
	t.Helper()
	_, err := c.WriteToUDPAddrPort([]byte(text), to)
	require.NoError(t, err)
}

// Two clients behind a NAT have a port each. Answers find the right one.
func TestNATTranslates(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n, nat, server := newNAT(t, 0)
		a, b := listen(t, n, "192.168.1.2:5555"), listen(t, n, "192.168.1.3:5555")
		connected, err := n.Dial("192.168.1.2:0", natServer)
		require.NoError(t, err)
		seen := make(map[netip.AddrPort]bool)
		for i, c := range []*Conn{a, b, connected} {
			text := fmt.Sprint(i)
			if c == connected {
				c.Write([]byte(text))
			} else {
				say(t, c, text, addrPort(natServer))
			}
			from := hear(t, server, text)
			require.Equal(t, addr(natPublic), from.Addr())
			require.NotEqual(t, uint16(5555), from.Port())
			require.False(t, seen[from], "two sockets have the port %v", from)
			seen[from] = true
			say(t, server, "to "+text, from)
			require.Equal(t, addrPort(natServer), hear(t, c, "to "+text))
		}
		for _, c := range []*Conn{a, b, connected} {
			quiet(t, c)
		}
		require.Equal(t, "192.168.1.2:5555", a.LocalAddr().String())
		require.Equal(t, [2]int{3, 6}, held(nat))
		connected.Close()
		require.Equal(t, [2]int{2, 4}, held(nat), "the flows of others are forgotten, or the socket's own are not")
		checkSum(t, n.Stats())
	})
}

// A socket has the same port towards all hosts. A host that it has not sent to can't use it; one
// that it has sent to can from any of its ports.
func TestNATFilters(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n, _, server := newNAT(t, 0)
		sibling, stranger := listen(t, n, "10.0.0.1:8888"), listen(t, n, "10.0.0.2:7777")
		client := listen(t, n, "192.168.1.2:5555")
		say(t, client, "a", addrPort(natServer))
		public := hear(t, server, "a")

		say(t, stranger, "no", public)
		quiet(t, client)
		say(t, sibling, "yes", public)
		require.Equal(t, addrPort("10.0.0.1:8888"), hear(t, client, "yes"))
		say(t, client, "b", addrPort("10.0.0.2:7777"))
		require.Equal(t, public, hear(t, stranger, "b"), "the mapping depends on the destination")
		say(t, stranger, "now", public)
		hear(t, client, "now")

		say(t, server, "no", netip.AddrPortFrom(public.Addr(), public.Port()+1)) // no mapping
		say(t, server, "no", addrPort("192.168.1.2:5555"))                       // not an address of the outside
		quiet(t, client)
		require.EqualValues(t, 3, n.Stats().Unreachable)
		checkSum(t, n.Stats())
	})
}

// Hosts inside reach each other by their own addresses, and not by the public one.
func TestNATHasNoHairpin(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n, _, server := newNAT(t, 0)
		a, b := listen(t, n, "192.168.1.2:1"), listen(t, n, "192.168.1.3:1")
		var public [2]netip.AddrPort
		for i, c := range []*Conn{a, b} {
			say(t, c, "x", addrPort(natServer))
			public[i] = hear(t, server, "x")
		}
		say(t, b, "hairpin", public[0])
		say(t, a, "hairpin", public[1])
		say(t, b, "hairpin", public[0]) // although a has sent to that host now
		quiet(t, a)
		quiet(t, b)
		say(t, b, "direct", addrPort("192.168.1.2:1"))
		require.Equal(t, addrPort("192.168.1.3:1"), hear(t, a, "direct"))
	})
}

// Behind two NATs, each of two clients has to send first. Then they hear each other.
func TestNATPunch(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n, _, server := newNAT(t, 0)
		_, err := n.AddNAT(addr("203.0.113.2"), prefix("192.168.2.0/24"), 0)
		require.NoError(t, err)
		a, b := listen(t, n, "192.168.1.2:1"), listen(t, n, "192.168.2.2:1")
		say(t, a, "a", addrPort(natServer))
		publicA := hear(t, server, "a")
		say(t, b, "b", addrPort(natServer))
		publicB := hear(t, server, "b")
		require.Equal(t, addr("203.0.113.2"), publicB.Addr())
		say(t, a, "too early", publicB)
		quiet(t, b)
		say(t, b, "hello", publicA)
		require.Equal(t, publicB, hear(t, a, "hello"))
		say(t, a, "hello", publicB)
		require.Equal(t, publicA, hear(t, b, "hello"))
		say(t, a, "private", addrPort("192.168.2.2:1"))
		quiet(t, b)
	})
}

// After a rebind the old ports are dead, also for what is under way to them. What is under way
// from them arrives. Each socket gets another port when it next sends.
func TestNATRebind(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n, nat, server := newNAT(t, 0)
		clients := []*Conn{listen(t, n, "192.168.1.2:1"), listen(t, n, "192.168.1.3:1")}
		var old [2]netip.AddrPort
		for round := range 100 {
			for i, c := range clients {
				say(t, c, "x", addrPort(natServer))
				from := hear(t, server, "x")
				require.NotEqual(t, old[i], from, "round %d", round)
				old[i] = from
				say(t, server, "y", from)
				hear(t, c, "y")
			}
			say(t, server, "under way", old[0])
			say(t, clients[0], "under way", addrPort(natServer))
			nat.Rebind()
			hear(t, server, "under way")
			say(t, server, "too late", old[1])
			quiet(t, clients[0])
			quiet(t, clients[1])
		}
		require.EqualValues(t, 200, n.Stats().Unreachable)
		checkSum(t, n.Stats())
	})
}

// A mapping ends when nothing has passed for the idle time, and lives on by what passes either way.
func TestNATIdle(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n, nat, server := newNAT(t, 30*time.Second)
		client := listen(t, n, "192.168.1.2:1")
		say(t, client, "x", addrPort(natServer))
		first := hear(t, server, "x")
		for _, from := range []*Conn{client, server, client, server} {
			time.Sleep(30*time.Second - 21*ms)
			if from == client {
				say(t, client, "x", addrPort(natServer))
				require.Equal(t, first, hear(t, server, "x"))
			} else {
				say(t, server, "x", first)
				hear(t, client, "x")
			}
		}
		stranger := listen(t, n, "10.0.0.9:1")
		time.Sleep(20 * time.Second)
		say(t, stranger, "x", first) // is dropped, and so keeps nothing alive
		time.Sleep(10*time.Second - 10*ms)
		say(t, server, "x", first)
		quiet(t, client)
		require.Equal(t, [2]int{0, 0}, held(nat))

		say(t, client, "x", addrPort(natServer))
		second := hear(t, server, "x")
		require.NotEqual(t, first, second)
		time.Sleep(30*time.Second - 10*ms)
		say(t, client, "x", addrPort(natServer))
		third := hear(t, server, "x")
		require.NotEqual(t, second, third)
		say(t, server, "x", second)
		quiet(t, client)
		say(t, server, "x", third)
		hear(t, client, "x")
	})
}

// The ports and the fates of datagrams follow from the seed, whichever socket sends first.
func TestNATSeed(t *testing.T) {
	run := func(t *testing.T, seed uint64, backwards bool) (log []string) {
		n := New(seed)
		defer n.Close()
		n.SetDefault(Link{Loss: 0.5})
		nat, err := n.AddNAT(addr(natPublic), prefix(natInside), 0)
		require.NoError(t, err)
		server := listen(t, n, natServer)
		var clients []*Conn
		for i := range 8 {
			clients = append(clients, listen(t, n, fmt.Sprintf("192.168.1.%d:1", 2+i)))
		}
		if backwards {
			slices.Reverse(clients)
		}
		for range 4 {
			for _, c := range clients {
				for k := range 8 {
					say(t, c, fmt.Sprint(c.LocalAddr(), k), addrPort(natServer))
				}
			}
			nat.Rebind()
		}
		buf := make([]byte, 100)
		for range n.Stats().Delivered {
			k, from, _ := server.ReadFromUDPAddrPort(buf)
			log = append(log, fmt.Sprintf("%v %s", from, buf[:k]))
		}
		slices.Sort(log)
		return log
	}
	bubble(t, func(t *testing.T) {
		require.Equal(t, run(t, 1, false), run(t, 1, true))
		require.NotEqual(t, run(t, 1, false), run(t, 2, false))
	})
}

// A socket that follows another one at the same address has the same port outside, and
// random numbers of its own in both directions.
func TestNATFollowingSocketHasOtherFates(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n, _, server := newNAT(t, 0)
		n.SetDefault(Link{Loss: 0.5})
		var public string
		var seen []string
		for range 3 {
			client := listen(t, n, "192.168.1.2:1")
			arrived := ""
			for range 64 {
				before := n.Stats().Delivered
				say(t, client, "x", addrPort(natServer))
				if n.Stats().Delivered == before {
					arrived += "-"
					continue
				}
				arrived += "x"
				from := hear(t, server, "x")
				require.True(t, public == "" || public == from.String())
				public = from.String()
				before = n.Stats().Delivered
				say(t, server, "y", from)
				if n.Stats().Delivered > before {
					hear(t, client, "y")
					arrived += "y"
				}
			}
			require.NotContains(t, seen, arrived)
			seen = append(seen, arrived)
			client.Close()
		}
	})
}

// Rebinds and sockets that come and go leave nothing in the network, and counts stay.
func TestNATLeavesNothingBehind(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n, nat, server := newNAT(t, 0)
		other, err := n.AddNAT(addr("203.0.113.2"), prefix("192.168.2.0/24"), 0)
		require.NoError(t, err)
		peer, client := listen(t, n, "192.168.2.2:1"), listen(t, n, "192.168.1.2:1")
		say(t, peer, "x", addrPort(natServer))
		public := hear(t, server, "x")
		const rounds = 3000
		for range rounds {
			fresh, err := n.Listen("192.168.1.3:0")
			require.NoError(t, err)
			say(t, fresh, "x", addrPort(natServer))
			say(t, server, "y", hear(t, server, "x"))
			say(t, client, "x", addrPort(natServer))
			old := hear(t, server, "x")
			say(t, client, "x", public) // a flow between two NATs
			say(t, server, "y", old)
			hear(t, fresh, "y")
			hear(t, client, "y")
			fresh.Close()
			nat.Rebind()
			say(t, server, "too late", old)
		}
		nat.Rebind()
		quiet(t, client)
		nat.Rebind()
		require.Equal(t, [2]int{0, 0}, held(nat))
		require.Equal(t, [2]int{1, 1}, held(other))
		n.mu.Lock()
		defer n.mu.Unlock()
		require.Len(t, n.flows, 1)
		require.Len(t, n.ends, 3)
		require.LessOrEqual(t, len(n.past)+len(n.links), 12)
	})
}

// A rebind keeps the counts of the links.
func TestNATStats(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n, nat, server := newNAT(t, 0)
		client := listen(t, n, "192.168.1.2:1")
		for i := range 10 {
			say(t, client, "x", addrPort(natServer))
			say(t, server, "y", hear(t, server, "x"))
			nat.Rebind()
			quiet(t, client)
			require.EqualValues(t, i+1, n.LinkStats(addr(natPublic), addr("10.0.0.1")).Delivered)
			require.EqualValues(t, i+1, n.LinkStats(addr("10.0.0.1"), addr(natPublic)).Unreachable)
			require.Zero(t, n.LinkStats(addr("192.168.1.2"), addr("10.0.0.1")))
		}
		checkSum(t, n.Stats())
	})
}

// The link to the outside is that of the NAT: its clients share the queue, and pay one latency.
func TestNATLink(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n, _, server := newNAT(t, 0)
		n.SetLink(addr(natPublic), addr("10.0.0.1"), Link{Latency: 50 * ms, Bandwidth: 8 * 1000, MTU: 500})
		a, b := listen(t, n, "192.168.1.2:1"), listen(t, n, "192.168.1.3:1")
		start := time.Now()
		for _, c := range []*Conn{a, b} {
			_, err := c.WriteToUDPAddrPort(make([]byte, 72), addrPort(natServer)) // 100 bytes: 100 ms
			require.NoError(t, err)
		}
		for _, want := range []time.Duration{150 * ms, 250 * ms} {
			_, err := server.Read(make([]byte, 100))
			require.NoError(t, err)
			require.Equal(t, want, time.Since(start))
		}
	})
}

// A NAT whose public address is down passes nothing, and its mappings survive that.
func TestNATDown(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n, _, server := newNAT(t, 0)
		client := listen(t, n, "192.168.1.2:1")
		say(t, client, "x", addrPort(natServer))
		public := hear(t, server, "x")
		n.SetDown(public.Addr(), true)
		say(t, client, "no", addrPort(natServer))
		say(t, server, "no", public)
		quiet(t, client)
		quiet(t, server)
		require.EqualValues(t, 2, n.Stats().Unreachable)
		n.SetDown(public.Addr(), false)
		say(t, client, "x", addrPort(natServer))
		require.Equal(t, public, hear(t, server, "x"))
		checkSum(t, n.Stats())
	})
}

// When all ports are taken, a further socket inside is not heard, until another one closes.
func TestNATWithoutPorts(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n, nat, server := newNAT(t, 0)
		const free = 40000
		for port := firstNATPort; port < 1<<16; port++ {
			nat.mapped[uint16(port)] = &endpoint{}
		}
		delete(nat.mapped, free)
		first, last := listen(t, n, "192.168.1.2:1"), listen(t, n, "192.168.1.3:1")
		say(t, first, "x", addrPort(natServer))
		require.EqualValues(t, free, hear(t, server, "x").Port())
		say(t, last, "no", addrPort(natServer))
		quiet(t, server)
		require.EqualValues(t, 1, n.Stats().Unreachable)
		checkSum(t, n.Stats())
		first.Close()
		say(t, last, "yes", addrPort(natServer))
		require.EqualValues(t, free, hear(t, server, "yes").Port())
	})
}

func TestAddNATErrors(t *testing.T) {
	n, _, _ := newNAT(t, 0)
	listen(t, n, "192.168.9.1:1")
	for name, test := range map[string]struct{ public, inside string }{
		"two families":              {"203.0.113.9", "2001:db8::/64"},
		"public address inside":     {"192.168.2.1", "192.168.2.0/24"},
		"same public address":       {natPublic, "192.168.2.0/24"},
		"overlap":                   {"203.0.113.9", "192.168.0.0/16"},
		"nested":                    {"192.168.1.9", "192.168.2.0/24"},
		"around another":            {"203.0.114.9", "203.0.113.0/24"},
		"unspecified":               {"0.0.0.0", "192.168.2.0/24"},
		"a socket inside":           {"203.0.113.9", "192.168.9.0/24"},
		"a socket at the public IP": {"10.0.0.1", "192.168.2.0/24"},
	} {
		nat, err := n.AddNAT(addr(test.public), prefix(test.inside), 0)
		require.Error(t, err, name)
		require.Nil(t, nat, name)
	}
	for _, zero := range []func() (*NAT, error){
		func() (*NAT, error) { return n.AddNAT(netip.Addr{}, prefix("192.168.2.0/24"), 0) },
		func() (*NAT, error) { return n.AddNAT(addr("203.0.113.9"), netip.Prefix{}, 0) },
	} {
		_, err := zero()
		require.Error(t, err)
	}
	for _, at := range []string{natPublic + ":1", natPublic + ":0"} {
		_, err := n.Listen(at)
		require.ErrorIs(t, err, syscall.EADDRINUSE)
	}
	_, err := n.AddNAT(addr("::ffff:203.0.113.2"), prefix("192.168.2.7/24"), -1)
	require.NoError(t, err)
	n.Close()
	_, err = n.AddNAT(addr("203.0.113.3"), prefix("192.168.3.0/24"), 0)
	require.ErrorIs(t, err, net.ErrClosed)
}

// An unbound socket sends from the first address that is up, and receives at all that are.
func TestListenAny(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := New(1)
		defer n.Close()
		n.SetDefault(Link{Latency: 10 * ms})
		wifi, mobile, six := addr("10.1.0.2"), addr("10.2.0.2"), addr("2001:db8::2")
		server, server6 := listen(t, n, natServer), listen(t, n, "[2001:db8::1]:7777")
		taken := listen(t, n, "10.2.0.2:5555")
		_, err := n.ListenAny(5555, wifi, mobile, six)
		require.ErrorIs(t, err, syscall.EADDRINUSE)
		taken.Close()
		phone, err := n.ListenAny(5555, wifi, mobile, six)
		require.NoError(t, err)
		require.Equal(t, "[::]:5555", phone.LocalAddr().String())
		ask := func(from netip.Addr) {
			t.Helper()
			say(t, phone, "x", addrPort(natServer))
			require.Equal(t, netip.AddrPortFrom(from, 5555), hear(t, server, "x"))
		}
		ask(wifi)
		say(t, phone, "x", addrPort("[2001:db8::1]:7777"))
		require.Equal(t, netip.AddrPortFrom(six, 5555), hear(t, server6, "x"))
		for _, a := range []netip.Addr{wifi, mobile} {
			say(t, server, "y", netip.AddrPortFrom(a, 5555))
			hear(t, phone, "y")
		}

		say(t, server, "under way", netip.AddrPortFrom(wifi, 5555))
		say(t, phone, "under way", addrPort(natServer))
		n.SetDown(netip.AddrFrom16(wifi.As16()), true)
		hear(t, server, "under way")
		quiet(t, phone)
		ask(mobile)
		n.SetDown(mobile, true)
		_, err = phone.WriteTo([]byte("x"), server.LocalAddr())
		require.ErrorIs(t, err, syscall.ENETUNREACH)
		n.SetDown(wifi, false)
		ask(wifi)
		n.SetDown(mobile, false)
		ask(wifi)
		require.EqualValues(t, 1, n.Stats().Unreachable)

		phone.Close()
		listen(t, n, "10.2.0.2:5555")
		_, err = n.ListenAny(0)
		require.Error(t, err)
		again, err := n.ListenAny(0, wifi, mobile)
		require.NoError(t, err)
		require.GreaterOrEqual(t, again.LocalAddr().(*net.UDPAddr).Port, firstPort)
		n.Close()
		_, err = n.ListenAny(0, wifi)
		require.ErrorIs(t, err, net.ErrClosed)
	})
}

// A socket at an address that is down can't send, and goes on when the address is back.
func TestSetDown(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := New(1)
		defer n.Close()
		a, b := listen(t, n, "10.0.0.1:1"), listen(t, n, "10.0.0.2:1")
		n.SetDown(addr("10.0.0.1"), true)
		_, err := a.WriteTo([]byte("x"), b.LocalAddr())
		var oe *net.OpError
		require.ErrorAs(t, err, &oe)
		require.ErrorIs(t, err, syscall.ENETUNREACH)
		say(t, b, "no", addrPort("10.0.0.1:1"))
		quiet(t, a)
		n.SetDown(addr("10.0.0.1"), false)
		say(t, b, "yes", addrPort("10.0.0.1:1"))
		require.Equal(t, addrPort("10.0.0.2:1"), hear(t, a, "yes"))
	})
}

// Wi-Fi behind one NAT and mobile data behind another: the server sees the phone at either.
func TestListenAnyBehindNAT(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n, home, server := newNAT(t, 0)
		_, err := n.AddNAT(addr("203.0.113.2"), prefix("100.64.0.0/10"), 0)
		require.NoError(t, err)
		wifi, mobile := addr("192.168.1.2"), addr("100.64.0.2")
		phone, err := n.ListenAny(0, wifi, mobile)
		require.NoError(t, err)
		ask := func() netip.AddrPort {
			t.Helper()
			say(t, phone, "x", addrPort(natServer))
			from := hear(t, server, "x")
			say(t, server, "y", from)
			hear(t, phone, "y")
			return from
		}
		first := ask()
		n.SetDown(wifi, true)
		require.Equal(t, addr("203.0.113.2"), ask().Addr())
		say(t, server, "no", first)
		quiet(t, phone)
		n.SetDown(wifi, false)
		require.Equal(t, first, ask())
		home.Rebind()
		require.NotEqual(t, first, ask())
		phone.Close()
		require.Zero(t, held(home)[0])
	})
}

// A NAT is used by several goroutines while it rebinds.
func TestNATConcurrentUse(t *testing.T) {
	n, nat, server := newNAT(t, time.Millisecond)
	n.SetDefault(Link{Latency: 100 * time.Microsecond})
	var wg sync.WaitGroup
	go func() {
		buf := make([]byte, 100)
		for {
			k, from, err := server.ReadFromUDPAddrPort(buf)
			if err != nil {
				return
			}
			server.WriteToUDPAddrPort(buf[:k], from)
		}
	}()
	for i := range 4 {
		wg.Go(func() {
			for range 50 {
				c, err := n.ListenAny(0, addr(fmt.Sprintf("192.168.1.%d", 2+i)), addr(fmt.Sprintf("10.3.0.%d", 2+i)))
				if err != nil {
					t.Error(err)
					return
				}
				for range 10 {
					c.WriteToUDPAddrPort([]byte("x"), addrPort(natServer))
				}
				c.Close()
			}
		})
	}
	wg.Go(func() {
		for k := range 500 {
			nat.Rebind()
			n.SetDown(addr("192.168.1.2"), k%2 == 0)
		}
	})
	wg.Wait()
	n.Close()
	require.Zero(t, held(nat)[0])
}
