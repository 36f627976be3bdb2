package simnet_test

import (
	"fmt"
	"log"
	"net"
	"net/netip"
	"slices"
	"time"

	"volley/simnet"
)

// The same seed always loses the same datagrams.
func Example() {
	n := simnet.New(1)
	defer n.Close()
	n.SetDefault(simnet.Link{Loss: 0.3})

	server, err := n.Listen("10.0.0.1:7777")
	if err != nil {
		log.Fatal(err)
	}
	client, err := n.Dial("10.0.0.2:5555", "10.0.0.1:7777")
	if err != nil {
		log.Fatal(err)
	}
	for i := range 10 {
		fmt.Fprintf(client, "datagram %d", i)
	}

	// Without latency, all that is not lost has arrived when Write returns.
	buf := make([]byte, 100)
	for range n.Stats().Delivered {
		k, from, err := server.ReadFrom(buf)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s from %v\n", buf[:k], from)
	}
	s := n.Stats()
	fmt.Printf("%d sent, %d delivered, %d lost\n", s.Sent, s.Delivered, s.Lost)
	// Output:
	// datagram 0 from 10.0.0.2:5555
	// datagram 1 from 10.0.0.2:5555
	// datagram 4 from 10.0.0.2:5555
	// datagram 5 from 10.0.0.2:5555
	// datagram 6 from 10.0.0.2:5555
	// datagram 7 from 10.0.0.2:5555
	// datagram 8 from 10.0.0.2:5555
	// 10 sent, 7 delivered, 3 lost
}

func ExamplePair() {
	up := simnet.Link{Latency: 5 * time.Millisecond}
	down := simnet.Link{Latency: 10 * time.Millisecond, Duplicate: 1}
	client, server := simnet.Pair(1, up, down)
	defer client.Close()
	defer server.Close()

	buf := make([]byte, 100)
	client.Write([]byte("ping"))
	k, _ := server.Read(buf)
	fmt.Printf("server: %s\n", buf[:k])
	server.Write([]byte("pong"))
	for range 2 {
		k, _ = client.Read(buf)
		fmt.Printf("client: %s\n", buf[:k])
	}
	// Output:
	// server: ping
	// client: pong
	// client: pong
}

func ExampleNetwork_Play() {
	n := simnet.New(1)
	defer n.Close()
	script, err := simnet.ParseScript("0s blackout for 2s; 1h loss=40% for 2s")
	if err != nil {
		log.Fatal(err)
	}
	n.Play(script)

	a, b := mustListen(n, "10.0.0.1:1"), mustListen(n, "10.0.0.2:1")
	a.WriteTo([]byte("during the blackout"), b.LocalAddr())
	time.AfterFunc(2100*time.Millisecond, func() {
		a.WriteTo([]byte("after it"), b.LocalAddr())
	})
	buf := make([]byte, 100)
	k, _, _ := b.ReadFrom(buf)
	fmt.Printf("%s\n", buf[:k])
	// Output:
	// after it
}

// A server sees a client at another port once the NAT in front of it has forgotten its
// mapping. The old port is dead.
func ExampleNetwork_AddNAT() {
	n := simnet.New(1)
	defer n.Close()
	nat, err := n.AddNAT(netip.MustParseAddr("203.0.113.1"), netip.MustParsePrefix("192.168.1.0/24"), 0)
	if err != nil {
		log.Fatal(err)
	}
	server, client := mustListen(n, "10.0.0.1:7777"), mustListen(n, "192.168.1.2:5555")
	buf := make([]byte, 100)
	for _, text := range []string{"hello", "it's still me"} {
		client.WriteTo([]byte(text), server.LocalAddr())
		k, from, _ := server.ReadFrom(buf)
		fmt.Printf("%v: %s\n", from, buf[:k])
		nat.Rebind()
		server.WriteTo([]byte("hello, "+from.String()), from)
	}
	fmt.Printf("%d lost at the NAT\n", n.Stats().Unreachable)
	// Output:
	// 203.0.113.1:49701: hello
	// 203.0.113.1:26072: it's still me
	// 2 lost at the NAT
}

// A phone leaves its Wi-Fi and comes back.
func ExampleNetwork_SetDown() {
	n := simnet.New(1)
	defer n.Close()
	wifi, mobile := netip.MustParseAddr("10.1.0.2"), netip.MustParseAddr("10.2.0.2")
	server := mustListen(n, "10.0.0.1:7777")
	phone, err := n.ListenAny(5555, wifi, mobile)
	if err != nil {
		log.Fatal(err)
	}
	buf := make([]byte, 100)
	for _, away := range []bool{false, true, false} {
		n.SetDown(wifi, away)
		phone.WriteTo([]byte("hello"), server.LocalAddr())
		_, from, _ := server.ReadFrom(buf)
		fmt.Println(from)
	}
	// Output:
	// 10.1.0.2:5555
	// 10.2.0.2:5555
	// 10.1.0.2:5555
}

// A proxy impairs what two programs say to each other over real sockets.
func ExampleProxy() {
	server, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	proxy, err := simnet.NewProxy(simnet.ProxyConfig{
		Target: server.LocalAddr().String(),
		Up:     simnet.Link{Latency: 20 * time.Millisecond, Jitter: 5 * time.Millisecond},
		Down:   simnet.Link{Latency: 20 * time.Millisecond, Loss: 0.05},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer proxy.Close()

	client, err := net.Dial("udp", proxy.Addr().String())
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	client.Write([]byte("by way of the proxy"))
	buf := make([]byte, 100)
	k, _, _ := server.ReadFrom(buf)
	fmt.Printf("%s\n", buf[:k])
	// Output:
	// by way of the proxy
}

func mustListen(n *simnet.Network, addr string) *simnet.Conn {
	c, err := n.Listen(addr)
	if err != nil {
		log.Fatal(err)
	}
	return c
}

// A phone in a train that passes a tunnel.
func ExamplePreset() {
	presets := simnet.Presets()
	p := presets[slices.IndexFunc(presets, func(p simnet.Preset) bool { return p.Name == "4g" })]
	phone, server := simnet.Pair(1, p.Up, p.Down)
	defer phone.Close()
	defer server.Close()
	tunnel, err := simnet.ParseScript("3s blackout for 8s")
	if err != nil {
		log.Fatal(err)
	}
	phone.Network().Play(tunnel)
	fmt.Printf("%s: %v, %.1f Mbit/s to the phone\n", p.About, p.RTT, float64(p.Down.Bandwidth)/1e6)
	// Output:
	// a phone on LTE: 53.1ms, 14.7 Mbit/s to the phone
}
