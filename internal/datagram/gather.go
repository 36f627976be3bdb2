package datagram

import (
	"volley/internal/socket"
	"volley/internal/wire"
)

// A Gathering is one pass over a socket for many peers: it gathers their
// datagrams, so that they leave in as few system calls as there can be, instead
// of one or more for each peer. The zero value is ready. It is for one
// goroutine; used again after Flush, it allocates nothing.
type Gathering struct {
	mux     *Mux // of all that is gathered
	data    wire.Batch
	parts   []gathered
	packets [gatherPackets]socket.Packet
	first   error
}

// A gathered part is the datagrams for one peer.
type gathered struct {
	to  route
	end int // of the datagrams in data
}

const (
	gatherPackets = 64
	// gatherBytes is how much is gathered before it is sent, in bytes.
	gatherBytes = 256 << 10
)

// A Gatherer is a Conn whose datagrams may leave in one pass with those of
// others.
type Gatherer interface {
	// Gather is WriteBatch, but what it sends may wait for g's Flush.
	Gather(g *Gathering, b *wire.Batch) error
}

// Write sends the datagrams of a batch to c, with those of others as far as c
// can: not before Flush, then. The batch is the caller's again on return.
func (g *Gathering) Write(c Conn, b *wire.Batch) {
	var err error
	if gatherer := c.Features().Gather; gatherer != nil {
		err = gatherer.Gather(g, b)
	} else {
		err = c.WriteBatch(b)
	}
	g.fail(err)
}

func (g *Gathering) fail(err error) {
	if g.first == nil {
		g.first = err
	}
}

// Gather implements Gatherer.
func (p *Peer) Gather(g *Gathering, b *wire.Batch) error {
	if g.mux != p.mux || g.data.Size()+b.Size() > gatherBytes {
		g.send()
		g.mux = p.mux
	}
	if b.Len() == 0 {
		return nil
	}
	for i := range b.Len() {
		g.data.Append(b.At(i))
	}
	g.parts = append(g.parts, gathered{p.route(), g.data.Len()})
	return nil
}

// Flush sends what has been gathered. It returns the first error since the last
// Flush; what was behind it has been sent all the same.
func (g *Gathering) Flush() error {
	g.send()
	err := g.first
	g.mux, g.first = nil, nil
	return err
}

func (g *Gathering) send() {
	if len(g.parts) == 0 {
		return
	}
	w := packetWriter{sock: g.mux.sock, errors: &g.mux.writeErrors}
	n, i := 0, 0
	for _, part := range g.parts {
		for i < part.end {
			if n == len(g.packets) {
				g.sendPackets(&w, n)
				n = 0
			}
			i = fillPacket(&g.packets[n], &g.data, i, part.end, part.to)
			n++
		}
	}
	g.sendPackets(&w, n)
	g.parts = g.parts[:0]
	g.data.Reset()
}

func (g *Gathering) sendPackets(w *packetWriter, n int) {
	_, err := w.write(g.packets[:n])
	g.fail(err)
	clear(g.packets[:n])
}
