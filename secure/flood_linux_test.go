package secure

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"runtime/metrics"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"volley/internal/testenv"
)

// descriptors returns how many files and sockets this process has open.
func descriptors() int { return len(must(os.ReadDir("/proc/self/fd"))) }

// heap returns the bytes of objects on the heap, with those that are garbage.
func heap() uint64 {
	s := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}

// strange returns an address of loopback in one of so many networks, at most many.
func strange(networks int) net.IP {
	n := rand.N(networks)
	return net.IPv4(127, 1+byte(n>>8), byte(n), 1+byte(rand.N(250)))
}

const many = 254 << 8

// A hold is connections to a token service that never finish.
type hold struct {
	address string
	open    sync.WaitGroup
	count   atomic.Int64
}

// dial opens a connection from an address, sends some bytes, and waits for the server to close it.
func (h *hold) dial(from net.IP, send []byte) {
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: from}, Timeout: 5 * time.Second}
	c, err := d.Dial("tcp", h.address)
	if err != nil {
		return
	}
	h.count.Add(1)
	c.Write(send)
	h.open.Go(func() {
		for b := make([]byte, 64); err == nil; {
			_, err = c.Read(b)
		}
		c.Close()
	})
}

// Connections that are held, from many networks, take a bounded number of descriptors and
// goroutines. Clients join meanwhile, and when the flood ends all is given back.
func TestFloodOfConnections(t *testing.T) {
	l := newServer(t, nil)
	newSession(t, l)
	files, goroutines := descriptors(), testenv.Goroutines()
	p := start(t, "hold", l.Addr(), 3*maxTokenConns)
	within := func(connections int) func() bool { // what has given way is closed in a moment
		return func() bool {
			return descriptors() <= files+connections+20 && testenv.Goroutines() <= goroutines+connections+20
		}
	}
	for range 3 {
		p.line(t) // a third of them stands, and the flood waits
		require.Eventually(t, within(maxTokenConns), time.Minute, time.Millisecond)
		client, server := newSession(t, l)
		client.Close()
		server.Close()
		p.stdin.Write([]byte("more"))
	}
	p.end(t)
	require.Eventually(t, within(0), time.Minute, time.Millisecond)
}

func init() {
	processes["hold"] = func(args []string) {
		h := hold{address: args[0]}
		n := must(strconv.Atoi(args[1]))
		for i := range n {
			h.dial(strange(many), nil)
			if (i+1)%(n/3) == 0 {
				fmt.Println("a third")
				os.Stdin.Read(make([]byte, 4))
			}
		}
		untilEnd()
	}
}

// BenchmarkFlood measures what a server with 1,000 sessions does beside a flood, for five seconds.
// Another process has the clients, each with an echo five times a second by the session, and by a
// bare socket of UDP; it also joins five times a second. A third process makes the flood, which
// takes its share of the same processors. So compare
//
//   - in-time-%, the echoes of sessions within 100 ms, with bare-in-time-%, those of bare sockets;
//   - each kind of flood with "none".
//
// The rates are those that the generator has reached.
func BenchmarkFlood(b *testing.B) {
	for _, kind := range []string{"none", "held", "hellos", "hellos-many", "requests", "garbage", "tokens"} {
		b.Run(kind, func(b *testing.B) {
			for b.Loop() {
				flood(b, kind)
			}
		})
	}
}

const floodTime = 5 * time.Second

func flood(b *testing.B, kind string) {
	l, err := Listen("udp", "127.0.0.1:0", nil)
	require.NoError(b, err)
	defer l.Close()
	go l.Serve(Handler{Message: func(c *Conn, msg []byte) { c.Write(msg) }})
	bare := must(net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)}))
	defer bare.Close()
	go func() {
		buf := make([]byte, 2000)
		for {
			n, from, err := bare.ReadFromUDPAddrPort(buf)
			if err != nil {
				return
			}
			bare.WriteToUDPAddrPort(buf[:n], from)
		}
	}()
	live := start(b, "live", l.URL("127.0.0.1"), bare.LocalAddr())
	live.line(b)
	attacker := start(b, "flood", kind, l.URL("127.0.0.1"), bare.LocalAddr())
	attacker.line(b)
	live.stdin.Close()
	attacker.stdin.Close()
	var files, goroutines int
	var memory uint64
	before := testenv.CPUTime()
	for end := time.Now().Add(floodTime); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		files, goroutines, memory = max(files, descriptors()), max(goroutines, testenv.Goroutines()), max(memory, heap())
	}
	cpu := testenv.CPUTime() - before
	var inTime, bareInTime, joins, slowest, rate float64
	live.scan(b, &inTime, &bareInTime, &joins, &slowest)
	attacker.scan(b, &rate)
	live.end(b)
	attacker.end(b)
	b.ReportMetric(rate, "flood/s")
	b.ReportMetric(inTime, "in-time-%")
	b.ReportMetric(bareInTime, "bare-in-time-%")
	b.ReportMetric(joins, "joins-%")
	b.ReportMetric(slowest, "join-ms-p90")
	b.ReportMetric(float64(files), "descriptors")
	b.ReportMetric(float64(goroutines), "goroutines")
	b.ReportMetric(float64(memory>>10), "heap-KB")
	b.ReportMetric(100*cpu.Seconds()/floodTime.Seconds(), "cpu-%")
	b.ReportMetric(0, "ns/op")
}

func init() { processes["live"] = liveClients }

const (
	liveSessions = 1000
	liveHertz    = 5
	liveSteps    = 20 // in which the clients of a round take turns
	liveInTime   = 100 * time.Millisecond
)

// echoes are the clients of one kind.
type echoes struct {
	conns  []net.Conn
	sent   int
	inTime atomic.Int64
}

func (e *echoes) add(c net.Conn) {
	e.conns = append(e.conns, c)
	go func() {
		b := make([]byte, 2000)
		for {
			n, err := c.Read(b)
			if err != nil {
				return
			}
			if n >= 8 && time.Since(time.Unix(0, int64(binary.LittleEndian.Uint64(b)))) <= liveInTime {
				e.inTime.Add(1)
			}
		}
	}()
}

func (e *echoes) send(step int) {
	msg := make([]byte, 100)
	for i := step; i < len(e.conns); i += liveSteps {
		binary.LittleEndian.PutUint64(msg, uint64(time.Now().UnixNano()))
		e.conns[i].Write(msg)
		e.sent++
	}
}

func (e *echoes) share() float64 { return 100 * float64(e.inTime.Load()) / float64(e.sent) }

func liveClients(args []string) {
	var secures, bares echoes
	for range liveSessions {
		secures.add(must(Dial(context.Background(), args[0])))
		bares.add(must(net.Dial("udp", args[1])))
	}
	fmt.Println("ready")
	untilEnd()
	var joined sync.WaitGroup
	took := make([]time.Duration, int(floodTime.Seconds())*liveHertz)
	tick := time.NewTicker(time.Second / liveHertz / liveSteps)
	for i := range len(took) * liveSteps {
		<-tick.C
		secures.send(i % liveSteps)
		bares.send(i % liveSteps)
		if i%liveSteps != 0 {
			continue
		}
		joined.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
			defer cancel()
			begin := time.Now()
			if c, err := Dial(ctx, args[0]); err == nil {
				took[i/liveSteps] = time.Since(begin)
				c.Close()
			}
		})
	}
	time.Sleep(liveInTime)
	share, bareShare := secures.share(), bares.share()
	joined.Wait()
	took = slices.DeleteFunc(took, func(d time.Duration) bool { return d == 0 })
	slices.Sort(took)
	var slow time.Duration
	if len(took) > 0 {
		slow = took[len(took)*9/10]
	}
	fmt.Println(share, bareShare, 100*float64(len(took))/floodTime.Seconds()/liveHertz, slow.Seconds()*1000)
}

func init() { processes["flood"] = makeFlood }

// floodRates are how many there are of a kind in a second.
var floodRates = map[string]int{"none": 0, "held": 5000, "hellos": 5000, "hellos-many": 5000, "requests": 30000, "garbage": 30000, "tokens": 300}

func makeFlood(args []string) {
	kind, a := args[0], must(parseURL(args[1]))
	server, bare := netip.MustParseAddrPort(a.url.Host), netip.MustParseAddrPort(args[2])
	var sockets []*net.UDPConn
	for range 64 {
		sockets = append(sockets, must(net.ListenUDP("udp", &net.UDPAddr{IP: strange(many)})))
	}
	datagram := func(b []byte) {
		s := sockets[rand.N(len(sockets))]
		s.WriteToUDPAddrPort(b, server)
		s.WriteToUDPAddrPort(b, bare)
	}
	h := hold{address: a.url.Host}
	hello, request := recordHello(a), recordRequest(a)
	one := map[string]func(){
		"none":        func() {},
		"held":        func() { h.dial(strange(many), nil) },
		"hellos":      func() { h.dial(strange(50), hello) },
		"hellos-many": func() { h.dial(strange(many), hello) },
		"garbage": func() {
			b := make([]byte, 1+rand.N(1200))
			for i := 0; i < min(len(b), 64); i++ {
				b[i] = byte(rand.Uint32())
			}
			datagram(b)
		},
		"requests": func() {
			b := bytes.Clone(request)
			b[len(b)-1-rand.N(1000)] ^= 1 + byte(rand.N(255))
			datagram(b)
		},
		"tokens": func() {
			h.open.Go(func() {
				d := Dialer{NetDialer: net.Dialer{LocalAddr: &net.UDPAddr{IP: strange(many)}}}
				if _, err := d.token(context.Background(), a); err == nil {
					h.count.Add(1)
				}
			})
		},
	}[kind]
	fmt.Println("ready")
	untilEnd()
	const step = 5 * time.Millisecond
	tick := time.NewTicker(step)
	begin, done, made := time.Now(), 0, 0
	for now := begin; now.Sub(begin) < floodTime; now = <-tick.C {
		due := int(float64(floodRates[kind]) * now.Sub(begin).Seconds())
		for n := 0; done < due && n < floodRates[kind]/20; n++ { // what is late by 50 ms never comes
			one()
			done++
			made++
		}
		done = due
	}
	fmt.Println(float64(made) / floodTime.Seconds())
}

// recordRequest returns the first datagram of a client that has a token.
func recordRequest(a address) []byte {
	tok := must(new(Dialer).token(context.Background(), a))
	b := must(tok.MarshalBinary())
	request := append([]byte{0}, b[:atProtocol]...)
	request = append(request, b[atProtocol:atProtocol+8]...)
	request = append(request, b[atExpires:atTimeout]...)
	return request
}
