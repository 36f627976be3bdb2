package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"volley/netplay"
)

const (
	slowRate    = 10        // broadcasts a second
	slowSize    = 8 << 10   // bytes of each
	slowBuffer  = 128 << 10 // Server.SendBuffer
	slowSockets = 32 << 10  // of the system, so that they are full soon
)

// A tick is what the server broadcasts.
type tick struct {
	Sent int64  `netplay:"0"` // nanoseconds since the start
	Data []byte `netplay:"1"`
}

// A slowResult is what a run has shown.
type slowResult struct {
	p50, p99  time.Duration // of the delay at clients that read
	queued    int           // the most bytes that waited
	heap      uint64        // the largest heap
	delivered int
	want      int
	slow      int // connections that ended for being slow
}

// trySlowReaders writes what 100 of 1,000 clients that never read do to the
// others.
func trySlowReaders(b *strings.Builder, clients int, period time.Duration, pairs int) error {
	idle := clients / 10
	results := make(map[string][]*slowResult)
	var ratios []float64
	for range pairs {
		var p99 [2]time.Duration
		for i, run := range []struct {
			name string
			idle int
		}{{"without", 0}, {"with", idle}} {
			r, err := runSlow(clients-idle, run.idle, period)
			if err != nil {
				return err
			}
			results[run.name] = append(results[run.name], r)
			p99[i] = r.p99
		}
		ratios = append(ratios, float64(p99[1])/float64(p99[0]))
	}
	fmt.Fprintf(b, "### Slow readers\n\nA server broadcasts %d messages of %d bytes a second over TCP, to %d clients that read, and in every second run to %d more that never do. "+
		"SendBuffer is %d KiB; all in one process; %v a run.\n\n| | delay, median | delay, 99 %% | messages arrived | ended as slow | most bytes that waited | largest heap |\n|---|---|---|---|---|---|---|\n",
		slowRate, slowSize, clients-idle, idle, slowBuffer>>10, period)
	for i := range pairs {
		for _, name := range []string{"without", "with"} {
			r := results[name][i]
			label := "without"
			if name != "without" {
				label = fmt.Sprintf("with %d more", idle)
			}
			fmt.Fprintf(b, "| %s | %v | %v | %d of %d | %d | %d KiB of %d | %d MiB |\n", label, r.p50.Round(time.Microsecond), r.p99.Round(time.Microsecond),
				r.delivered, r.want, r.slow, r.queued>>10, clients*slowBuffer>>10, r.heap>>20)
		}
	}
	fmt.Fprintf(b, "\nThe 99 %% delay with them is %.2f times that without (median of %d pairs).\n", median(ratios), pairs)
	return nil
}

// A smallListener gives its connections small buffers in the system.
type smallListener struct{ net.Listener }

func (l smallListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if tc, ok := c.(*net.TCPConn); ok {
		err = errors.Join(err, tc.SetWriteBuffer(slowSockets))
	}
	return c, err
}

// runSlow runs a server with clients that read and others that do not.
func runSlow(readers, idle int, period time.Duration) (*slowResult, error) {
	reg := new(netplay.Registry)
	reg.MustAdd(1, tick{})
	var slow atomic.Int64
	srv := &netplay.Server{Registry: reg, MaxConns: readers + idle, SendBuffer: slowBuffer,
		OnDisconnect: func(_ *netplay.Conn, err error) {
			if errors.Is(err, netplay.ErrSlowReader) {
				slow.Add(1)
			}
		}}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	go srv.Serve(smallListener{ln})
	defer srv.Close()
	c := &crowd{reg: reg, address: ln.Addr().String(), start: time.Now()}
	defer c.wg.Wait()
	defer c.close()
	if err := c.join(readers, idle); err != nil {
		return nil, err
	}
	for len(srv.Conns()) < readers+idle {
		time.Sleep(time.Millisecond)
	}
	runtime.GC()
	r := &slowResult{}
	data := make([]byte, slowSize)
	ticker := time.NewTicker(time.Second / slowRate)
	defer ticker.Stop()
	rounds := 0
	for end := time.Now().Add(period); time.Now().Before(end); rounds++ {
		<-ticker.C
		if err := srv.Broadcast(&tick{int64(time.Since(c.start)), data}); err != nil {
			return nil, err
		}
		r.queued = max(r.queued, srv.Stats().Queued)
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		r.heap = max(r.heap, m.HeapAlloc)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := srv.Shutdown(ctx); err != nil && idle == 0 {
		return nil, err
	}
	c.finish()
	slices.Sort(c.delays)
	if len(c.delays) == 0 {
		return nil, errors.New("nothing has arrived")
	}
	r.p50, r.p99 = c.delays[len(c.delays)/2], c.delays[len(c.delays)*99/100]
	r.delivered, r.want, r.slow = len(c.delays), rounds*readers, int(slow.Load())
	return r, nil
}

// A crowd are the clients.
type crowd struct {
	reg     *netplay.Registry
	address string
	start   time.Time
	wg      sync.WaitGroup

	mu     sync.Mutex
	conns  []net.Conn
	delays []time.Duration
}

func (c *crowd) join(readers, idle int) error {
	for i := range readers + idle {
		nc, err := net.Dial("tcp", c.address)
		if err != nil {
			return err
		}
		c.conns = append(c.conns, nc)
		if i >= readers {
			if err := nc.(*net.TCPConn).SetReadBuffer(slowSockets); err != nil {
				return err
			}
			continue
		}
		conn, err := netplay.NewConn(nc, c.reg, nil)
		if err != nil {
			return err
		}
		c.wg.Go(func() { c.read(conn) })
	}
	return nil
}

func (c *crowd) read(conn *netplay.Conn) {
	var delays []time.Duration
	for {
		m, err := conn.ReadMessage(context.Background())
		if err != nil {
			break
		}
		delays = append(delays, time.Since(c.start)-time.Duration(m.(*tick).Sent))
	}
	conn.Close()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.delays = append(c.delays, delays...)
}

// finish has those who read do so to the end, which comes with the server's.
func (c *crowd) finish() {
	for _, nc := range c.conns {
		nc.SetReadDeadline(time.Now().Add(30 * time.Second))
	}
	c.wg.Wait()
}

func (c *crowd) close() {
	for _, nc := range c.conns {
		nc.Close()
	}
}
