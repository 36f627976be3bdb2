package main

import (
	"context"
	"encoding/binary"
	"net"
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

	due, inTime, late atomic.Uint64
}

// dialAll begins so many sessions, whose messages begin with when they were sent, or 0
// if they do not count.
func dialAll(name, addr string, sessions, hertz int) (*crowd, error) {
	c := &crowd{hertz: hertz, stop: make(chan struct{})}
	for i := range sessions {
		conn, err := dial(name, addr, uint64(i+1))
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

func dial(name, addr string, id uint64) (net.Conn, error) {
	switch name {
	case serverUDP:
		return net.Dial("udp4", addr)
	case serverNetcode:
		s, err := new(netcode.Dialer).DialWithKey(context.Background(), addr, key, 0, id)
		if err != nil {
			return nil, err
		}
		return volley.NewConn(s, nil)
	}
	return volley.Dial("udp4", addr)
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
			if time.Now().UnixNano()-int64(at) <= int64(inLimit) {
				c.inTime.Add(1)
			} else {
				c.late.Add(1)
			}
		}
	}
}

func (c *crowd) count(on bool) { c.counting.Store(on) }

// take returns what was counted since the last time.
func (c *crowd) take() (due, inTime, late uint64) {
	return c.due.Swap(0), c.inTime.Swap(0), c.late.Swap(0)
}

func (c *crowd) close() {
	close(c.stop)
	for _, conn := range c.conns {
		conn.Close()
	}
}
