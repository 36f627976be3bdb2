package main

import (
	"net"
	"sync"
)

// A loopback is the network on the loopback interface. The routes between nodes lead through
// relays of the drill, which can be cut.
type loopback struct {
	at     [size]string // the clusters
	relays [size][]*relay
}

func (l *loopback) place(node int) (listen, cluster string, err error) {
	if listen, err = freePort(); err != nil {
		return "", "", err
	}
	if cluster, err = freePort(); err != nil {
		return "", "", err
	}
	l.at[node] = cluster
	for i := range l.at {
		if i == node {
			continue
		}
		r, err := newRelay(node, cluster)
		if err != nil {
			return "", "", err
		}
		l.relays[i] = append(l.relays[i], r)
	}
	return listen, cluster, nil
}

// Nodes must not tell each other of ways around the relays: port 9 leads nowhere.
func (l *loopback) routes(node int) (others []string, advertise string) {
	for _, r := range l.relays[node] {
		others = append(others, r.ln.Addr().String())
	}
	return others, "127.0.0.1:9"
}

func (l *loopback) start(_ int, f func() error) error { return f() }

func (l *loopback) cut(node int, is bool) error {
	for i, relays := range l.relays {
		for _, r := range relays {
			if i == node || r.to == node {
				r.setCut(is)
			}
		}
	}
	return nil
}

func (l *loopback) close() {
	for _, relays := range l.relays {
		for _, r := range relays {
			r.ln.Close()
			r.drop()
		}
	}
}

// freePort returns an address with a port that was free. Sockets of clients are on 127.0.0.1. On
// another address none of them takes the port while the node restarts.
func freePort() (string, error) {
	host := "127.0.0.2:0"
	for {
		u, err := net.ListenPacket("udp", host)
		if err != nil && host != "127.0.0.1:0" { // only Linux has all of 127.0.0.0/8
			host = "127.0.0.1:0"
			continue
		}
		if err != nil {
			return "", err
		}
		t, err := net.Listen("tcp", u.LocalAddr().String())
		u.Close()
		if err == nil {
			t.Close()
			return u.LocalAddr().String(), nil
		}
	}
}

// A relay is the way of the routes that one node makes to another. It can be cut: then nothing
// passes and nothing is refused, as in a network that drops packets.
type relay struct {
	ln     net.Listener
	to     int // node
	target string

	mu    sync.Mutex
	cond  *sync.Cond
	cut   bool
	conns []net.Conn
}

func newRelay(to int, target string) (*relay, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	r := &relay{ln: ln, to: to, target: target}
	r.cond = sync.NewCond(&r.mu)
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go r.serve(c)
		}
	}()
	return r, nil
}

func (r *relay) setCut(cut bool) {
	r.mu.Lock()
	r.cut = cut
	r.mu.Unlock()
	r.cond.Broadcast()
}

// pass waits while the relay is cut.
func (r *relay) pass() {
	r.mu.Lock()
	for r.cut {
		r.cond.Wait()
	}
	r.mu.Unlock()
}

func (r *relay) serve(c net.Conn) {
	defer c.Close()
	r.pass()
	d, err := net.Dial("tcp", r.target)
	if err != nil {
		return
	}
	defer d.Close()
	r.mu.Lock()
	r.conns = append(r.conns, c, d)
	r.mu.Unlock()
	go r.copy(c, d)
	r.copy(d, c)
}

func (r *relay) copy(to, from net.Conn) {
	b := make([]byte, 64<<10)
	for {
		n, err := from.Read(b)
		r.pass()
		if _, failed := to.Write(b[:n]); err != nil || failed != nil {
			to.Close()
			from.Close()
			return
		}
	}
}

func (r *relay) drop() {
	r.setCut(false)
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.conns {
		c.Close()
	}
}
