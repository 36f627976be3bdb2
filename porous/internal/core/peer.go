package core

import (
	"time"

	"volley/internal/wire"
)

// A State is that of a connection. It never goes back (S1).
type State uint8

const (
	Connecting State = iota
	Connected
	Disconnecting
	Disconnected // absorbs late duplicates, see S4
	Zombie       // final (S2)
)

func (s State) String() string {
	return [...]string{"connecting", "connected", "disconnecting", "disconnected", "zombie"}[s]
}

// An Event is what a Handler learns of the state.
type Event uint8

const (
	EventConnect     Event = iota // packets can be sent and received
	EventDisconnect               // the end of a connection, on either side's request (D5)
	EventTimeout                  // the peer fell silent (D6)
	EventRefused                  // incompatible, or ended by the peer before it began (C4, C5, D2)
	EventUnanswered               // the handshake did not finish in time (C9)
	EventUnconfirmed              // our own request to end was not answered in time (D4)
	EventReplaced                 // the peer has started again, see Config.VerifyRequest
)

// A Fate says what became of a packet.
type Fate struct {
	Number    uint64 // as returned by Send
	Channel   int
	Mode      Mode
	Size      int // bytes
	Delivered bool
	RTT       time.Duration // from Send to the acknowledgement that delivered it; 0 if lost
}

// A Handler is told what a Peer receives.
type Handler interface {
	// HandlePacket takes a packet, which is valid until it returns.
	HandlePacket(channel int, packet []byte)
	// HandleFate learns what became of a packet, once for each.
	HandleFate(Fate)
	HandleEvent(Event)
	// Unread returns how many bytes of a channel's packets, and of all
	// packets, wait to be read.
	Unread(channel int) (one, all int)
}

// A Peer is one connection. It must be set up by Init, and is not safe for concurrent use.
type Peer struct {
	cfg *Config
	h   Handler

	state      State
	acked      bool  // our request was
	requested  bool  // by the peer, compatibly
	flushing   bool  // to disconnect when everything is sent
	vainAt     Clock // when to disconnect all the same, since the peer is closing and takes nothing; 0: never
	ownID      uint32
	otherID    uint32 // of a request that the peer may have seen in its place; ownID: there is none
	remoteID   uint32
	bandwidth  uint64 // of sending, agreed upon (H6)
	requestAt  Clock  // when to repeat a request
	deadlineAt Clock  // when the state ends
	lastHeard  Clock
	lastPing   Clock
	pingID     uint16 // of the last ping
	pinging    bool   // it is unanswered
	timing     bool   // an answer to the ping timedID is a sample: the last one, or one before
	timedID    uint16
	timedAt    Clock        // when that was sent
	ending     verification // a disconnect request came
	restart    verification // a request to connect came that is not for this connection
	confirmed  bool         // the peer has sent what only a connected one does
	rejoined   bool         // an eager request was sent
	leaving    bool         // the peer has asked to end; acknowledgements are waited for
	leaveAt    Clock
	askedAt    Clock // when a request to end was last answered; 0: none was

	send sending
	recv receiving

	stats Stats
}

// Init sets p up with a random id of its request, which is sent until it is answered.
func (p *Peer) Init(now Clock, cfg *Config, id uint32, h Handler) {
	*p = Peer{cfg: cfg, h: h, ownID: id, otherID: id, lastHeard: now, requestAt: now, deadlineAt: now + cfg.HandshakeTimeout}
	p.send.init(p)
	p.recv.init(p)
}

// InitAccepted sets p up for a peer that has acknowledged the request's id already (R12).
func (p *Peer) InitAccepted(now Clock, cfg *Config, id uint32, h Handler) {
	p.Init(now, cfg, id, h)
	p.acked = true
}

// AlsoAsked adds the id of an earlier request, which the peer may acknowledge or begin with.
func (p *Peer) AlsoAsked(id uint32) { p.otherID = id }

// State returns the present state.
func (p *Peer) State() State { return p.state }

func (p *Peer) become(now Clock, s State) {
	if s <= p.state {
		return
	}
	p.state = s
	switch s {
	case Disconnecting:
		p.requestAt, p.deadlineAt = now, now+p.cfg.Linger
	case Disconnected:
		p.deadlineAt = now + p.cfg.Linger
	}
	if s > Connected {
		p.recv.deliver() // what came with the end
		p.send.release()
		p.recv.free()
	}
	if s > Disconnecting {
		p.recv.acks.free()
	}
}

// Receive takes a datagram. Answers are appended to out, those to data by EndBatch.
func (p *Peer) Receive(now Clock, b []byte, out *wire.Batch) {
	p.stats.Received++
	if len(b) == 0 || len(b) > p.cfg.MTU || FrameType(b[0]) > TypeDataAck {
		p.stats.Invalid++
		return
	}
	valid := true
	switch FrameType(b[0]) {
	case TypeConnect:
		if p.handleRestart(now, b, out) {
			return // which is no sign of life
		}
		valid = p.receiveConnect(now, b, out)
	case TypeConnectAck:
		valid = p.receiveConnectAck(now, b)
	case TypeDisconnect:
		if valid = ParseBare(b, TypeDisconnect); valid {
			p.receiveDisconnect(now, out)
		}
	case TypeDisconnectAck:
		if valid = ParseBare(b, TypeDisconnectAck); valid && p.state == Disconnecting {
			p.become(now, Disconnected)
			p.h.HandleEvent(EventDisconnect)
		}
	case TypePing:
		valid = p.receivePing(b, out)
	case TypePingAck:
		valid = p.receivePingAck(now, b)
	case TypeData:
		valid = p.receiveData(now, b)
	case TypeDataAck:
		valid = p.receiveDataAck(now, b)
	}
	if valid {
		p.lastHeard = max(p.lastHeard, now)
		p.confirmed = p.confirmed || p.state == Connected && FrameType(b[0]) >= TypePing
	} else {
		p.stats.Invalid++
	}
}

// receiveConnect handles a request (C2 to C4, C12).
func (p *Peer) receiveConnect(now Clock, b []byte, out *wire.Batch) bool {
	c, ok := ParseConnect(b)
	if !ok || p.state > Connected {
		return ok
	}
	if c.Version != p.cfg.Version || c.Channels != p.cfg.Channels {
		if p.state == Connecting {
			p.become(now, Disconnected)
			p.h.HandleEvent(EventRefused)
		}
		return true
	}
	AppendConnectAck(out.Extend(ConnectAckSize)[:0], c.ID)
	if p.state == Connected {
		return true
	}
	p.requested, p.remoteID = true, c.ID
	p.bandwidth = uint64(min(c.Bandwidth, p.cfg.SendBandwidth))
	if !p.acked && p.cfg.EagerRequest && !p.rejoined {
		p.rejoined = true
		p.request(now, out)
	}
	p.establish(now)
	return true
}

// receiveConnectAck handles the answer to our request (C3, C5).
func (p *Peer) receiveConnectAck(now Clock, b []byte) bool {
	id, ok := ParseConnectAck(b)
	if !ok || p.state != Connecting {
		return ok
	}
	if id != p.ownID && id != p.otherID {
		p.become(now, Disconnected)
		p.h.HandleEvent(EventRefused)
		return true
	}
	p.acked = true
	p.establish(now)
	return true
}

// establish ends the handshake when both halves of it are there (C3).
func (p *Peer) establish(now Clock) {
	if !p.acked || !p.requested {
		return
	}
	p.state = Connected
	p.lastHeard = now
	p.requestAt = now + p.cfg.RequestInterval
	p.recv.window = frameWindow{next: p.ownID, size: p.cfg.ReceiveFrames}
	p.send.establish(now, p.remoteID, p.bandwidth)
	p.lastPing = now - p.cfg.PingInterval // the first one at once
	p.h.HandleEvent(EventConnect)
}

// receiveDisconnect handles a request to end (D2, D3).
func (p *Peer) receiveDisconnect(now Clock, out *wire.Batch) {
	if p.state == Zombie {
		return
	}
	if p.state == Connected && p.cfg.VerifyDisconnect && !p.flushing && p.verifiesEnd(now, out) {
		return
	}
	if p.state == Connected && p.cfg.AwaitAcks && (p.leaving || p.send.queue.flight > 0) {
		if !p.leaving {
			p.leaving, p.leaveAt = true, now+p.cfg.RequestInterval*6/5
		}
		return
	}
	p.leave(now, out)
}

// leave ends the connection because the peer has asked for that.
func (p *Peer) leave(now Clock, out *wire.Batch) {
	AppendDisconnectAck(out.Extend(DisconnectAckSize)[:0])
	p.askedAt = now
	was := p.state
	p.become(now, Disconnected)
	switch was {
	case Connected, Disconnecting:
		p.h.HandleEvent(EventDisconnect)
	case Connecting:
		p.h.HandleEvent(EventRefused)
	}
}

// settleLeave ends the wait for acknowledgements after a peer's request to end.
func (p *Peer) settleLeave(now Clock, out *wire.Batch) {
	if p.state == Connected && p.leaving && (p.send.queue.flight == 0 || now >= p.leaveAt) {
		p.leave(now, out)
	}
}

// receivePing answers a ping, when connected (T14).
func (p *Peer) receivePing(b []byte, out *wire.Batch) bool {
	id, ok := ParsePing(b, TypePing)
	if ok && p.state == Connected {
		AppendPing(out.Extend(PingSize)[:0], TypePingAck, id)
	}
	return ok
}

// receivePingAck handles the answer to a ping. On a long path a new ping leaves before the
// answer comes. So one ping is timed until its answer, or a later one's, is there.
func (p *Peer) receivePingAck(now Clock, b []byte) bool {
	id, ok := ParsePing(b, TypePingAck)
	if !ok || p.state != Connected || !p.pinging {
		return ok
	}
	switch {
	case id == p.pingID:
		p.pinging, p.timing = false, false
		p.send.sample(now - p.lastPing)
	case !p.timing || id-p.timedID >= p.pingID-p.timedID:
		return true // of no ping, or too old
	default:
		p.timing = false
		if id == p.timedID {
			p.send.sample(now - p.timedAt)
		}
	}
	p.ending.answered(id)
	p.restart.answered(id)
	p.send.alive()
	return true
}

func (p *Peer) ping(now Clock, out *wire.Batch) {
	p.pingID++
	p.pinging, p.lastPing = true, now
	if !p.timing {
		p.timing, p.timedID, p.timedAt = true, p.pingID, now
	}
	AppendPing(out.Extend(PingSize)[:0], TypePing, p.pingID)
}

func (p *Peer) request(now Clock, out *wire.Batch) {
	AppendConnect(out.Extend(ConnectSize)[:0], Connect{
		Version:   p.cfg.Version,
		Channels:  p.cfg.Channels,
		Bandwidth: p.cfg.ReceiveBandwidth,
		ID:        p.ownID,
	})
	p.requestAt = now + p.cfg.RequestInterval
}

// EndBatch ends a batch of received datagrams: it delivers packets, and acknowledges.
func (p *Peer) EndBatch(now Clock, out *wire.Batch) {
	if p.state != Connected {
		return
	}
	p.recv.deliver()
	p.recv.acks.flush(out)
	p.settleLeave(now, out)
	p.finish(now)
}

// Disconnect ends in order (D1): with flush, when all has its fate. Tick sends the request.
func (p *Peer) Disconnect(now Clock, flush bool) {
	switch p.state {
	case Connecting:
		if p.flushing = flush && p.send.packets > 0; !p.flushing {
			p.become(now, Disconnected)
		}
	case Connected:
		p.flushing = true
		if !flush {
			p.become(now, Disconnecting)
		} else {
			p.finish(now)
		}
	}
}

// requestEnd asks the peer to end, with the last acknowledgements, which may be new to it.
func (p *Peer) requestEnd(now Clock, out *wire.Batch) {
	p.recv.acks.last(out)
	AppendDisconnect(out.Extend(DisconnectSize)[:0])
	p.recv.acks.last(out)
	p.requestAt = now + p.cfg.RequestInterval
}

// finish begins to disconnect when everything has been flushed.
func (p *Peer) finish(now Clock) {
	if p.flushing && p.state == Connected && (p.send.idle() || p.vainAt != 0 && now >= p.vainAt) {
		p.become(now, Disconnecting)
	}
}

// Abort ends at once and tells the peer; with linger, until that answers.
func (p *Peer) Abort(now Clock, out *wire.Batch, linger bool) {
	was := p.state
	switch {
	case linger && was == Connected:
		p.become(now, Disconnecting)
		p.requestEnd(now, out)
	case linger && (was == Disconnecting || was == Disconnected):
	case was == Connected || was == Disconnecting || was == Connecting && p.requested:
		p.requestEnd(now, out)
		fallthrough
	default:
		p.become(now, Zombie)
	}
}

// Move says that the peer is reached by another path.
func (p *Peer) Move(now Clock) {
	if p.state == Connected {
		p.send.move(now)
	}
}

// AnswerDue returns until when to expect an answer to our end: a doubted one takes two.
func (p *Peer) AnswerDue() Clock {
	begun := p.deadlineAt - p.cfg.Linger
	return max(begun, p.lastHeard) + max(p.cfg.RequestInterval*11/5, p.cfg.RequestInterval+4*p.send.rtt.rto())
}

// RestAt returns when a leaving peer would have repeated itself; 0: it does not leave.
func (p *Peer) RestAt() Clock {
	if p.askedAt == 0 {
		return 0
	}
	return p.askedAt + 4*p.cfg.RequestInterval
}

// Tick does what is due: requests, pings, timeouts, losses. Transmit follows it.
func (p *Peer) Tick(now Clock, out *wire.Batch) {
	switch p.state {
	case Connecting:
		if now >= p.deadlineAt {
			p.become(now, Zombie)
			p.h.HandleEvent(EventUnanswered)
		} else if !p.acked && now >= p.requestAt {
			p.request(now, out)
		}
	case Connected:
		if now-p.lastHeard >= p.cfg.Watchdog {
			p.become(now, Zombie)
			p.h.HandleEvent(EventTimeout)
			return
		}
		if p.settleLeave(now, out); p.state != Connected {
			return
		}
		if p.recv.dirty {
			p.recv.deliver() // what the last batch has left
		}
		p.send.tick(now)
		if p.asksAgain() && now >= p.requestAt {
			p.request(now, out)
		}
		if now >= p.pingAt() {
			p.ping(now, out)
		}
		p.finish(now)
		if p.state == Disconnecting {
			p.Tick(now, out)
		}
	case Disconnecting:
		if now >= p.deadlineAt {
			p.become(now, Disconnected)
			p.h.HandleEvent(EventUnconfirmed)
		} else if now >= p.requestAt {
			p.requestEnd(now, out)
		}
	case Disconnected:
		if now >= p.deadlineAt {
			p.become(now, Zombie)
		}
	}
}

// pingAt returns when a ping is due: after silence, until an answer, and at timeouts (T14, R4).
func (p *Peer) pingAt() Clock {
	wait := p.send.rtt.rto() // for the answer to the last one
	if p.lastHeard < p.lastPing {
		wait = p.send.rtt.avg // for a sign of life
	}
	switch {
	case p.send.loss.backoff > 0 && p.send.queue.flying > 0:
		return p.lastPing + max(wait, 50*time.Millisecond)
	case p.restart.there:
		return p.lastPing + max(wait, restartPings)
	case p.pinging:
		return p.lastPing + max(wait, min(time.Second, p.cfg.PingInterval))
	case p.send.rtt.samples == 0:
		return p.lastPing + p.cfg.PingInterval
	default:
		return max(p.lastPing, p.lastHeard) + p.cfg.PingInterval
	}
}

// Next returns when Tick or Transmit has something to do; false: never.
func (p *Peer) Next(now Clock) (at Clock, ok bool) {
	switch p.state {
	case Connecting:
		at = p.deadlineAt
		if !p.acked {
			at = min(at, p.requestAt)
		}
	case Connected:
		at = min(p.lastHeard+p.cfg.Watchdog, p.pingAt(), p.send.nextAt(now))
		if p.leaving {
			at = min(at, p.leaveAt)
		}
		if p.recv.dirty {
			at = min(at, now)
		}
		if p.vainAt != 0 {
			at = min(at, p.vainAt)
		}
		if p.asksAgain() {
			at = min(at, p.requestAt)
		}
	case Disconnecting:
		at = min(p.requestAt, p.deadlineAt)
	case Disconnected:
		at = p.deadlineAt
	default:
		return 0, false
	}
	return at, true
}
