package riptide

import (
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// BenchmarkMessage writes and reads a small message, as a game has them.
func BenchmarkMessage(b *testing.B) {
	b.ReportAllocs()
	var sum uint32
	r, m := new(Message), NewMessage(Unreliable, 3)
	for b.Loop() {
		m.Reset(Unreliable, 3)
		Add[uint16](m, 7)
		m.AddValue(Vector3{1, 2, 3})
		m.AddBool(true)
		r.loadUser(packed, Unreliable, m.body())
		sum += uint32(Read[uint16](r))
		var v Vector3
		r.ReadValue(&v)
		if !r.ReadBool() || v.Z != 3 || r.Err() != nil {
			b.Fatal("read something else")
		}
	}
}

const (
	echoClients = 8
	echoWindow  = 32 // messages of each mode under way, of each client
	echoSlice   = 100 * time.Millisecond
)

// BenchmarkEcho has clients send messages of all modes, which a server sends
// back, over UDP on loopback; in turns with bare UDP sockets that send as many
// datagrams of that size as they can. The ratio is that of datagrams a second.
func BenchmarkEcho(b *testing.B) {
	e := newEcho(b)
	bare := newBareEcho(b)
	var echoes, datagrams, bareDatagrams uint64
	var took, bareTook time.Duration
	for b.Loop() {
		n, d, t := e.slice()
		echoes, datagrams, took = echoes+n, datagrams+d, took+t
		d, t = bare.slice()
		bareDatagrams, bareTook = bareDatagrams+d, bareTook+t
	}
	e.close()
	bare.close()
	rate := float64(datagrams) / took.Seconds()
	bareRate := float64(bareDatagrams) / bareTook.Seconds()
	st := e.server.Stats()
	resends := st.MessagesResent
	for _, c := range e.clients {
		resends += c.Stats().MessagesResent
	}
	b.ReportMetric(rate/bareRate, "ratio")
	b.ReportMetric(float64(echoes)/took.Seconds(), "echoes/s")
	b.ReportMetric(bareRate/2, "bare-echoes/s")
	b.ReportMetric(float64(resends), "resends")
	b.ReportMetric(0, "ns/op")
}

// An echoBench is a server that sends everything back, and its clients.
type echoBench struct {
	server  *Server
	clients []*Client
	on      atomic.Bool
	echoes  atomic.Uint64
	served  chan error
}

func newEcho(tb testing.TB) *echoBench {
	e := &echoBench{served: make(chan error, 1)}
	back := func(p *Peer, m *Message) error { return p.Send(m) }
	e.server = &Server{Unhandled: back, Notify: back, NoAnnouncements: true, Config: &Config{IgnoreQuality: true}}
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	go func() { e.served <- e.server.ServeOn(pc) }()
	again := func(c *Client, m *Message) error {
		e.echoes.Add(1)
		if !e.on.Load() {
			return nil
		}
		return c.Send(m)
	}
	for range echoClients {
		c := &Client{Unhandled: again, Notify: again, Config: &Config{IgnoreQuality: true}}
		if err := c.Connect(tb.Context(), "udp", pc.LocalAddr().String()); err != nil {
			tb.Fatal(err)
		}
		e.clients = append(e.clients, c)
	}
	return e
}

// slice runs for a while.
func (e *echoBench) slice() (echoes, datagrams uint64, took time.Duration) {
	before, sent := e.echoes.Load(), e.sent()
	begin := time.Now()
	e.on.Store(true)
	for _, c := range e.clients {
		for _, m := range []Mode{Unreliable, Notify, Reliable} {
			msg := NewMessage(m, 3)
			Add[uint64](msg, 1)
			Add[uint64](msg, 2)
			for range echoWindow {
				c.Send(msg)
			}
		}
	}
	time.Sleep(echoSlice)
	took = time.Since(begin)
	echoes, datagrams = e.echoes.Load()-before, e.sent()-sent
	e.on.Store(false)
	time.Sleep(20 * time.Millisecond)
	return echoes, datagrams, took
}

// sent returns the number of datagrams that have been sent, acknowledgements
// included.
func (e *echoBench) sent() (n uint64) {
	all := []Stats{e.server.Stats()}
	for _, c := range e.clients {
		all = append(all, c.Stats())
	}
	for _, st := range all {
		for m := range st.MessagesSent {
			n += st.MessagesSent[m]
		}
		n += st.MessagesResent + st.MessagesReceived[Reliable] + st.Duplicates
	}
	return n
}

func (e *echoBench) close() {
	for _, c := range e.clients {
		c.Close()
		<-c.Done()
	}
	e.server.Close()
	<-e.served
}

// A bareEcho is the same with UDP sockets and nothing else.
type bareEcho struct {
	server  *net.UDPConn
	clients []*net.UDPConn
	on      atomic.Bool
	echoes  atomic.Uint64
	work    sync.WaitGroup
}

// bareSize is the size in bytes of the datagrams, that of the mean of ours.
const bareSize = 16

func newBareEcho(tb testing.TB) *bareEcho {
	e := new(bareEcho)
	var err error
	if e.server, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.MustParseAddrPort("127.0.0.1:0"))); err != nil {
		tb.Fatal(err)
	}
	e.server.SetReadBuffer(4 << 20)
	e.work.Go(func() {
		buf := make([]byte, 2048)
		for {
			n, from, err := e.server.ReadFromUDPAddrPort(buf)
			if err != nil {
				return
			}
			e.server.WriteToUDPAddrPort(buf[:n], from)
		}
	})
	for range echoClients {
		c, err := net.DialUDP("udp", nil, e.server.LocalAddr().(*net.UDPAddr))
		if err != nil {
			tb.Fatal(err)
		}
		c.SetReadBuffer(4 << 20)
		e.clients = append(e.clients, c)
		e.work.Go(func() {
			buf := make([]byte, 2048)
			for {
				n, err := c.Read(buf)
				if err != nil {
					return
				}
				e.echoes.Add(1)
				if e.on.Load() {
					c.Write(buf[:n])
				}
			}
		})
	}
	return e
}

func (e *bareEcho) slice() (datagrams uint64, took time.Duration) {
	before := e.echoes.Load()
	begin := time.Now()
	e.on.Store(true)
	for _, c := range e.clients {
		for range 3 * echoWindow {
			c.Write(make([]byte, bareSize))
		}
	}
	time.Sleep(echoSlice)
	took = time.Since(begin)
	n := e.echoes.Load() - before
	e.on.Store(false)
	time.Sleep(20 * time.Millisecond)
	return 2 * n, took
}

func (e *bareEcho) close() {
	e.server.Close()
	for _, c := range e.clients {
		c.Close()
	}
	e.work.Wait()
}
