package porous

import (
	"io"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"volley/internal/datagram"
	"volley/internal/outbox"
	"volley/internal/recording"
	"volley/internal/serve"
	"volley/porous/internal/core"
)

// A Conn is a connection to one peer, and at the same time its channel 0: it has
// all methods of [Channel], and so is a net.Conn. Read, Write, ReadMessage,
// WriteMessage and the deadlines concern channel 0; Close and Stats the whole
// connection. Its methods may be called from several goroutines at once.
type Conn struct {
	zero // channel 0

	// constant after start
	set       *settings
	addr      netip.AddrPort // of a Listener's peer
	inner     net.Conn       // what NewConn was given, or the dialed socket
	born      time.Time
	onConnect func() // of a Listener; may be nil
	onGone    func() // may be nil; called once

	seat          serve.Seat[*Conn] // where it is served
	servedChannel int               // of the message at hand; belongs to who serves

	channels []atomic.Pointer[Channel]
	gone     sync.Once

	// mu guards everything below. Its holder owns the peer. It is never held
	// across I/O. The inboxes' locks may be taken inside.
	mu        sync.Mutex
	out       outbox.Outbox // knows why calls fail, nil while the connection lives
	peer      core.Peer
	connected bool
	accepted  bool // Accept or Dial has returned it
	handling  bool // HandleBatch runs
	value     any  // of SetValue
	compact   bool
	released  bool  // dc has been closed
	vanished  bool  // the peer was silent: the address stays open, for nothing of it comes late
	events    uint8 // those that have not been looked at, a bit for each
	now       core.Clock
	tickAt    core.Clock    // when HandleTick has been asked for; 0: it has not
	lastBusy  core.Clock    // when a message was last sent or received
	pushed    []*Channel    // that have got messages in this batch; their inboxes are locked
	unread    int           // bytes that wait for Read in all channels, as of this batch
	wrote     core.Clock    // when a Write last looked at the clock
	flood     outbox.Flood  // of Writes
	messages  uint16        // of a flood, that have gathered since frames were last filled
	gathered  int32         // their bytes
	waiters   int32         // calls that wait for room or for fates
	writers   int32         // of them, those that wait for room
	wakeAt    core.Clock    // when those are to be woken though there is little; 0: there is none
	change    chan struct{} // closed when something has changed for them; nil without any
	receipts  *receipts
	lost      *undelivered // what the end has lost; nil: nothing
	last      *core.Stats  // of the end
	closing   *closing     // the first call of Close or Shutdown; nil before it
	restAt    core.Clock   // until when a closed connection lingers at most; 0: it does not
	counts    counts
	overuse   *overuse          // nil: it has no more than its part
	chunks    atomic.Int64      // bytes in which messages wait for Read, of limits
	tape      *recording.Stream // where the connection is captured; nil: it is not, or no more
}

// zero is how a Conn embeds its channel 0.
type zero = Channel

var (
	_ net.Conn         = (*Conn)(nil)
	_ datagram.Handler = (*handler)(nil)
	_ core.Handler     = (*sink)(nil)
	_ outbox.Owner     = (*framer)(nil)
	_ outbox.Refiller  = (*framer)(nil)
)

// undelivered are reliable messages that the end of a connection has lost.
type undelivered struct{ messages, bytes int }

// ids are those of our request to connect.
type ids struct {
	own      uint32
	other    uint32 // of one that the peer may have been sent before; own: there was none
	accepted bool   // the peer has acknowledged own
}

func (c *Conn) start(dc datagram.Conn, set *settings, id ids) error {
	c.init(dc, set)
	startPeer(&c.peer, c.coreConfig(id), id, (*sink)(c))
	if err := dc.Attach((*handler)(c)); err != nil {
		return err
	}
	c.mu.Lock()
	c.scheduleLocked()
	c.mu.Unlock()
	return nil
}

func startPeer(p *core.Peer, cfg *core.Config, id ids, h core.Handler) {
	if id.accepted {
		p.InitAccepted(0, cfg, id.own, h)
	} else {
		p.Init(0, cfg, id.own, h)
	}
	p.AlsoAsked(id.other)
}

func (c *Conn) init(dc datagram.Conn, set *settings) {
	c.set, c.born = set, time.Now()
	c.out.Init(&c.mu, dc, (*framer)(c), false)
	c.channels = make([]atomic.Pointer[Channel], set.core.Channels)
	c.zero.init(c, 0)
	c.channels[0].Store(&c.zero)
}

// timeLocked returns the present, which never goes back.
func (c *Conn) timeLocked() core.Clock {
	c.now = max(c.now, time.Since(c.born))
	return c.now
}

// Channel returns the channel with the number n, which is less than
// Config.Channels. It panics if there is no such channel.
func (c *Conn) Channel(n int) *Channel {
	if ch := c.channels[n].Load(); ch != nil {
		return ch
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.channelLocked(n)
}

func (c *Conn) channelLocked(n int) *Channel {
	ch := c.channels[n].Load()
	if ch == nil {
		ch = new(Channel)
		ch.init(c, n)
		c.endChannelLocked(ch)
		c.channels[n].Store(ch)
	}
	return ch
}

// NetConn returns the connection below: the argument of [NewConn], or the *net.UDPConn of
// a dialed connection, which must be neither read nor closed. It is nil for connections of
// a [Listener] and of [Dialer.DialOn].
func (c *Conn) NetConn() net.Conn { return c.inner }

// writeErrorLocked returns why nothing can be sent, nil while the connection lives.
func (c *Conn) writeErrorLocked() error {
	if err := c.out.Err(); err != io.EOF {
		return err
	}
	return datagram.ErrPeerClosed
}

// endLocked ends the connection, not by Close: data can be read. io.EOF: it was the peer.
func (c *Conn) endLocked(err error) {
	if c.zero.user.EndLocked(&c.out, err) {
		c.endChannelsLocked()
	}
}

// closeLocked ends the connection for all calls.
func (c *Conn) closeLocked() {
	c.zero.user.CloseLocked(&c.out)
	c.endChannelsLocked()
}

// closedLocked reports whether Close, Shutdown or Abort has been called.
func (c *Conn) closedLocked() bool { return c.out.Err() != nil && !c.out.EndedBelow() }

func (c *Conn) endChannelsLocked() {
	for i := range c.channels {
		if ch := c.channels[i].Load(); ch != nil {
			c.endChannelLocked(ch)
		}
	}
	c.seat.Ended((*served)(c))
	c.notifyLocked()
}

// endChannelLocked ends the calls of a channel, if the connection has ended.
func (c *Conn) endChannelLocked(ch *Channel) {
	switch err := c.out.Err(); {
	case err == nil:
		return
	case c.out.EndedBelow():
		ch.user.In.End(err)
	default:
		ch.user.In.Fail(net.ErrClosed)
	}
	ch.writeDeadline.Expire()
}

// finishLocked ends the protocol: nothing is sent any more.
func (c *Conn) finishLocked() {
	if c.last == nil {
		st := c.peer.Stats()
		c.last = &st
	}
}

func (c *Conn) release() error {
	c.mu.Lock()
	first := !c.released // the peer's end and Close may come at once
	c.released = true
	c.endCaptureLocked()
	if grave := c.out.Below.Features().Tombstone; grave != nil && first && c.vanished && c.addr.IsValid() {
		grave.SetTombstone(0)
	}
	c.mu.Unlock()
	err := c.out.Below.Close()
	c.forget()
	return err
}

// forget calls onGone, once.
func (c *Conn) forget() {
	c.gone.Do(func() {
		if c.onGone != nil {
			c.onGone()
		}
	})
}

// A handler is a Conn as the layer below sees it. The type hides these methods.
type handler Conn

// A sink is a Conn as its core sees it.
type sink Conn

// A framer is a Conn as its outbox sees it.
type framer Conn
