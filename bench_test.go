package volley

import (
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
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
	msg := pattern(1, size)
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
	start := cpuTime()
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
	b.ReportMetric(float64(cpuTime()-start)/float64(b.N), "cpu-ns/op")
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
			b.ReportMetric(s.PacketLoss, "%loss")
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
	msg, buf := pattern(1, size), make([]byte, 65536)
	b.ReportAllocs()
	trips := make([]time.Duration, 0, 1<<20)
	cpu := cpuTime()
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
	b.ReportMetric(float64(cpuTime()-cpu)/float64(2*b.N), "cpu-ns/msg")
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
		to, err := l.AcceptConn()
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
	cpu := cpuTime()
	each := b.N/clients + 1
	var senders sync.WaitGroup
	for i := range clients {
		senders.Go(func() {
			msg := pattern(1, 256)
			for range each {
				windows[i].wait()
				from[i].Write(msg)
			}
		})
	}
	senders.Wait()
	b.ReportMetric(float64(cpuTime()-cpu)/float64(b.N), "cpu-ns/op")
	s := l.Stats().Transport
	b.ReportMetric(float64(b.N)/float64(s.ReadCalls), "msgs/read")
	b.ReportMetric(float64(b.N)/float64(s.SendCalls), "msgs/ackcall")
}
