package datagram

import (
	"sync"
	"time"

	"volley/internal/socket"
)

// bufList is a reusable list of received datagrams.
type bufList struct{ bufs [][]byte }

var bufLists = sync.Pool{New: func() any { return &bufList{make([][]byte, 0, 64)} }}

func (l *bufList) put() {
	clear(l.bufs)
	l.bufs = l.bufs[:0]
	bufLists.Put(l)
}

// add splits a received packet into its datagrams.
func (l *bufList) add(p *socket.Packet) {
	rest := p.Buf
	for {
		var d []byte
		d, rest = socket.NextDatagram(rest, p.Segment)
		l.bufs = append(l.bufs, d)
		if rest == nil {
			return
		}
	}
}

const readPackets = 8

// serve reads from a socket and calls handle with each batch, until an error.
func serve(sock socket.Socket, handle func([]socket.Packet)) error {
	if l := sock.Features().Loop; l != nil {
		return l.ReadLoop(handle)
	}
	ps := make([]socket.Packet, readPackets)
	for {
		n, err := sock.ReadBatch(ps)
		if err != nil {
			return err
		}
		handle(ps[:n])
	}
}

// A reader decides what an error of a read means: go on, wait a little, or
// stop.
type reader struct{ failures int }

const (
	patience   = 16 // attempts in a row without a pause
	maxPause   = 100 * time.Millisecond
	firstPause = time.Millisecond
)

// again reports whether to read on after err, after a pause if need be.
func (r *reader) again(err error) bool {
	pause, ok := r.failed(err)
	time.Sleep(pause)
	return ok
}

// failed reports whether to read on after err, and after which pause. An error
// that ends the socket is returned to the layer above by the caller; a passing
// one that repeats itself is met with pauses, so that it cannot burn a core.
//
// A read takes an error that waits, and the next one finds the packets behind
// it. So there are several attempts after every pause: otherwise whoever sends
// us one ICMP message each pause would keep us from ever reading a packet.
func (r *reader) failed(err error) (pause time.Duration, again bool) {
	if !socket.IsTransient(err) {
		return 0, false
	}
	r.failures++
	if n := r.failures / patience; r.failures%patience == 0 {
		pause = min(maxPause, firstPause<<min(n-1, 7))
	}
	return pause, true
}

func (r *reader) ok() { r.failures = 0 }
