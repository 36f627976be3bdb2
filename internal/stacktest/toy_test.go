package stacktest

import (
	"io"
	"net"
	"net/netip"
	"sync"
	"time"

	"volley/internal/datagram"
	"volley/internal/deadline"
	"volley/internal/inbox"
	"volley/internal/socket"
	"volley/internal/wire"
)

// The toy protocol has little, but all the parts that one of volley's has: it
// stands on any Conn, dials and accepts on one socket, has channels with readers
// of their own, and a pace. A datagram begins with a channel, or is one byte.
const (
	toyHello, toyBye = 254, 255
	toyMessage       = 1000             // bytes at most
	toyPace          = time.Millisecond // between two messages
)

// A toy is a connection of two channels.
type toy struct {
	dc    datagram.Conn
	in    [2]inbox.Inbox
	read  deadline.Deadline
	mu    sync.Mutex // guards what follows; not held while dc is called
	queue [][]byte   // to be sent
	next  time.Time  // when the next one may leave
}

// newToy puts the protocol on a transport, which it takes over.
func newToy(dc datagram.Conn) (*toy, error) {
	c := &toy{dc: dc}
	for i := range c.in {
		c.in[i].Init(64<<10, nil)
		c.in[i].SetPoller(dc.Features().Inline)
	}
	return c, dc.Attach((*toyHandler)(c))
}

// toyOver puts the protocol on a connection that preserves message boundaries.
func toyOver(inner net.Conn) (*toy, error) {
	dc := datagram.Below(inner)
	if dc == nil {
		dc = datagram.NewForeign(inner, 1+toyMessage, 1+toyMessage)
	}
	return newToy(dc)
}

func (c *toy) Read(channel int, b []byte) (int, error) {
	n, _, err := c.in[channel].Read(b, &c.read)
	return n, err
}

// Write queues a message, which leaves when its time has come.
func (c *toy) Write(channel byte, b []byte) error {
	if err := c.dc.WaitWritable(1+len(b), nil); err != nil {
		return err
	}
	c.mu.Lock()
	c.queue = append(c.queue, append([]byte{channel}, b...))
	c.mu.Unlock()
	c.dc.Schedule(time.Now())
	return nil
}

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
		} else if len(b) > 1 && int(b[0]) < len(h.in) {
			h.in[b[0]].Lock()
			h.in[b[0]].Push(b[1:])
			h.in[b[0]].Unlock()
		}
	}
}

// HandleTick sends what the time since the last datagram allows.
func (h *toyHandler) HandleTick(now time.Time, out *wire.Batch) (next time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.next.Before(now.Add(-10 * toyPace)) {
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

func (h *toyHandler) HandleClose(err error) { h.in[0].End(err); h.in[1].End(err) }
func (h *toyHandler) WaitRoom(n int, cancel <-chan struct{}) error {
	return h.in[0].WaitRoom(n, cancel)
}

// A toySocket accepts and dials.
type toySocket struct {
	mux      *datagram.Mux
	accepted chan *toy
}

func newToySocket(pc net.PacketConn) *toySocket {
	s := &toySocket{accepted: make(chan *toy, 10)}
	cfg := datagram.MuxConfig{Acceptor: s, MaxDatagram: 1 + toyMessage, Tombstone: time.Second, MaxTombstones: 9}
	s.mux = datagram.NewMux(socket.NewPacket(pc), cfg)
	s.mux.Start()
	return s
}

// Dial connects to an address, also to one that dials us at the same time.
func (s *toySocket) Dial(to netip.AddrPort) (*toy, error) {
	dc, err := s.mux.Dial(to)
	if err != nil {
		return nil, err
	}
	c, _ := newToy(dc) // no one else attaches to it
	return c, c.Write(toyHello, nil)
}

// HandleUnknown lets in who says hello, and tells who is late that it is over.
func (s *toySocket) HandleUnknown(_ time.Time, _ netip.AddrPort, late bool, bufs [][]byte, out *wire.Batch) datagram.Admit {
	if len(bufs[0]) == 1 && bufs[0][0] == toyHello {
		return func(_ time.Time, dc datagram.Conn) { c, _ := newToy(dc); s.accepted <- c }
	}
	if late {
		out.Append([]byte{toyBye})
	}
	return nil
}
