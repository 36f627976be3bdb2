package volley

import (
	"context"
	"net"
	"sync"
	"time"

	"volley/internal/datagram"
	"volley/internal/netconn"
	"volley/internal/outbox"
	"volley/internal/recording"
	"volley/internal/serve"
	"volley/reliable"
)

// A Conn is a message connection to one peer. Its methods may be called from
// several goroutines at once; each Write is one message, and messages of
// concurrent Writes do not mix.
type Conn struct {
	// constant after start
	set *settings

	// Two that mu guards, here for the sake of size.
	compact bool // no message since the endpoint was compacted
	known   bool // the peer has shown to be at its address, or nobody asks
	// And three more: Accept has returned it, and the peer may have to be asked. A hidden one
	// was begun by a hello alone, and Accept does not know it yet.
	accepted, asking, hidden bool
	renewals                 uint8 // of the endpoint, see numberLocked

	seat serve.Seat[*Conn] // where it is served

	user netconn.Side

	// mu guards everything below. Its holder owns the endpoint. It is never
	// held across I/O. The inbox's lock may be taken inside.
	mu       sync.Mutex
	out      outbox.Outbox // knows why writes fail, nil while the connection lives
	endpoint core          // its Start is constant after start
	greeting *greeting     // nil before there is one
	attached *attached     // nil before something is
	newest   uint64        // number of a received message, see numberLocked
	receipts *receipts

	lastSent, lastHeard clock // any packet
	lastMessage         clock // a message, either way
	tickAt              clock // when HandleTick has been asked for; 0: it has not
	counts              counts
}

var (
	_ net.Conn         = (*Conn)(nil)
	_ datagram.Handler = (*handler)(nil)
	_ reliable.Handler = (*sink)(nil)
	_ outbox.Owner     = (*framer)(nil)
	_ outbox.Framer    = (*framer)(nil)
)

func (c *Conn) start(dc datagram.Conn, set *settings) error {
	c.set = set
	c.askFirst()
	return c.startAfter(dc, set, dc.Stats())
}

// startAfter is start on a connection below for which something happened earlier.
func (c *Conn) startAfter(dc datagram.Conn, set *settings, earlier datagram.Stats) error {
	now := time.Now()
	c.set = set
	features := dc.Features()
	c.out.Init(&c.mu, dc, (*framer)(c), features.Waits)
	c.noteEarlier(earlier)
	c.user.Init(dc, set.readBuffer, set.reserve)
	c.user.In.Numbered()
	c.known = set.reserve == nil
	first := c.set.firstID()
	if err := c.endpoint.Init(c.coreConfig(now, first), now, first, (*sink)(c)); err != nil {
		return err
	}
	c.endpoint.inner().Doubt(!c.known)
	if e := features.Errors; e != nil {
		e.OnRefusal(c.user.In.Notice)
	}
	if err := dc.Attach((*handler)(c)); err != nil {
		return err
	}
	c.mu.Lock()
	if c.over() == nil { // else the layer below has ended it already
		c.scheduleLocked(now, 0)
	}
	c.mu.Unlock()
	return nil
}

// A clock is a time since born, cheaper than a time.Time. Those are named t, clocks now.
type clock = time.Duration

// born returns when the connection was made: the endpoint and its clocks begin then.
func (c *Conn) born() time.Time { return c.endpoint.inner().Start() }

func (c *Conn) now() clock { return time.Since(c.born()) }

// at returns a clock's time.
func (c *Conn) at(t clock) time.Time { return c.born().Add(t) }

// Read waits for a message and copies it to b. If b is too short, Read fills
// it, drops the rest of the message and returns io.ErrShortBuffer with n =
// len(b). With an empty b it returns 0, nil at once. Its other
// errors are
//   - io.EOF after the peer has closed, or a *[CloseError] if it has said why;
//   - a *[RefusedError] after the other side has refused the connection;
//   - [ErrPeerRestarted], and [ErrIdleTimeout] after silence, which is also what
//     remains where the peer could not tell that it closes;
//   - one that matches os.ErrDeadlineExceeded past the deadline, even if messages
//     wait;
//   - one that matches net.ErrClosed after Close;
//   - what broke the socket.
//
// A dialed connection returns an error that matches syscall.ECONNREFUSED once when the
// peer's machine says that nobody listens, and again only after it has heard the peer.
// No other error matches that, and the connection lives on: the peer may come yet, and
// anybody may have sent it. So a client tries again if
// errors.Is(err, syscall.ECONNREFUSED), and gives up at other errors.
func (c *Conn) Read(b []byte) (n int, err error) {
	n, err = c.user.Read(b)
	return n, c.opError("read", err)
}

// ReadMessage waits for a message, appends it to dst, and returns the result.
// Its errors are those of Read, without io.ErrShortBuffer, or the cause of the end of
// ctx.
func (c *Conn) ReadMessage(ctx context.Context, dst []byte) ([]byte, error) {
	p, _, err := c.user.ReadMessage(ctx, dst)
	return p, c.opError("read", err)
}

// MaxMessageSize returns the largest message in bytes that Write takes.
func (c *Conn) MaxMessageSize() int {
	return c.set.maxMessage
}

// KeepsOrder reports whether every message arrives, in the order of the Writes.
// That is so on a [Pipe] without links, and above one; over a network messages
// may be lost or overtake each other. It never changes. By this method, programs
// that take any net.Conn can tell message connections that keep order from
// others.
func (c *Conn) KeepsOrder() bool { return c.out.Below.Features().Lossless }

// LocalAddr returns the local address.
func (c *Conn) LocalAddr() net.Addr { return c.out.Below.LocalAddr() }

// RemoteAddr returns the peer's address.
func (c *Conn) RemoteAddr() net.Addr { return c.out.Below.RemoteAddr() }

// NetConn returns the connection below: what [NewConn] or the Accept of
// [NewListener] was given, or the *net.UDPConn of a dialed connection. It is to
// be asked, not used: nobody else may read it, write to it or close it. For
// connections of a [Listener] and of [Pipe] it is nil.
//
// It is the way to what a layer below knows of the peer. Over sessions of package
// netcode, c.NetConn().(*netcode.Conn) has the ClientID and UserData of the
// connect token.
func (c *Conn) NetConn() net.Conn {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.attached == nil {
		return nil
	}
	return c.attached.inner
}

// SetDeadline sets the deadlines of Read and Write. The zero time is none. A
// deadline concerns pending calls as well. After Close the error matches
// net.ErrClosed.
func (c *Conn) SetDeadline(t time.Time) error { return c.setDeadline(t, true, true) }

// SetReadDeadline sets the deadline of Read and ReadMessage.
func (c *Conn) SetReadDeadline(t time.Time) error { return c.setDeadline(t, true, false) }

// SetWriteDeadline sets the deadline of the calls that write. It ends their wait
// for each other, for room at the other end of a [Pipe], and on Linux for room in
// a UDP socket. Elsewhere, and in WriteTo of the application's net.PacketConn, it
// does not end a call that waits in the system.
func (c *Conn) SetWriteDeadline(t time.Time) error { return c.setDeadline(t, false, true) }

func (c *Conn) setDeadline(t time.Time, read, write bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.opError("set", c.user.SetDeadlineLocked(&c.out, t, read, write))
}

// Close closes the connection: messages that Write has accepted are given to
// the network, messages that nobody has read are dropped, and pending calls
// return an error that matches net.ErrClosed. Close may be called more than once and
// returns the first call's result.
//
// The peer is told, unless it is of the reference or has never answered. Two
// goodbyes leave before Close returns, so that a program may exit at once. Three more
// follow within two round trips, until the peer has heard one; so long the socket
// stays open. A connection of [NewConn] says all five at once and closes what is
// below.
func (c *Conn) Close() error { return c.CloseWithReason("") }

// An attached has what belongs to a connection at its edges, and the extra.
type attached struct {
	inner net.Conn // what NewConn was given, or the dialed socket; constant
	value any      // of SetValue
	extra *extra   // what few connections need before they end; nil before
}

func (c *Conn) attachedLocked() *attached {
	if c.attached == nil {
		c.attached = new(attached)
	}
	return c.attached
}

// An extra holds what most connections never need.
type extra struct {
	closed    chan struct{} // closed when the first call of Close is over; nil before that
	closeErr  error         // the result of all, set before that
	suspicion suspicion
	ending    error     // why the connection is about to end at the peer's word; nil: it is not
	last      *Stats    // of the end, once the endpoint is gone
	partedAt  clock     // of a goodbye to a PacketConn
	reason    string    // of that, or of our own Close
	foreign   bool      // it said that the peer has another ProtocolID
	moves     uint64    // to another way to the peer
	movedAt   clock     // when the last was; 0: never
	farewell  *farewell // nil unless Close has left something to be said
	restAt    clock     // no rest before, see RestUnlocking

	missing   uint64 // packets of the peer that have been passed by, and have not come
	forgotten uint64 // messages that have left the window before their fate was known
	undecided uint64 // messages whose fate only the end has decided
	looks     *looks // nil before Explain
	watched   *looks // the same for package volleydebug
	earlier   earlier
	rejected  *rejected         // nil: there were none
	tape      *recording.Stream // where the connection is captured; nil: it is not, or no more
}

// over returns the figures of the end; nil before.
func (c *Conn) over() *Stats {
	if c.extra() == nil {
		return nil
	}
	return c.extra().last
}

// extra returns what few connections need; nil before.
func (c *Conn) extra() *extra {
	if c.attached == nil {
		return nil
	}
	return c.attached.extra
}

func (c *Conn) extraLocked() *extra {
	a := c.attachedLocked()
	if a.extra == nil {
		a.extra = new(extra)
	}
	return a.extra
}

// end ends the connection from below or by timeout. Received messages can still be read.
func (c *Conn) end(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.endUnlocking(err)
}

// endUnlocking is end. What the peer has said comes before what was found here.
func (c *Conn) endUnlocking(err error) {
	if e := c.ending(); e != nil {
		err = e
	}
	if !c.user.EndLocked(&c.out, err) {
		return
	}
	c.releaseLocked()
	c.mu.Unlock()
	defer c.mu.Lock()
	c.user.In.End(err)
	c.seat.Ended((*served)(c))
	c.out.Below.Close()
	if c.set.onClose != nil {
		c.set.onClose(c)
	}
}

// finishUnlocking sends what is queued and a goodbye, and frees the endpoint. True: it lingers.
func (c *Conn) finishUnlocking(reason string) (lingers bool) {
	c.out.DrainUnlocking(func() {
		now := c.now()
		if c.endpoint.inner().AckOwed() {
			c.queueEmptyLocked(now)
		}
		if f := c.partLocked(now, reason); f != nil {
			c.extraLocked().farewell = f
		}
	})
	c.releaseLocked()
	f := c.extra().farewell
	if f != nil { // else the peer has heard already
		c.out.Below.Schedule(c.at(min(f.next, f.over)))
	}
	return f != nil
}

// releaseLocked gives the endpoint's memory back. Messages without a fate are lost.
func (c *Conn) releaseLocked() {
	last := c.statsLocked()
	c.extraLocked().last = &last
	c.buryLocked()
	c.free()
	c.noteUndecidedLocked()
	last.MessagesLost = c.counts.messagesLost
	last.Memory = 0
	c.receipts.tell()
}

// strayTime is how long after Close a first packet may still be a delayed copy.
const strayTime = time.Second

// buryLocked says how long the peer's address stays closed to its late datagrams. A new hello
// opens it before. A peer that has heard us sends only copies of its first ones; a peer that timed
// out sends none, and a peer that has started again may have a new connection.
func (c *Conn) buryLocked() {
	tombstone := c.out.Below.Features().Tombstone
	if c.greeting != nil {
		c.set.departed.add(c.greeting.peer)
	}
	switch {
	case tombstone == nil:
	case parting(c.ending()):
		tombstone.SetTombstone(strayTime)
	case c.out.Err() != net.ErrClosed:
		tombstone.SetTombstone(0)
	case c.over().PacketsAcked > 0:
		tombstone.SetTombstone(strayTime)
	}
}

// A handler is a Conn as the layer below sees it. The type hides these methods.
type handler Conn

// A sink is a Conn as its endpoint sees it.
type sink Conn

// A framer is a Conn as its outbox sees it.
type framer Conn
