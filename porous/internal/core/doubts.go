package core

import (
	"time"

	"volley/internal/wire"
)

// A doubt is about a request to end the connection, or to begin a new one, which anybody
// can forge. The peer is pinged: if it has really ended the connection, or has started
// again, it answers no ping.
type doubt struct {
	there bool
	at    Clock  // since when
	id    uint16 // of the first ping since then
}

// begin begins to doubt. The caller sees to the ping.
func (d *doubt) begin(now Clock, ping uint16) { *d = doubt{there: true, at: now, id: ping} }

// answered ends the doubt, if the ping with an id was sent since it began.
func (d *doubt) answered(id uint16) { d.there = d.there && int16(id-d.id) < 0 }

// doubtsEnd reports whether a disconnect request is not believed (yet).
func (p *Peer) doubtsEnd(now Clock, out *wire.Batch) bool {
	if !p.ending.there {
		p.ending.begin(now, p.pingID+1)
		p.ping(now, out)
		return true
	}
	return now-p.ending.at < 2*max(p.send.rtt.rto(), 50*time.Millisecond)
}

const (
	// rivalTime is for how long pings are not answered, and timeouts at the
	// same time, before a peer that asks for a new connection is believed.
	rivalTime     = 3 * time.Second
	rivalTimeouts = 8
	rivalPings    = 100 * time.Millisecond // between pings meanwhile, at least
)

// meetsRival handles a request to connect that is not for this connection, and reports
// whether it is one. Either the peer has started again, or somebody forges it. So the
// peer is pinged, and the request is no sign of life. The connection ends if requests go
// on and no ping is answered.
func (p *Peer) meetsRival(now Clock, b []byte, out *wire.Batch) bool {
	c, ok := ParseConnect(b)
	if !ok || p.state != Connected || !p.cfg.VerifyRequest || c.ID == p.remoteID && !p.confirmed {
		return false
	}
	switch {
	case !p.rival.there:
		p.rival.begin(now, p.pingID+1)
		if now-p.lastPing >= rivalPings { // else Tick pings soon
			p.ping(now, out)
		}
	case now-p.rival.at >= max(rivalTime, rivalTimeouts*p.send.rtt.rto()):
		p.become(now, Zombie)
		p.h.HandleEvent(EventReplaced)
	}
	return true
}

// asksAgain reports whether our request is repeated though it was acknowledged, because
// the peer has not shown that it is connected: it may have started again meanwhile.
func (p *Peer) asksAgain() bool { return p.cfg.VerifyRequest && !p.confirmed }

// beginsOther reports whether a frame belongs to the window that begins with the other
// id of AlsoAsked, which is the only one from then on.
func (p *Peer) beginsOther(id uint32) bool {
	w := frameWindow{next: p.otherID, size: p.cfg.ReceiveFrames}
	if p.otherID == p.ownID || !w.accepts(id) {
		return false
	}
	p.ownID, p.recv.window = p.otherID, w
	return true
}
