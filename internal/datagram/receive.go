package datagram

import (
	"sync"

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

// of returns the datagrams of packets, until the next call.
func (l *bufList) of(ps []socket.Packet) [][]byte {
	l.bufs = l.bufs[:0]
	for i := range ps {
		l.add(&ps[i])
	}
	return l.bufs
}

const readPackets = 8

// serve reads a socket and calls handle with batches, and nil between them, until an error.
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
		handle(nil)
	}
}
