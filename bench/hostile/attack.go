package main

import (
	"net"
	"time"

	"volley/reliable"
)

// An attack sends what a server has to bear beside its live sessions.
type attack interface {
	// flood sends so many datagrams a second for a time, and returns how many.
	flood(rate int, length time.Duration) (sent uint64, err error)
	close()
}

// A kind is one of the attacks.
type kind struct {
	name, title string
	alone       bool // a server without sessions is measured, too
	begin       func(server, addr string) (attack, error)
	report      func(all map[string][]run, o *options) string
}

var kinds = []kind{
	{"openings", "Forged openings", true, newForger, reportOpenings},
	{"fragments", "Unfinished messages", false, newFragments, reportFragments},
	{"readers", "Slow readers", false, newReaders, reportReaders},
}

// sendEvenly calls send at a rate for a time.
func sendEvenly(rate int, length time.Duration, send func() error) (sent uint64, err error) {
	begin := time.Now()
	for {
		passed := time.Since(begin)
		if passed >= length {
			return sent, nil
		}
		for due := uint64(passed.Seconds() * float64(rate)); sent < due; sent++ {
			if err := send(); err != nil {
				return sent, err
			}
		}
		time.Sleep(time.Millisecond)
	}
}

// peers are clients that keep the rules of connecting, and break others.
type peers struct {
	conns []net.Conn
	msg   []byte
	next  int
}

func (p *peers) flood(rate int, length time.Duration) (uint64, error) {
	return sendEvenly(rate, length, func() error {
		p.next++
		_, _ = p.conns[p.next%len(p.conns)].Write(p.msg) // a full buffer refuses it
		return nil
	})
}

func (p *peers) close() {
	for _, c := range p.conns {
		c.Close()
	}
}

// join adds so many clients. Their ids begin behind those of the sessions.
func (p *peers) join(server, addr string, n int, below func(net.Conn) net.Conn) error {
	for i := range n {
		c, err := dial(server, addr, uint64(1_000_000+i), below)
		if err != nil {
			p.close()
			return err
		}
		p.conns = append(p.conns, c)
	}
	return nil
}

// unfinished is the size of a message that needs two fragments.
const unfinished = 1500

// newFragments returns a client that sends the first of two fragments of each message.
func newFragments(server, addr string) (attack, error) {
	p := &peers{msg: make([]byte, unfinished)}
	return p, p.join(server, addr, 1, func(c net.Conn) net.Conn { return firstOnly{c} })
}

// A firstOnly sends the first fragment of each message, and whole messages.
type firstOnly struct{ net.Conn }

func (c firstOnly) Write(b []byte) (int, error) {
	if f, err := reliable.ParseFragment(b, 256, 1024); err == nil && f.ID > 0 {
		return len(b), nil
	}
	return c.Conn.Write(b)
}

const (
	stalled      = 100  // clients whose messages the server does not read
	stallMessage = 1    // size of a message after which it does not read on
	unread       = 1000 // size of the others

	readBuffer = 256 << 10       // bytes that the server holds for each connection
	fill       = 2 * time.Second // in which the clients send more than that
)

// A readers is clients whose messages the server reads until they stall.
type readers struct{ peers }

func newReaders(server, addr string) (attack, error) {
	r := &readers{peers{msg: make([]byte, unread)}}
	return r, r.join(server, addr, stalled, nil)
}

// stall has the server read no more, and fills what it holds for them.
func (r *readers) stall(rate int) error {
	for _, c := range r.conns {
		if _, err := c.Write(make([]byte, stallMessage)); err != nil {
			return err
		}
	}
	_, err := r.flood(rate, fill)
	return err
}
