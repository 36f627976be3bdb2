package volley

import (
	"io"
	"os"
	"time"

	"volley/internal/datagram"
	"volley/internal/deadline"
	"volley/internal/socket"
	"volley/internal/wire"
)

// How a Write leaves: straight out, in the caller, as long as Writes come at
// a measured pace, so that no message waits for what the caller computes next.
// In a flood, and while another goroutine is in the system call, it is framed
// into a queue, which leaves as few large segmented sends.
const (
	floodGap   = 10 * time.Microsecond  // Writes closer than this are a flood, ...
	floodAfter = 16                     // ... once there were so many
	floodMax   = 32                     // what a long flood counts
	floodSkip  = 3                      // Writes of a flood that need not look at the clock
	floodDecay = 100 * time.Microsecond // a pause of this takes one off the count
	queueAge   = 50 * time.Microsecond  // the longest a full flood keeps a message
	queueMax   = 128                    // datagrams
	queueBytes = 58 << 10               // bytes
	restEvery  = time.Millisecond       // at most so often a flood rests, ...
	restFor    = 20 * time.Microsecond  // ... for so long, ...
	restMost   = 640 * time.Microsecond // ... then for twice that, up to this, while nothing comes in,
	restInVain = 10 * time.Millisecond  // and then not for a while, see restLocked
	linger     = 100 * time.Millisecond // how long Close waits for a system call under way
)

// ackRoom is how many datagrams a lossless link may have waiting before the other
// side's writer waits, and ackMax how many there may be at all: enough to
// acknowledge all of the largest window twice.
const (
	ackRoom = 64
	ackMax  = queueMax + 2048
)

// A sender orders what leaves: messages, and what receiving and ticks have to
// say. Who finds busy false and sets it is the only one to transmit, without
// Conn.mu, until it resets it; what is framed meanwhile joins pending. While
// nobody is busy and there is something pending, somebody is about to be.
type sender struct {
	busy    bool
	turn    bool  // a Write to a link that has no room at times is under way
	skipped uint8 // Writes since the last look at the clock
	burst   uint8 // see flood
	waiters int32
	failure *error            // of what was sent on behalf of others, until a Write is told
	giveUp  deadline.Deadline // of Close: how long what was taken may still take
	free    chan struct{}     // one token: busy or pending has changed
	pending *wire.Batch       // framed and waiting to leave; nil when there is nothing
	oldest  clock             // when the first of pending came

	run       func() // Conn.flush, made once: starting it costs no allocation
	lastWrite clock  // at the last look
	restAt    clock  // not before
}

// flood counts the Writes since the last look at the clock, this one among
// them, and reports whether it is one of a flood.
func (s *sender) flood(now clock) bool {
	n := int(s.skipped) + 1
	gap := now - s.lastWrite
	s.lastWrite, s.skipped = now, 0
	burst := int(s.burst)
	if gap < clock(n)*floodGap {
		burst = min(burst+n, floodMax)
	} else if burst > 0 {
		burst = max(0, burst-n-int(min(gap/floodDecay, floodMax)))
	}
	s.burst = uint8(burst)
	return s.burst >= floodAfter
}

func (s *sender) full() bool {
	return s.pending != nil && (s.pending.Len() >= queueMax || s.pending.Size() >= queueBytes)
}

// Write sends b as one message. It returns len(b), or 0 and the error: a
// *MessageTooLargeError, or one that matches os.ErrDeadlineExceeded or
// net.ErrClosed (and io.ErrClosedPipe, if it was the peer who closed), or that
// ListenConfig.MaxMemory leaves no room for a first message. An empty message is
// not sent: Write returns 0, nil. That the network below refused a datagram for
// the moment is not an error; such a message is lost and counted in Stats.
func (c *Conn) Write(b []byte) (int, error) {
	if _, err := c.write(b, false); err != nil {
		return 0, c.opError("write", err)
	}
	return len(b), nil
}

// WriteMessage sends b as one message, as Write does, and returns its number,
// by which its [Receipt] will name it. The low 16 bits are its sequence number
// on the wire. An empty message is not sent and has no receipt: WriteMessage
// returns 0, nil, though 0 may be the number of another message. The first call
// turns receipts on.
func (c *Conn) WriteMessage(b []byte) (id uint64, err error) {
	id, err = c.write(b, true)
	return id, c.opError("write", err)
}

// WriteBatch sends each element of msgs as a message, in as few system calls
// as the platform allows, and returns when all have left. It returns how many
// of them it is done with; if not all, with the error that stopped it. An empty
// element counts, but is not sent.
func (c *Conn) WriteBatch(msgs [][]byte) (n int, err error) {
	if c.waits {
		for n < len(msgs) {
			if _, err = c.write(msgs[n], false); err != nil {
				break
			}
			n++
		}
		return n, c.opError("write", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.acquireLocked(); err != nil {
		return 0, c.opError("write", err)
	}
	defer c.releaseSendLocked(&c.writeDeadline)
	now := c.now()
	for n < len(msgs) {
		if err = c.checkLocked(msgs[n]); err != nil {
			break
		}
		if len(msgs[n]) > 0 {
			if c.send.full() {
				if c.sendPendingLocked(&c.writeDeadline) {
					c.restLocked(now)
				}
				now = c.now()
				continue
			}
			if _, err = c.frameLocked(now, msgs[n], c.pendingLocked(now)); err != nil {
				break
			}
			c.taken = true
		}
		n++
	}
	return n, c.opError("write", err)
}

func (c *Conn) write(b []byte, receipts bool) (id uint64, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.checkLocked(b); err != nil || len(b) == 0 {
		return 0, err
	}
	now, flood := c.writeTimeLocked()
	if receipts {
		c.armReceiptsLocked()
	}
	switch {
	case c.waits:
		return c.writeBlockingLocked(b)
	case c.send.busy || flood || c.send.full():
		return c.queueLocked(now, b)
	}
	return c.writeNowLocked(now, b)
}

// writeTimeLocked returns the time of a Write and whether it is one of a flood.
// To look at the clock takes as long as to frame a message; so of Writes that
// join the queue of a flood only each fourth does.
func (c *Conn) writeTimeLocked() (now clock, flood bool) {
	s := &c.send
	if s.burst >= floodAfter && s.pending != nil && s.skipped < floodSkip {
		s.skipped++
		return s.lastWrite, true
	}
	now = c.now()
	return now, s.flood(now)
}

// writeNowLocked sends a message in the caller, behind what is queued.
func (c *Conn) writeNowLocked(now clock, b []byte) (id uint64, err error) {
	c.send.busy = true
	defer c.releaseSendLocked(&c.writeDeadline)
	if c.send.pending != nil {
		if id, err = c.frameLocked(now, b, c.send.pending); err == nil {
			c.taken = true
		}
		return id, err
	}
	return c.sendOneLocked(now, b)
}

// sendOneLocked frames a message and transmits it; the caller is busy and nothing
// is pending.
func (c *Conn) sendOneLocked(now clock, b []byte) (id uint64, err error) {
	out := datagram.GetBatch()
	defer datagram.PutBatch(out)
	if id, err = c.frameLocked(now, b, out); err != nil {
		return 0, err
	}
	c.mu.Unlock()
	_, err = c.transmit(out, &c.writeDeadline)
	c.mu.Lock()
	if err == os.ErrDeadlineExceeded && c.err != nil {
		err = c.checkLocked(nil) // the end has set the deadline
	}
	return id, err
}

// checkLocked returns why a message cannot be written now.
func (c *Conn) checkLocked(b []byte) error {
	switch {
	case c.err == io.EOF:
		return datagram.ErrPeerClosed
	case c.err != nil:
		return c.err
	case c.send.failure != nil:
		err := *c.send.failure
		c.send.failure = nil
		return err
	case c.writeDeadline.Exceeded():
		return os.ErrDeadlineExceeded
	case len(b) > c.set.maxMessage:
		return &MessageTooLargeError{Size: len(b), Max: c.set.maxMessage}
	}
	return nil
}

// frameLocked gives a message of a valid size to the endpoint. The error is
// that a Listener's limit leaves no memory for its window.
func (c *Conn) frameLocked(now clock, b []byte, out *wire.Batch) (uint64, error) {
	id, err := c.endpoint.Send(c.at(now), b, out)
	if err != nil {
		return 0, err
	}
	c.counts.messagesSent++
	c.lastSent, c.lastMessage = now, max(c.lastMessage, now)
	c.activeLocked(now)
	return id, nil
}

// transmit hands a batch to the layer below. The error is one that ends the
// connection, or os.ErrDeadlineExceeded if there was no room for the datagrams
// from n on in time.
func (c *Conn) transmit(out *wire.Batch, d *deadline.Deadline) (n int, err error) {
	n, err = c.dc.WriteBatchBy(out, d)
	switch {
	case err == nil:
		return n, nil
	case n < out.Len():
		return n, os.ErrDeadlineExceeded
	}
	if socket.IsTransient(err) {
		return n, nil
	}
	return n, err
}

// writeBlockingLocked writes to a link that has no room at times: it waits for
// that first. One Write at a time does so, since the other side makes room for
// one message; but what receiving has to say need not wait for it.
func (c *Conn) writeBlockingLocked(b []byte) (id uint64, err error) {
	for c.send.turn {
		if err := c.waitSendLocked(); err != nil {
			return 0, err
		}
	}
	c.send.turn = true
	defer func() {
		c.send.turn = false
		c.notifySendLocked()
	}()
	c.mu.Unlock()
	err = c.dc.WaitWritable(len(b), c.writeDeadline.Arm())
	c.writeDeadline.Disarm()
	c.mu.Lock()
	if c.err != nil || err != nil {
		if e := c.checkLocked(b); e != nil {
			err = e
		}
		return 0, err
	}
	if err := c.acquireLocked(); err != nil {
		return 0, err
	}
	defer c.releaseSendLocked(&c.writeDeadline)
	for c.send.pending != nil {
		if c.sendPendingLocked(&c.writeDeadline); c.err != nil {
			return 0, c.checkLocked(b)
		}
	}
	return c.sendOneLocked(c.now(), b)
}

// queueLocked frames a message into the queue. The first one starts a
// goroutine that empties it; a full or old queue is emptied here.
func (c *Conn) queueLocked(now clock, b []byte) (uint64, error) {
	s := &c.send
	for s.full() {
		var err error
		if s.busy {
			err = c.waitSendLocked()
		} else {
			s.busy = true
			c.releaseSendLocked(&c.writeDeadline)
			c.restLocked(now)
			err = c.checkLocked(b) // the connection may have ended meanwhile
		}
		if err != nil {
			return 0, err
		}
		now = c.now()
	}
	first := s.pending == nil
	id, err := c.frameLocked(now, b, c.pendingLocked(now))
	switch {
	case err != nil && first:
		datagram.PutBatch(s.pending)
		s.pending = nil
		return 0, err
	case err != nil:
		return 0, err
	}
	c.taken = true
	switch {
	case s.busy:
	case first:
		go s.run()
	case now-s.oldest > queueAge:
		s.busy = true
		c.releaseSendLocked(&c.writeDeadline)
	}
	if !s.full() {
		c.notifySendLocked()
	}
	return id, nil
}

// restLocked lets acknowledgements in, now and then, when so many messages wait
// for theirs that the window will soon forget the oldest. With all processors
// busy the scheduler looks at the sockets only each 10 ms, in which a flood
// sends more than any window holds.
func (c *Conn) restLocked(now clock) {
	s := &c.send
	before := c.endpoint.InFlight()
	if before < c.set.reliable.MaxWindow/2 || c.set.reliable.MaxWindow == 0 || now < s.restAt {
		return
	}
	for d := restFor; d <= restMost; d *= 2 {
		c.mu.Unlock()
		time.Sleep(d)
		c.mu.Lock()
		if c.endpoint.InFlight() < before {
			s.restAt = c.now() + restEvery
			return
		}
	}
	s.restAt = c.now() + restInVain
}

// pendingLocked returns the queue.
func (c *Conn) pendingLocked(now clock) *wire.Batch {
	s := &c.send
	if s.pending == nil {
		s.pending = datagram.GetBatch()
		s.oldest = now
	}
	return s.pending
}

// flush empties the queue on a goroutine of its own, unless somebody else does
// already.
func (c *Conn) flush() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.send.busy {
		c.send.busy = true
		c.releaseSendLocked(&c.send.giveUp)
	}
}

// atOnce is a deadline for those who must not wait for room in a socket: who
// reads, and the timers.
var atOnce deadline.Deadline

func init() {
	atOnce.Set(longAgo)
	atOnce.Arm() // makes its channel here, and not within somebody's synctest bubble
	atOnce.Disarm()
}

// sendFreshLocked sends what is pending, unless that is older: then somebody is
// about to.
func (c *Conn) sendFreshLocked(older bool) {
	if s := &c.send; s.pending != nil && !older && !s.busy {
		s.busy = true
		c.releaseSendLocked(&atOnce)
	}
}

// releaseSendLocked empties the queue and lets the next sender in. If there is
// no room for it until the deadline, a goroutine goes on.
func (c *Conn) releaseSendLocked(d *deadline.Deadline) {
	s := &c.send
	for s.pending != nil {
		if c.sendPendingLocked(d) {
			continue
		}
		if d == &s.giveUp {
			datagram.PutBatch(s.pending)
			s.pending = nil
			c.clogged.Store(false)
			break
		}
		go s.run()
		break
	}
	c.taken = c.taken && s.pending != nil
	s.busy = false
	c.notifySendLocked()
}

// sendPendingLocked transmits the queue as it is now; the caller is busy. It
// reports false if there was no room for all of it until the deadline: the rest
// is pending again then, before what has come meanwhile.
func (c *Conn) sendPendingLocked(d *deadline.Deadline) bool {
	s := &c.send
	out := s.pending
	s.pending = nil
	c.clogged.Store(false)
	c.notifySendLocked()
	c.mu.Unlock()
	out = groupFragments(out)
	n, err := c.transmit(out, d)
	c.mu.Lock()
	late := n < out.Len()
	switch {
	case late:
		rest := datagram.GetBatch()
		for ; n < out.Len(); n++ {
			rest.Append(out.At(n))
		}
		if newer := s.pending; newer != nil {
			for i := range newer.Len() {
				rest.Append(newer.At(i))
			}
			datagram.PutBatch(newer)
		}
		s.pending = rest
	case err != nil && s.failure == nil:
		failure := err // only this one is to be allocated
		s.failure = &failure
	}
	datagram.PutBatch(out)
	return !late
}

// acquireLocked waits until nobody is busy and makes the caller so.
func (c *Conn) acquireLocked() error {
	if err := c.checkLocked(nil); err != nil {
		return err
	}
	for c.send.busy {
		if err := c.waitSendLocked(); err != nil {
			return err
		}
	}
	c.send.busy = true
	return nil
}

// waitSendLocked waits for a change of busy or pending, or the deadline.
func (c *Conn) waitSendLocked() error {
	s := &c.send
	free := c.addWaiterLocked()
	c.mu.Unlock()
	passed := c.writeDeadline.Arm()
	select {
	case <-free:
	case <-passed:
	}
	c.writeDeadline.Disarm()
	c.mu.Lock()
	s.waiters--
	err := c.checkLocked(nil)
	if err != nil {
		c.notifySendLocked() // the token may have been for somebody else
	}
	return err
}

func (c *Conn) addWaiterLocked() <-chan struct{} {
	s := &c.send
	if s.free == nil {
		s.free = make(chan struct{}, 1)
	}
	s.waiters++
	return s.free
}

func (c *Conn) notifySendLocked() {
	if c.send.waiters > 0 {
		select {
		case c.send.free <- struct{}{}:
		default:
		}
	}
}

// drainLocked sends the queue and a last acknowledgement, if one is owed, before
// the connection goes. What Writes are done with may take as long as linger; the
// rest leaves at once or not at all.
func (c *Conn) drainLocked() {
	s := &c.send
	until := longAgo
	if c.taken {
		until = time.Now().Add(linger)
	}
	s.giveUp.Set(until)
	var timeout <-chan time.Time
	for s.busy {
		if timeout == nil {
			t := time.NewTimer(linger)
			defer t.Stop()
			timeout = t.C
		}
		free := c.addWaiterLocked()
		c.mu.Unlock()
		late := false
		select {
		case <-free:
		case <-timeout:
			late = true
		}
		c.mu.Lock()
		s.waiters--
		if late {
			return
		}
	}
	now := c.now()
	if _, owed := c.ackDueLocked(now); owed {
		c.queueEmptyLocked(now)
	}
	s.busy = true
	c.releaseSendLocked(&s.giveUp)
}
