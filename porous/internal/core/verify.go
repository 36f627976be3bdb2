package core

import (
	"time"

	"volley/internal/wire"
)

// A verification is about a request to end or replace the connection, which may be forged. The peer
// is pinged, and answers no ping if the request is true.
type verification struct {
	there bool
	id    uint16 // of the first ping since it began
	quiet uint32 // for how long no ping was answered, in microseconds, see unanswered
	at    Clock  // since when
}

// begin begins a verification. The caller sends the ping.
func (v *verification) begin(now Clock, ping uint16) {
	*v = verification{there: true, at: now, id: ping}
}

// answered ends the verification, if the ping with an id was sent since it began.
func (v *verification) answered(id uint16) { v.there = v.there && int16(id-v.id) < 0 }

// unanswered returns for how long requests have gone on and no ping was answered. If the process
// or its reader stood still, the answers may wait behind this request. So the time since the
// last request counts up to a limit.
func (v *verification) unanswered(now Clock) time.Duration {
	v.quiet += uint32(min(now-v.at, restartGap) / time.Microsecond)
	v.at = now
	return time.Duration(v.quiet) * time.Microsecond
}

// verifiesEnd reports whether a disconnect request is not believed (yet).
func (p *Peer) verifiesEnd(now Clock, out *wire.Batch) bool {
	if !p.ending.there {
		p.ending.begin(now, p.pingID+1)
		p.ping(now, out)
		return true
	}
	return now-p.ending.at < 2*max(p.send.rtt.rto(), 50*time.Millisecond)
}

const (
	// restartTime is for how long pings are not answered, and timeouts at the
	// same time, before a peer that asks for a new connection is believed.
	restartTime     = 3 * time.Second
	restartTimeouts = 8
	restartPings    = 100 * time.Millisecond // between pings meanwhile, at least
	restartGap      = time.Second            // counts between two requests, at most: peers repeat them sooner
)

// handleRestart handles a request to connect that is not for this connection, and reports
// whether it is one. Either the peer has started again, or somebody forges it. So the
// peer is pinged, and the request is no sign of life. The connection ends if requests go
// on and no ping is answered.
func (p *Peer) handleRestart(now Clock, b []byte, out *wire.Batch) bool {
	c, ok := ParseConnect(b)
	if !ok || p.state != Connected || !p.cfg.VerifyRequest || c.ID == p.remoteID && !p.confirmed {
		return false
	}
	switch {
	case !p.restart.there:
		p.restart.begin(now, p.pingID+1)
		if now-p.lastPing >= restartPings { // else Tick pings soon
			p.ping(now, out)
		}
	case p.restart.unanswered(now) >= max(restartTime, restartTimeouts*p.send.rtt.rto()):
		p.become(now, Zombie)
		p.h.HandleEvent(EventReplaced)
	}
	return true
}

// asksAgain reports whether our request is repeated though it was acknowledged, because
// the peer has not shown that it is connected: it may have started again meanwhile.
func (p *Peer) asksAgain() bool { return p.cfg.VerifyRequest && !p.confirmed }

// beginsOther reports whether a frame is in AlsoAsked's window, which then is the only one.
func (p *Peer) beginsOther(id uint32) bool {
	w := frameWindow{next: p.otherID, size: p.cfg.ReceiveFrames}
	if p.otherID == p.ownID || !w.accepts(id) {
		return false
	}
	p.ownID, p.recv.window = p.otherID, w
	return true
}
