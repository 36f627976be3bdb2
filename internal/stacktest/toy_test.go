package stacktest

import (
	"cmp"
	"errors"
	"io"
	"net"
	"net/netip"
	"sync"
	"time"

	"volley/internal/datagram"
	"volley/internal/netconn"
	"volley/internal/socket"
	"volley/internal/wire"
)

// Of the toy protocol, a datagram begins with its channel, or is one of two bytes.
const (
	toyHello, toyBye = 254, 255
	toyMost          = 1001             // bytes of a datagram
	toyPace          = time.Millisecond // between two messages
)

// A toy is a connection of two channels, whose messages leave in a pace.
type toy struct {
	dc    datagram.Conn
	sides [2]netconn.Side
	mu    sync.Mutex // guards what follows
	queue [][]byte   // to be sent
	next  time.Time  // when the next one may leave
	err   error      // how it has ended
}

func newToy(dc datagram.Conn, err error) (*toy, error) {
	if err != nil {
		return nil, err
	}
	c := &toy{dc: dc}
	c.sides[0].Init(dc, 64<<10, nil)
	c.sides[1].Init(dc, 64<<10, nil)
	if err := dc.Attach((*toyHandler)(c)); err != nil {
		return nil, errors.Join(err, dc.Close())
	}
	return c, nil
}

// toyOver puts the protocol on a connection that preserves message boundaries.
func toyOver(inner net.Conn) (*toy, error) {
	return newToy(datagram.Over(inner, datagram.OverConfig{MaxDatagram: toyMost, MaxForeign: toyMost, MaxMessage: toyMost}))
}

func (c *toy) Read(channel int, b []byte) (int, error) { return c.sides[channel].Read(b) }

// Write queues a message, which leaves when its time has come.
func (c *toy) Write(channel byte, b []byte) error {
	if len(b) >= toyMost {
		return errors.New("toy: the message is too long")
	} else if err := c.dc.WaitWritable(1+len(b), nil); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.queue = append(c.queue, append([]byte{channel}, b...))
		c.dc.Schedule(time.Now())
	}
	return c.err
}

// Close ends the connection at once. What is still queued is lost.
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

// HandleTick sends a message if the last one is long enough ago.
func (h *toyHandler) HandleTick(now time.Time, out *wire.Batch) (next time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.queue) > 0 && !h.next.After(now) {
		out.Append(h.queue[0])
		h.queue, h.next = h.queue[1:], now.Add(toyPace)
	}
	if len(h.queue) == 0 {
		return time.Time{}
	}
	return h.next
}

func (h *toyHandler) HandleClose(err error) {
	h.mu.Lock()
	h.err, h.queue = err, nil
	h.mu.Unlock()
	h.sides[0].In.End(err)
	h.sides[1].In.End(err)
}

func (h *toyHandler) WaitRoom(n int, c <-chan struct{}) error {
	return cmp.Or(h.sides[0].In.WaitRoom(n, c), h.sides[1].In.WaitRoom(n, c))
}

// A toySocket accepts and dials.
type toySocket struct {
	mux      *datagram.Mux
	accepted chan *toy
}

func newToySocket(pc net.PacketConn) (*toySocket, error) {
	sock, err := socket.New(pc, socket.Config{})
	if err != nil {
		return nil, err
	}
	s := &toySocket{accepted: make(chan *toy, 10)}
	s.mux = datagram.NewMux(sock, datagram.MuxConfig{Acceptor: s, MaxDatagram: toyMost, Tombstone: time.Second, MaxTombstones: 9})
	s.mux.Start()
	return s, nil
}

// Dial connects to an address, also to one that dials us at the same time.
func (s *toySocket) Dial(to netip.AddrPort) (*toy, error) {
	c, err := newToy(s.mux.Dial(to))
	if err == nil {
		err = c.Write(toyHello, nil)
	}
	return c, err
}

// HandleUnknown lets in who says hello, and tells who is late that it is over.
func (s *toySocket) HandleUnknown(_ time.Time, _ netip.AddrPort, late bool, bufs [][]byte, out *wire.Batch) datagram.Admit {
	if len(bufs[0]) == 1 && bufs[0][0] == toyHello {
		return func(_ time.Time, dc datagram.Conn) { // it must not wait: who reads for all peers calls it
			if c, err := newToy(dc, nil); err == nil && len(s.accepted) < cap(s.accepted) {
				s.accepted <- c
			} else if err == nil {
				c.Close()
			}
		}
	} else if late {
		out.Append([]byte{toyBye})
	}
	return nil
}
