package volley

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"volley/internal/datagram"
	"volley/internal/deadline"
	"volley/internal/pattern"
	"volley/internal/socket"
	"volley/internal/testenv"
	"volley/internal/wire"
)

// A window lets a sender be at most size messages ahead of the receiver, so
// that nothing is lost in a full socket buffer.
type window struct {
	size     int64
	received atomic.Int64
	sent     int64
	moved    chan struct{}
}

func newWindow(size int) *window {
	return &window{size: int64(size), moved: make(chan struct{}, 1)}
}

func (w *window) wait() {
	w.sent++
	for w.sent-w.received.Load() > w.size {
		<-w.moved
	}
}

func (w *window) arrived() {
	if n := w.received.Add(1); n%(w.size/4) == 0 {
		select {
		case w.moved <- struct{}{}:
		default:
		}
	}
}

// oneWay measures messages through any connection.
func oneWay(b *testing.B, from, to net.Conn, size int) {
	w := newWindow(min(1024, (1<<20)/(size+512)))
	msg := pattern.New(1, size)
	done := make(chan struct{})
	go func() {
		defer close(done)
		buf := make([]byte, size)
		for {
			if _, err := to.Read(buf); err != nil {
				return
			}
			w.arrived()
		}
	}()
	b.SetBytes(int64(size))
	b.ReportAllocs()
	start := testenv.CPUTime()
	for b.Loop() {
		w.wait()
		if _, err := from.Write(msg); err != nil {
			b.Fatal(err)
		}
	}
	end := time.Now().Add(time.Second)
	for w.received.Load() < w.sent && time.Now().Before(end) {
		time.Sleep(time.Millisecond)
	}
	b.ReportMetric(float64(testenv.CPUTime()-start)/float64(b.N), "cpu-ns/op")
	b.ReportMetric(float64(w.sent-w.received.Load()), "lost")
	time.Sleep(50 * time.Millisecond) // the last acknowledgements
	from.Close()
	to.Close()
	<-done
}

// rawPair returns two UDP sockets, one connected to the other.
func rawPair(b *testing.B) (from, to net.Conn) {
	pc, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		b.Fatal(err)
	}
	pc.SetReadBuffer(4 << 20)
	c, err := net.DialUDP("udp", nil, pc.LocalAddr().(*net.UDPAddr))
	if err != nil {
		b.Fatal(err)
	}
	return c, pc
}

// BenchmarkOneWay sends messages from one connection to another over loopback,
// both in this process, beside bare UDP sockets.
func BenchmarkOneWay(b *testing.B) {
	for _, size := range []int{64, 256, 1024, 4096, 16384} {
		b.Run(fmt.Sprintf("udp/%d", size), func(b *testing.B) {
			from, to := rawPair(b)
			oneWay(b, from, to, size)
		})
		b.Run(fmt.Sprintf("volley/%d", size), func(b *testing.B) {
			from, to := udpPair(b, nil)
			oneWay(b, from, to, size)
			s := from.Stats()
			b.ReportMetric(100*float64(s.MessagesDelivered)/float64(s.MessagesSent), "%acked")
			b.ReportMetric(100*s.Loss, "%loss")
			b.ReportMetric(float64(s.MessagesSent)/float64(s.Transport.SendCalls), "msgs/send")
			r := to.Stats().Transport
			b.ReportMetric(float64(s.MessagesSent)/float64(r.ReadCalls), "msgs/read")
			b.ReportMetric(float64(s.MessagesSent)/float64(r.SendCalls), "msgs/ackcall")
		})
	}
}

// BenchmarkPingPong measures round trips.
func BenchmarkPingPong(b *testing.B) {
	for _, size := range []int{256, 4096} {
		b.Run(fmt.Sprintf("udp/%d", size), func(b *testing.B) {
			pc, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
			if err != nil {
				b.Fatal(err)
			}
			go func() {
				buf := make([]byte, 65536)
				for {
					n, addr, err := pc.ReadFromUDPAddrPort(buf)
					if err != nil {
						return
					}
					pc.WriteToUDPAddrPort(buf[:n], addr)
				}
			}()
			c, err := net.DialUDP("udp", nil, pc.LocalAddr().(*net.UDPAddr))
			if err != nil {
				b.Fatal(err)
			}
			pingPong(b, c, size)
			pc.Close()
		})
		b.Run(fmt.Sprintf("volley/%d", size), func(b *testing.B) {
			client, server := udpPair(b, nil)
			go func() {
				buf := make([]byte, 65536)
				for {
					n, err := server.Read(buf)
					if err != nil {
						return
					}
					server.Write(buf[:n])
				}
			}()
			pingPong(b, client, size)
			server.Close()
		})
	}
}

func pingPong(b *testing.B, c net.Conn, size int) {
	msg, buf := pattern.New(1, size), make([]byte, 65536)
	b.ReportAllocs()
	trips := make([]time.Duration, 0, 1<<20)
	cpu := testenv.CPUTime()
	for b.Loop() {
		start := time.Now()
		c.Write(msg)
		c.SetReadDeadline(start.Add(time.Second))
		if _, err := c.Read(buf); err != nil {
			b.Fatal(err)
		}
		if len(trips) < cap(trips) {
			trips = append(trips, time.Since(start))
		}
	}
	b.ReportMetric(float64(testenv.CPUTime()-cpu)/float64(2*b.N), "cpu-ns/msg")
	slices.Sort(trips)
	b.ReportMetric(float64(trips[len(trips)/2]), "p50-ns")
	b.ReportMetric(float64(trips[len(trips)*99/100]), "p99-ns")
	c.Close()
}

// BenchmarkFanIn has 16 connections send to one listener.
func BenchmarkFanIn(b *testing.B) {
	l, err := Listen("udp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	const clients = 16
	var wg sync.WaitGroup
	defer wg.Wait()
	var windows [clients]*window
	var from [clients]*Conn
	for i := range clients {
		windows[i] = newWindow(256)
		if from[i], err = Dial("udp", l.Addr().String()); err != nil {
			b.Fatal(err)
		}
		defer from[i].Close()
		to, err := l.AcceptConn(context.Background())
		if err != nil {
			b.Fatal(err)
		}
		defer to.Close()
		wg.Go(func() {
			buf := make([]byte, 1024)
			for {
				if _, err := to.Read(buf); err != nil {
					return
				}
				windows[i].arrived()
			}
		})
	}
	b.ReportAllocs()
	b.ResetTimer()
	cpu := testenv.CPUTime()
	each := b.N/clients + 1
	var senders sync.WaitGroup
	for i := range clients {
		senders.Go(func() {
			msg := pattern.New(1, 256)
			for range each {
				windows[i].wait()
				from[i].Write(msg)
			}
		})
	}
	senders.Wait()
	b.ReportMetric(float64(testenv.CPUTime()-cpu)/float64(b.N), "cpu-ns/op")
	s := l.Stats().Transport
	b.ReportMetric(float64(b.N)/float64(s.ReadCalls), "msgs/read")
	b.ReportMetric(float64(b.N)/float64(s.SendCalls), "msgs/ackcall")
}

// A nowhere is a socket that takes everything.
type nowhere struct{ done chan struct{} }

func (n nowhere) ReadBatch([]socket.Packet) (int, error)     { <-n.done; return 0, net.ErrClosed }
func (n nowhere) WriteBatch(ps []socket.Packet) (int, error) { return len(ps), nil }
func (n nowhere) LocalAddr() net.Addr                        { return &net.UDPAddr{} }
func (n nowhere) Stats() socket.Stats                        { return socket.Stats{} }
func (n nowhere) Features() socket.Features                  { return socket.Features{} }
func (n nowhere) Close() error                               { close(n.done); return nil }

// BenchmarkWriteAllWithoutSocket is what WriteAll costs beside the system calls,
// for 1,000 connections.
func BenchmarkWriteAllWithoutSocket(b *testing.B) {
	m := datagram.NewMux(nowhere{make(chan struct{})}, datagram.MuxConfig{MaxDatagram: datagram.MaxUDP})
	defer m.Close()
	set, err := newSettings(nil, datagram.MaxUDP, nil)
	require.NoError(b, err)
	var conns []*Conn
	for i := range 1000 {
		p, err := m.Dial(netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}), 1))
		require.NoError(b, err)
		c := new(Conn)
		require.NoError(b, c.start(p, set))
		defer c.Close()
		conns = append(conns, c)
	}
	all := slices.Values(conns)
	msg := make([]byte, 200)
	for range 300 {
		WriteAll(msg, all) // the windows grow
	}
	b.ReportAllocs()
	for b.Loop() {
		WriteAll(msg, all)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(conns)), "ns/message")
}

// A hop is a network that keeps what comes until deliver is called.
type hop struct {
	up     datagram.Handler
	other  *hop
	mu     sync.Mutex
	came   wire.Batch // guarded by mu
	bufs   [][]byte
	answer wire.Batch
}

func (h *hop) Attach(up datagram.Handler) error        { h.up = up; return nil }
func (h *hop) MaxDatagram() int                        { return datagram.MaxUDP }
func (h *hop) WaitWritable(int, <-chan struct{}) error { return nil }
func (h *hop) Schedule(time.Time)                      {}
func (h *hop) LocalAddr() net.Addr                     { return &net.UDPAddr{} }
func (h *hop) RemoteAddr() net.Addr                    { return &net.UDPAddr{} }
func (h *hop) Stats() datagram.Stats                   { return datagram.Stats{} }
func (h *hop) Features() datagram.Features             { return datagram.Features{} }
func (h *hop) Close() error                            { return nil }
func (h *hop) WriteBatch(b *wire.Batch) error          { _, err := h.WriteBatchBy(b, nil); return err }

func (h *hop) WriteBatchBy(b *wire.Batch, _ *deadline.Deadline) (int, error) {
	h.other.mu.Lock()
	defer h.other.mu.Unlock()
	for i := range b.Len() {
		h.other.came.Append(b.At(i))
	}
	return b.Len(), nil
}

// deliver hands over what has come.
func (h *hop) deliver() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.came.Len() == 0 {
		return
	}
	h.bufs = h.bufs[:0]
	for i := range h.came.Len() {
		h.bufs = append(h.bufs, h.came.At(i))
	}
	h.up.HandleBatch(time.Now(), h.bufs, &h.answer)
	h.came.Reset()
	if h.answer.Len() > 0 {
		h.WriteBatch(&h.answer)
		h.answer.Reset()
	}
}

// hopPair returns two connections with nothing between them.
func hopPair(b *testing.B) (from, to *Conn, x, y *hop) {
	set, err := newSettings(nil, datagram.MaxUDP, nil)
	require.NoError(b, err)
	x, y = new(hop), new(hop)
	x.other, y.other = y, x
	from, to = new(Conn), new(Conn)
	require.NoError(b, from.start(x, set))
	require.NoError(b, to.start(y, set))
	b.Cleanup(func() { from.Close(); to.Close() })
	return from, to, x, y
}

// BenchmarkFloodWithoutSocket is what a message of a flood costs beside the
// system calls, from Write to Read.
func BenchmarkFloodWithoutSocket(b *testing.B) {
	const burst = 112 // less than what makes a Write send the queue itself
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	for _, size := range []int{64, 256, 1200} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			from, to, back, forth := hopPair(b)
			msg, buf := make([]byte, size), make([]byte, size)
			b.ReportAllocs()
			start, n := testenv.CPUTime(), 0
			for b.Loop() {
				from.Write(msg)
				if n++; n%burst > 0 {
					continue
				}
				runtime.Gosched() // what is queued leaves
				forth.deliver()
				for unread(to) > 0 {
					to.Read(buf)
				}
				back.deliver()
			}
			b.ReportMetric(float64(testenv.CPUTime()-start)/float64(b.N), "cpu-ns/op")
		})
	}
}

// BenchmarkRoundWithoutSocket is what a message and its answer cost beside the
// system calls, from Write to Read.
func BenchmarkRoundWithoutSocket(b *testing.B) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	from, to, back, forth := hopPair(b)
	msg, buf := make([]byte, 256), make([]byte, 256)
	step := func(from, to *Conn, way *hop) {
		from.Write(msg)
		runtime.Gosched() // what is queued leaves
		way.deliver()
		for unread(to) > 0 {
			to.Read(buf)
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		step(from, to, forth)
		step(to, from, back)
	}
}

func unread(c *Conn) int { return c.user.In.Len() }
