package stacktest

import (
	"cmp"
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"volley/internal/datagram"
	"volley/internal/netconn"
	"volley/internal/wire"
)

// The toy protocol has little, but all the parts that one of volley's has: it
// stands on any Conn, dials and accepts on one socket, has channels with readers
// of their own, and a pace. A datagram begins with a channel, or is one byte.
const (
	toyHello, toyBye = 254, 255
	toyMessage       = 1000             // bytes at most
	toyPace          = time.Millisecond // between two messages
	toyCredit        = 10 * toyPace     // that a silence gives, at most
)

// A toy is a connection of two channels.
type toy struct {
	dc    datagram.Conn
	sides [2]netconn.Side
	mu    sync.Mutex // guards what follows; not held while dc is called
	queue [][]byte   // to be sent
	next  time.Time  // when the next one may leave
	ended bool       // there will be no next one
}

// newToy puts the protocol on a transport, which it takes over.
func newToy(dc datagram.Conn) (*toy, error) {
	c := &toy{dc: dc}
	for i := range c.sides {
		c.sides[i].Init(dc, 64<<10, nil)
	}
	if err := dc.Attach((*toyHandler)(c)); err != nil {
		dc.Close()
		return nil, err
	}
	return c, nil
}

// toyOver puts the protocol on a connection that preserves message boundaries.
func toyOver(inner net.Conn) (*toy, error) {
	const most = 1 + toyMessage
	dc, err := datagram.Over(inner, datagram.OverConfig{MaxDatagram: most, MaxForeign: most, MaxMessage: most})
	if err != nil {
		return nil, err
	}
	return newToy(dc)
}

func (c *toy) Read(channel int, b []byte) (int, error) { return c.sides[channel].Read(b) }

// Write queues a message, which leaves when its time has come.
func (c *toy) Write(channel byte, b []byte) error {
	if len(b) > toyMessage {
		return errors.New("toy: the message is too long")
	}
	if err := c.dc.WaitWritable(1+len(b), nil); err != nil {
		return err
	}
	c.mu.Lock()
	ended := c.ended
	if !ended {
		c.queue = append(c.queue, append([]byte{channel}, b...))
	}
	c.mu.Unlock()
	if ended {
		return net.ErrClosed
	}
	c.dc.Schedule(time.Now())
	return nil
}

// Close ends the connection at once. What is still queued is lost, for the toy
// promises nothing about what has not been read.
func (c *toy) Close() error {
	bye := new(wire.Batch)
	bye.Append([]byte{toyBye})
	c.dc.WriteBatch(bye)
	(*toyHandler)(c).HandleClose(net.ErrClosed)
	return c.dc.Close()
}

// A toyHandler is a toy as the layer below sees it.
type toyHandler toy

func (h *toyHandler) HandleBatch(_ time.Time, bufs [][]byte, _ *wire.Batch) {
	for _, b := range bufs {
		if len(b) == 1 && b[0] == toyBye {
			h.HandleClose(io.EOF)
		} else if len(b) > 1 && int(b[0]) < len(h.sides) {
			in := &h.sides[b[0]].In
			in.Lock()
			in.Push(b[1:])
			in.Unlock()
		}
	}
}

// HandleTick sends what the time since the last datagram allows.
func (h *toyHandler) HandleTick(now time.Time, out *wire.Batch) (next time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.next.Before(now.Add(-toyCredit)) {
		h.next = now // no credit for a long silence
	}
	for ; len(h.queue) > 0 && !h.next.After(now); h.queue = h.queue[1:] {
		out.Append(h.queue[0])
		h.next = h.next.Add(toyPace)
	}
	if len(h.queue) > 0 {
		return h.next
	}
	return time.Time{} // none, until Write asks for one
}

func (h *toyHandler) HandleClose(err error) {
	h.mu.Lock()
	h.ended, h.queue = true, nil
	h.mu.Unlock()
	h.sides[0].In.End(err)
	h.sides[1].In.End(err)
}

// WaitRoom waits for both channels, since it is not told for which.
func (h *toyHandler) WaitRoom(n int, cancel <-chan struct{}) error {
	return cmp.Or(h.sides[0].In.WaitRoom(n, cancel), h.sides[1].In.WaitRoom(n, cancel))
}
