package netcode

import (
	"context"
	"net"
	"sync"
	"time"

	"volley/internal/datagram"
	"volley/internal/netconn"
	"volley/internal/outbox"
)

// A Conn is a session: an encrypted connection on which every Write is one
// payload of 1 to [MaxPayload] bytes, which arrives whole, perhaps late or
// never, but not twice. Its methods may be called from several goroutines at
// once. [Dial] makes them at a client, [Listener.Accept] at a server.
type Conn struct {
	// constant after start
	dc      datagram.Conn
	remote  net.Addr
	sess    *session // its halves are guarded by sendMu and recvMu
	shared  *shared  // of the Listener; nil at a client
	slot    uint32   // the client's index
	slots   uint32
	born    time.Time
	onClose func() // may be nil

	user                netconn.Side
	closeOnce, goneOnce sync.Once
	closeErr            error

	// sendMu guards the sending half of the session, never held across I/O.
	// Packets leave in the order in which they are sealed.
	sendMu sync.Mutex
	out    outbox.Outbox // knows why writes fail, nil while the session lives
	sent   traffic
	above  datagram.Sender // whose datagrams have been gathered; set while out is busy with them

	accepted bool // Accept has returned it

	// recvMu guards the receiving half. It comes before sendMu, and is not held
	// while the layer above is called.
	recvMu   sync.Mutex
	upper    datagram.Handler // what has been stacked on this; nil: Read
	received traffic
	ended    bool
	attached bool // upper is taken, or about to be
	alive    bool // the peer has been heard since it was accepted

	// tickMu guards the time at which the layer above wants to be called.
	tickMu  sync.Mutex
	upperAt time.Time
}

// traffic counts the payloads of one direction.
type traffic struct{ payloads, bytes uint64 }

func (t *traffic) add(n int) {
	t.payloads++
	t.bytes += uint64(n)
}

var (
	_ net.Conn         = (*Conn)(nil)
	_ datagram.Handler = (*handler)(nil)
	_ outbox.Owner     = (*framer)(nil)
	_ outbox.Framer    = (*framer)(nil)
)

// init prepares c for a session on dc, which is attached by the caller.
func (c *Conn) init(dc datagram.Conn, sess *session, set *settings, reserve func(int) bool) {
	c.dc, c.sess, c.born = dc, sess, time.Now()
	c.remote = net.UDPAddrFromAddrPort(sess.addr)
	c.user.Init(dc, set.readBuffer, reserve)
	c.out.Init((*framer)(c), dc.Features().Waits)
}

// ErrTimeout ends a session whose peer has been silent for the timeout of its
// connect token. What arrived before is read first. It matches net.ErrClosed,
// and its Timeout is false, since the session does not come back.
var ErrTimeout error = &closedError{"netcode: session timed out: no packet from the peer within the timeout of its connect token"}

// errExhausted ends a session that has sent all the packets that its share of
// sequence numbers allows.
var errExhausted error = &closedError{"netcode: session has used up its sequence numbers, 2^40 packets"}

// A closedError ends a session.
type closedError struct{ msg string }

func (e *closedError) Error() string        { return e.msg }
func (e *closedError) Is(target error) bool { return target == net.ErrClosed }

// Read waits for a payload and copies it to b. If b is too short, Read fills
// it, drops the rest of the payload and returns io.ErrShortBuffer with n =
// len(b). With an empty b it returns 0, nil at once. It returns io.EOF after
// the peer has closed the session, [ErrTimeout] when it fell silent, and an
// error that matches os.ErrDeadlineExceeded past the deadline, even if payloads
// wait, or net.ErrClosed after Close.
func (c *Conn) Read(b []byte) (n int, err error) {
	n, err = c.user.Read(b)
	return n, c.opError("read", err)
}

// ReadPayload waits for a payload, appends it to dst, and returns the result.
// Its errors are those of Read, without io.ErrShortBuffer.
func (c *Conn) ReadPayload(dst []byte) ([]byte, error) {
	p, _, err := c.user.ReadMessage(context.Background(), dst)
	return p, c.opError("read", err)
}

// ClientID returns the client's number from its connect token. Only the
// server knows it: at the client's side it is 0. Of a connection on top of the
// session, such as a volley.Conn, NetConn returns the session.
func (c *Conn) ClientID() uint64 { return c.sess.id }

// UserData returns the 256 bytes that the backend put into the connect token.
// Only the server knows them: at the client's side it is nil.
func (c *Conn) UserData() []byte {
	if c.sess.client {
		return nil
	}
	return append([]byte(nil), c.sess.userData[:]...)
}

// ClientIndex returns the client's slot at the server, the lowest that was
// free when it connected, and the server's number of slots.
func (c *Conn) ClientIndex() (index, slots int) { return int(c.slot), int(c.slots) }

// MaxMessageSize returns the largest payload in bytes that Write takes, which is
// [MaxPayload].
func (c *Conn) MaxMessageSize() int { return MaxPayload }

// KeepsOrder reports whether every payload arrives, in the order of the Writes.
// That is so on a [Pipe]; over a network payloads may be lost or overtake each
// other. It never changes. By this method, programs that take any net.Conn can
// tell message connections that keep order from others.
func (c *Conn) KeepsOrder() bool { return c.dc.Features().Lossless }

// LocalAddr returns the local address.
func (c *Conn) LocalAddr() net.Addr { return c.dc.LocalAddr() }

// RemoteAddr returns the peer's address, at a client that of the server which
// accepted it.
func (c *Conn) RemoteAddr() net.Addr { return c.remote }

// SetDeadline sets the deadlines of Read and Write. The zero time is none. A
// deadline concerns pending calls as well. After Close the error matches
// net.ErrClosed.
func (c *Conn) SetDeadline(t time.Time) error {
	return c.setDeadline(t, true, true)
}

// SetReadDeadline sets the deadline of Read and ReadPayload.
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

// Close ends the session and tells the peer, ten times over, since nobody
// acknowledges it. Payloads that nobody has read are dropped, and pending
// calls return an error that matches net.ErrClosed. Close may be called more
// than once and returns the first call's result.
func (c *Conn) Close() error {
	c.closeOnce.Do(func() {
		c.disconnect()
		c.user.In.Fail(net.ErrClosed)
		c.closeErr = c.opError("close", c.dc.Close())
		c.gone()
	})
	return c.closeErr
}

// disconnect makes writes fail from now on and, unless the session has ended
// before, sends what is queued, tells the peer and forgets the key.
func (c *Conn) disconnect() {
	c.sendMu.Lock()
	defer c.sendMu.Unlock()
	if !c.user.CloseLocked(&c.out) {
		return
	}
	c.out.Take() // the peer's end is worth waiting for
	c.out.DrainUnlocking(func() {
		c.sess.send.disconnect(time.Now(), c.out.Batch(0))
	})
	c.sess.send.cipher = packetCipher{}
}

// stopSending makes writes fail with err from now on and forgets the key they
// used. It reports false if that has happened before.
func (c *Conn) stopSending(err error) bool {
	c.sendMu.Lock()
	defer c.sendMu.Unlock()
	if !c.user.EndLocked(&c.out, err) {
		return false
	}
	c.sess.send.cipher = packetCipher{}
	return true
}

// end ends the session from the other side or below. What has been received
// can still be read. It is called without a lock.
func (c *Conn) end(upper datagram.Handler, err error) {
	if !c.stopSending(err) {
		return
	}
	if upper != nil {
		upper.HandleClose(err)
	}
	c.user.In.End(err)
	c.dc.Close()
	c.gone()
}

// gone tells whoever made the Conn that it is no more.
func (c *Conn) gone() {
	if c.onClose != nil {
		c.goneOnce.Do(c.onClose)
	}
}

// opError wraps err, once, as functions of package net do.
func (c *Conn) opError(op string, err error) error {
	if err == nil {
		return nil
	}
	return netconn.OpError(op, c.dc.LocalAddr(), c.remote, err)
}

// A handler is a Conn as the layer below sees it; the type keeps these methods
// out of the public API.
type handler Conn

// A framer is a Conn as its outbox sees it.
type framer Conn
