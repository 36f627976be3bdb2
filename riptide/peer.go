package riptide

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"time"

	"volley/internal/wire"
)

// A Peer is a client of a Server. Its methods may be called from several
// goroutines at once.
type Peer struct {
	server *Server
	s      session
	id     uint16             // set before it is connected
	cancel context.CancelFunc // of the request; guarded by s.mu

	transport transport
	host      netip.Addr

	// guarded by Server.mu
	stage    stage
	entered  time.Time
	spoke    bool  // has asked to be accepted
	was      stage // before it had gone
	accepted time.Time
	order    uint64 // number of its join
}

// ID returns the client's number, 1 to [Server.MaxClients]. Another client may
// get it once this one has gone and Disconnected has returned.
func (p *Peer) ID() uint16 { return p.id }

// RemoteAddr returns the client's address.
func (p *Peer) RemoteAddr() net.Addr { return p.s.conn.RemoteAddr() }

// LocalAddr returns the address at which the client is served.
func (p *Peer) LocalAddr() net.Addr { return p.s.conn.LocalAddr() }

// Send copies and sends a message. If too much waits, see [Config.SendBuffer], it
// disconnects the client and returns [ErrSendBuffer]. Other errors are that of the
// message, and a *[DisconnectError] if the client has gone.
func (p *Peer) Send(m *Message) error {
	_, err := p.SendID(m)
	return err
}

// SendID is Send and returns the id that [Server.Delivered] or
// [Server.NotifyFate] gets of a reliable or notify message; 0 for others.
func (p *Peer) SendID(m *Message) (uint16, error) {
	if err := p.s.set.sendable(m); err != nil {
		return 0, err
	}
	id, err := p.s.send(m)
	if err == ErrSendBuffer {
		p.overflow()
	}
	return id, err
}

// overflow ends the connection of a client for which too much waits.
func (p *Peer) overflow() { p.kick(endPoor, endKicked, nil) }

// Kick disconnects the client and sends it the data, which may be nil. The error
// is that of the data.
func (p *Peer) Kick(data *Message) error {
	body, err := p.s.set.dataBody(data)
	if err != nil {
		return err
	}
	p.kick(endKicked, endKicked, body)
	return nil
}

func (p *Peer) kick(local, told endReason, body []byte) {
	p.s.do(func(_ time.Time, c *connection, out *wire.Batch) { c.kick(local, told, body, out) })
}

// announce tells the client that another one has come or gone.
func (p *Peer) announce(kind packetType, id uint16) {
	fits := true
	p.s.do(func(now time.Time, c *connection, out *wire.Batch) {
		if c.state != stateConnected {
			return
		}
		if fits = c.sender.fits(c.set.idBodySize(), c.set.sendBuffer); fits {
			c.sendID(now, kind, id, out)
		}
	})
	if !fits {
		p.overflow()
	}
}

// Stats returns the connection's counters and figures.
func (p *Peer) Stats() Stats { return p.s.stats() }

// SetTimeout changes [Config.Timeout] for this client, for instance while it
// loads a level. A negative timeout is none.
func (p *Peer) SetTimeout(d time.Duration) { p.s.change(func(set *settings) { set.timeout = d }) }

// SetIgnoreQuality changes [Config.IgnoreQuality] for this client.
func (p *Peer) SetIgnoreQuality(ignore bool) {
	p.s.change(func(set *settings) { set.quality = !ignore })
}

// peerOwner is a Peer as its session sees it.
type peerOwner Peer

var _ owner = (*peerOwner)(nil)

func (p *peerOwner) started() { p.server.work.Add(1) }
func (p *peerOwner) stopped() { p.server.work.Done() }

func (p *peerOwner) wants(kind packetType) bool {
	switch kind {
	case eventDelivered:
		return p.server.Delivered != nil
	case eventFate:
		return p.server.NotifyFate != nil
	}
	return false
}

func (p *peerOwner) joined() bool { return p.server.joined((*Peer)(p)) }
func (p *peerOwner) left(end)     { p.server.left((*Peer)(p)) }

func (p *peerOwner) panicked(v any) {
	logPanic(p.server.Logger, v, slog.Int("client", int(p.id)), slog.Any("remote", (*Peer)(p).RemoteAddr()))
	(*Peer)(p).kick(endKicked, endKicked, nil)
}

// event implements owner.
func (p *peerOwner) event(kind packetType, body []byte, m *Message) {
	s, peer := p.server, (*Peer)(p)
	switch kind {
	case typeUnreliable, typeNotify, typeReliable:
		s.handle(peer, kind, body, m)
	case eventConnected:
		if s.Connected != nil {
			s.Connected(peer)
		}
	case eventDelivered:
		s.Delivered(peer, eventID(body))
	case eventFate:
		s.NotifyFate(peer, eventID(body), body[2] == 1)
	case eventEnded:
		s.ended(peer, endOf(body))
	}
}
