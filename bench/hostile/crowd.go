package main

import (
	"context"
	"encoding/binary"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"volley"
	"volley/netcode"
)

// A crowd is the live sessions.
type crowd struct {
	conns    []net.Conn
	hertz    int
	stop     chan struct{}
	counting atomic.Bool

	due atomic.Uint64

	mu   sync.Mutex
	took []time.Duration // from each message to its answer
}

// dialAll begins so many sessions, whose messages begin with when they were sent, or 0
// if they do not count.
func dialAll(name, addr string, sessions, hertz int) (*crowd, error) {
	c := &crowd{hertz: hertz, stop: make(chan struct{})}
	for i := range sessions {
		conn, err := dial(name, addr, uint64(i+1), nil)
		if err != nil {
			c.close()
			return nil, err
		}
		c.conns = append(c.conns, conn)
		go c.read(conn)
	}
	go c.pace()
	return c, nil
}

// dial connects to a server. If below is not nil, it wraps what is below the volley.Conn.
func dial(name, addr string, id uint64, below func(net.Conn) net.Conn) (c net.Conn, err error) {
	switch {
	case name == serverNetcode:
		c, err = new(netcode.Dialer).DialWithKey(context.Background(), addr, key, 0, id)
	case name == serverUDP || below != nil:
		c, err = net.Dial("udp4", addr)
	default:
		return volley.Dial("udp4", addr)
	}
	if err != nil || name == serverUDP {
		return c, err
	}
	if below != nil {
		c = below(c)
	}
	return volley.NewConn(c, nil)
}

// pace sends a message of each session in turn, at regular times.
func (c *crowd) pace() {
	if len(c.conns) == 0 {
		return
	}
	every := time.Second / time.Duration(c.hertz*len(c.conns))
	msg := make([]byte, serverMessage)
	next := time.Now()
	for i := 0; ; i++ {
		if wait := time.Until(next); wait > 0 {
			time.Sleep(wait)
		}
		select {
		case <-c.stop:
			return
		default:
		}
		at := uint64(0)
		if c.counting.Load() {
			at = uint64(time.Now().UnixNano())
			c.due.Add(1)
		}
		binary.LittleEndian.PutUint64(msg, at)
		_, _ = c.conns[i%len(c.conns)].Write(msg) // a loss shows in the figures
		next = next.Add(every)
	}
}

func (c *crowd) read(conn net.Conn) {
	buf := make([]byte, serverMessage)
	for {
		n, err := conn.Read(buf)
		if err != nil {
			return
		}
		if at := binary.LittleEndian.Uint64(buf); n == serverMessage && at != 0 {
			c.mu.Lock()
			c.took = append(c.took, time.Duration(time.Now().UnixNano()-int64(at)))
			c.mu.Unlock()
		}
	}
}

func (c *crowd) count(on bool) { c.counting.Store(on) }

// take returns how many messages were sent since the last time, and how long answers took.
func (c *crowd) take() (due uint64, took []time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	took, c.took = c.took, nil
	slices.Sort(took)
	return c.due.Swap(0), took
}

func (c *crowd) close() {
	close(c.stop)
	for _, conn := range c.conns {
		conn.Close()
	}
}
