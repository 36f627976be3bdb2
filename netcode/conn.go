package netcode

import (
	"context"
	"net"
	"sync"
	"time"

	"volley/internal/datagram"
	"volley/internal/netconn"
	"volley/internal/outbox"
	"volley/internal/serve"
	"volley/internal/sideband"
)

// A Conn is a session: an encrypted connection on which each Write sends one
// message of 1 to [MaxMessageSize] bytes. A message arrives whole, at most once,
// perhaps late or never. A Conn is safe for concurrent use. A client gets one from
// [Dial], a server from [Listener.Accept].
type Conn struct {
	// constant after start
	dc       datagram.Conn // a *datagram.Moving if there is an owner
	remote   net.Addr
	sess     *session // its halves are guarded by sendMu and recvMu
	shared   *shared  // of the Listener; nil at a client
	slot     uint32   // the client's index
	slots    uint32
	born     time.Time
	listener *Listener      // nil at a client
	onClose  func()         // at a client, may be nil
	owner    sideband.Owner // may be nil

	seat                serve.Seat[*Conn] // where it is served
	user                netconn.Side
	closeOnce, goneOnce sync.Once
	closeErr            error

	// sendMu guards the sending half of the session, never held across I/O.
	// Packets leave in the order in which they are sealed.
	sendMu sync.Mutex
	out    outbox.Outbox // knows why writes fail, nil while the session lives
	sent   traffic
	above  datagram.Sender // sender of the gathered datagrams; set while out is busy with them

	accepted bool          // Accept has returned it
	left     bool          // Close has ended it, and nothing before
	parting  chan struct{} // closed when the peer was told of the end; nil: it is not told
	value    any           // of SetValue
	kept     any           // of the owner
	on       goesOn

	// recvMu guards the receiving half. It comes before sendMu, and is not held
	// while the layer above is called.
	recvMu   sync.Mutex
	upper    datagram.Handler // the layer above; nil: Read
	received traffic
	ended    bool
	attached bool // upper is taken, or about to be
	alive    bool // the peer has been heard since it was accepted

	// tickMu guards the time at which the layer above wants to be called.
	tickMu  sync.Mutex
	upperAt time.Time
}

// traffic counts the messages of one direction.
type traffic struct{ messages, bytes uint64 }

func (t *traffic) add(n int) {
	t.messages++
	t.bytes += uint64(n)
}

var (
	_ net.Conn         = (*Conn)(nil)
	_ datagram.Handler = (*handler)(nil)
	_ outbox.Owner     = (*framer)(nil)
	_ outbox.Framer    = (*framer)(nil)
)

// init prepares c for a session on dc, which the caller attaches.
func (c *Conn) init(dc datagram.Conn, sess *session, set *settings, reserve func(int) bool) {
	c.dc, c.sess, c.born, c.owner = dc, sess, time.Now(), set.owner
	if c.owner != nil {
		c.sess.timeout = sideband.Grace
	}
	c.remote = net.UDPAddrFromAddrPort(sess.addr)
	c.user.Init(dc, set.readBuffer, reserve)
	c.out.Init(&c.sendMu, dc, (*framer)(c), dc.Features().Waits)
}

// Read waits for a message and copies it to b. If b is too short, Read fills b,
// drops the rest and returns io.ErrShortBuffer. An empty b returns 0, nil at once.
//
// Read returns io.EOF after the peer has closed the session, and [ErrIdleTimeout]
// after it fell silent. The error matches net.ErrClosed after Close, and
// os.ErrDeadlineExceeded after the deadline, even if messages wait.
func (c *Conn) Read(b []byte) (n int, err error) {
	n, err = c.user.Read(b)
	return n, c.opError("read", err)
}

// ReadMessage waits for a message, appends it to dst, and returns the result. The
// errors are those of Read, without io.ErrShortBuffer, or match the cause of ctx's
// end.
func (c *Conn) ReadMessage(ctx context.Context, dst []byte) ([]byte, error) {
	p, _, err := c.user.ReadMessage(ctx, dst)
	return p, c.opError("read", err)
}

// ClientID returns the client's number from its connect token. At the client's
// side it is 0. A connection on top of the session, such as a volley.Conn, returns
// the session by its method NetConn.
func (c *Conn) ClientID() uint64 { return c.sess.id }

// UserData returns the 256 bytes that the backend put into the connect token. At
// the client's side it is nil.
func (c *Conn) UserData() []byte {
	if c.sess.client {
		return nil
	}
	return append([]byte(nil), c.sess.userData[:]...)
}

// ClientIndex returns the client's slot at the server, which was the lowest free
// one, and the server's number of slots.
func (c *Conn) ClientIndex() (index, slots int) { return int(c.slot), int(c.slots) }

// MaxMessageSize returns the constant [MaxMessageSize]. It lets programs that take
// any net.Conn know message connections.
func (c *Conn) MaxMessageSize() int {
	if c.owner != nil {
		return MaxMessageSize - 1
	}
	return MaxMessageSize
}

// KeepsOrder reports whether each message arrives, in the order of the Writes, as
// on a [Pipe]. Over a network, messages may be lost or reordered.
func (c *Conn) KeepsOrder() bool { return c.dc.Features().Lossless }

// LocalAddr returns the local address.
func (c *Conn) LocalAddr() net.Addr { return c.dc.LocalAddr() }

// RemoteAddr returns the peer's address.
func (c *Conn) RemoteAddr() net.Addr {
	if c.owner != nil {
		return c.dc.RemoteAddr()
	}
	return c.remote
}

// SetDeadline sets the deadlines of reads and writes, also for pending calls. The
// zero time is none. After Close the error matches net.ErrClosed.
func (c *Conn) SetDeadline(t time.Time) error {
	return c.setDeadline(t, true, true)
}

// SetReadDeadline sets the deadline of Read and ReadMessage.
func (c *Conn) SetReadDeadline(t time.Time) error {
	return c.setDeadline(t, true, false)
}

// SetWriteDeadline sets the deadline of Write and WriteBatch.
func (c *Conn) SetWriteDeadline(t time.Time) error {
	return c.setDeadline(t, false, true)
}

func (c *Conn) setDeadline(t time.Time, read, write bool) error {
	c.sendMu.Lock()
	defer c.sendMu.Unlock()
	return c.opError("set", c.user.SetDeadlineLocked(&c.out, t, read, write))
}

// Close ends the session and tells the peer, in ten packets, because the peer does
// not acknowledge them. Messages that nobody has read are dropped, and pending
// calls return an error that matches net.ErrClosed. Later calls return the result
// of the first.
func (c *Conn) Close() error { return c.close(nil) }

// close is Close. A control message, if not nil, takes the place of the packets that end the session.
func (c *Conn) close(bye []byte) error {
	c.seat.Flush()
	c.closeOnce.Do(func() {
		c.disconnect(bye)
		c.user.In.Fail(net.ErrClosed)
		c.seat.Ended((*served)(c))
		c.closeErr = c.opError("close", c.dc.Close())
		c.gone()
	})
	return c.closeErr
}

// disconnect ends writes. If the session lives, it sends what is queued and tells the peer.
// Else the peer may just be told by somebody else: disconnect waits for that, because the
// socket is closed behind it.
func (c *Conn) disconnect(bye []byte) {
	c.sendMu.Lock()
	defer c.sendMu.Unlock()
	if !c.user.CloseLocked(&c.out) {
		if c.parting != nil {
			c.sendMu.Unlock()
			<-c.parting
			c.sendMu.Lock()
		}
		return
	}
	c.left = true
	c.partUnlocking(bye)
}

// partUnlocking sends what is queued after the end, and tells the peer.
func (c *Conn) partUnlocking(bye []byte) {
	c.parting = make(chan struct{})
	defer close(c.parting)
	c.out.Take() // the peer's end is worth waiting for
	c.out.DrainUnlocking(func() {
		if bye == nil {
			c.sess.send.disconnect(time.Now(), c.out.Batch(0))
			return
		}
		for range disconnectPackets {
			c.sess.sendBanded(time.Now(), controlBand, bye, c.out.Batch(0))
		}
	})
	c.sess.send.cipher.wipe()
}

// stopSending makes writes fail with err and forgets the key. A control message, if not nil, tells
// the peer. False: it had ended before.
func (c *Conn) stopSending(err error, bye []byte) bool {
	c.sendMu.Lock()
	defer c.sendMu.Unlock()
	if !c.user.EndLocked(&c.out, err) {
		return false
	}
	if bye != nil {
		c.partUnlocking(bye)
		return true
	}
	c.sess.send.cipher.wipe()
	return true
}

// end ends the session from outside. Received messages can still be read. No lock is held.
func (c *Conn) end(upper datagram.Handler, err error) { c.endTelling(upper, err, nil) }

// endTelling is end. A control message, if not nil, tells the peer.
func (c *Conn) endTelling(upper datagram.Handler, err error, bye []byte) {
	if !c.stopSending(err, bye) {
		return
	}
	if upper != nil {
		upper.HandleClose(err)
	}
	c.user.In.End(err)
	c.seat.Ended((*served)(c))
	c.dc.Close()
	c.gone()
}

// gone forgets the key of received packets, and calls onClose, once.
func (c *Conn) gone() {
	c.goneOnce.Do(func() {
		c.recvMu.Lock()
		c.ended = true
		c.sess.recv.cipher.wipe()
		c.recvMu.Unlock()
		switch {
		case c.listener != nil:
			c.listener.forget(c)
		case c.onClose != nil:
			c.onClose()
		}
		if c.owner != nil {
			c.owner.Ended(c)
		}
	})
}

// opError wraps err, once, as functions of package net do.
func (c *Conn) opError(op string, err error) error {
	if err == nil {
		return nil
	}
	return netconn.OpError(op, c.dc.LocalAddr(), c.RemoteAddr(), err)
}

// A handler is a Conn as the layer below sees it.
type handler Conn

// A framer is a Conn as its outbox sees it.
type framer Conn
