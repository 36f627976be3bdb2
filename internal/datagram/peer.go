package datagram

import (
	"math"
	"net"
	"net/netip"
	"sync/atomic"
	"time"
	"unique"

	"volley/internal/deadline"
	"volley/internal/socket"
	"volley/internal/wire"
)

// A Peer is one remote address's Conn on a Mux, or one of several, see Mux.
type Peer struct {
	mux     *Mux
	addr    netip.AddrPort
	local   unique.Handle[netip.Addr] // that the peer knows us by; zero: the socket's
	handler Handler                   // set by Attach before the Peer is read
	alarm   alarm
	grave   atomic.Uint32 // milliseconds that the address stays closed after Close
	closed  atomic.Bool
	remote  atomic.Pointer[net.UDPAddr] // addr, once somebody has asked
}

var _ Conn = (*Peer)(nil)

func newPeer(m *Mux, r route) *Peer {
	p := &Peer{mux: m, addr: r.remote}
	if r.local.IsValid() {
		p.local = unique.Make(r.local) // many peers share a few
	}
	p.SetTombstone(m.cfg.Tombstone)
	p.alarm.of = p
	return p
}

// route returns how to reach the peer: as its first datagram came. What comes to other
// addresses of ours is for another Peer, or a forged datagram could turn our answers away.
// For a dialed one, the system chooses.
func (p *Peer) route() route {
	r := route{remote: p.addr}
	if p.local != (unique.Handle[netip.Addr]{}) {
		r.local = p.local.Value()
	}
	return r
}

// Attach gives the layer above: within Admit, or soon after Mux.Dial.
func (p *Peer) Attach(h Handler) error { return p.mux.attach(p, h) }

func (p *Peer) tick(now time.Time) time.Time {
	if p.closed.Load() {
		return time.Time{}
	}
	out := GetBatch()
	defer PutBatch(out)
	next := p.handler.HandleTick(now, out)
	p.WriteBatch(out)
	if p.closed.Load() {
		return time.Time{}
	}
	return next
}

// mayRead reports whether its readers may read the socket. Others would wait for several peers.
func (p *Peer) mayRead() bool { return p.mux.turns.mayRead(p) }

// ReadInline implements InlineReader.
func (p *Peer) ReadInline(d *deadline.Deadline, r Readers) bool {
	return p.mayRead() && p.mux.turns.readInline(d, p, r)
}

// InterruptInline implements InlineReader.
func (p *Peer) InterruptInline(r Readers) { p.mux.turns.interrupt(r) }

func (p *Peer) WriteBatch(b *wire.Batch) error {
	return sendBatch(&p.mux.turns, p.route(), b, &p.mux.writeErrors)
}

// WriteBatchBy implements Conn.
func (p *Peer) WriteBatchBy(b *wire.Batch, d *deadline.Deadline) (int, error) {
	return sendBatchBy(&p.mux.turns, p.route(), b, &p.mux.writeErrors, d)
}

func (p *Peer) Schedule(at time.Time) {
	if !p.closed.Load() {
		p.mux.timers.schedule(&p.alarm, at)
	}
}

// Postpone implements Postponer.
func (p *Peer) Postpone(at time.Time) {
	if !p.closed.Load() {
		p.mux.timers.postpone(&p.alarm, at)
	}
}

// SetTombstone implements TombstoneSetter.
func (p *Peer) SetTombstone(d time.Duration) {
	ms := max(d, 0) / time.Millisecond
	if d > ms*time.Millisecond {
		ms++
	}
	p.grave.Store(uint32(min(ms, math.MaxUint32)))
}

func (p *Peer) tombstone() time.Duration { return time.Duration(p.grave.Load()) * time.Millisecond }

// Close takes the address out of the Mux. A call that comes while another is at work
// returns with the address out, too.
func (p *Peer) Close() error {
	p.closed.Store(true)
	p.mux.timers.cancel(&p.alarm)
	return p.mux.remove(p)
}

func (p *Peer) WaitWritable(int, <-chan struct{}) error { return nil }
func (p *Peer) MaxDatagram() int                        { return p.mux.cfg.MaxDatagram }

// LocalAddr returns the address that the peer sends to, as far as it is known.
func (p *Peer) LocalAddr() net.Addr {
	addr := p.mux.sock.LocalAddr()
	if udp, ok := addr.(*net.UDPAddr); ok && p.route().local.IsValid() {
		return net.UDPAddrFromAddrPort(netip.AddrPortFrom(p.route().local, uint16(udp.Port)))
	}
	return addr
}

// RemoteAddr returns the address as the socket below knows it, the same value each time.
func (p *Peer) RemoteAddr() net.Addr {
	if a := p.remote.Load(); a != nil {
		return a
	}
	if m := p.mux.sock.Features().Addrs; m != nil {
		a := m.NetAddr(p.addr)
		if _, ok := a.(*net.UDPAddr); a != nil && !ok {
			return a
		}
	}
	p.remote.CompareAndSwap(nil, net.UDPAddrFromAddrPort(p.addr))
	return p.remote.Load()
}

// AddrPort returns the remote address.
func (p *Peer) AddrPort() netip.AddrPort { return p.addr }

// Stats returns what happened below all Conns of the Mux.
func (p *Peer) Stats() Stats { return p.mux.Stats() }

// Glance implements Glancer.
func (p *Peer) Glance() Stats { return p.mux.stats(socket.Stats{Drops: p.mux.drops.Load()}) }

// Linger implements Lingerer. A Mux that accepts, or has other Conns, reads on.
func (p *Peer) Linger() {
	if p.mayRead() && p.mux.lingers() {
		p.mux.turns.linger()
	}
}

// Features implements Conn.
func (p *Peer) Features() Features {
	below := p.mux.sock.Features()
	f := Features{Inline: p, Linger: p, Gather: p, Tombstone: p, After: p.mux, Postpone: p, System: below.System}
	if below.Peek != nil {
		f.Unread = p
	}
	if below.Drops {
		f.Glance = p
	}
	return f
}

// Unread implements UnreadTeller.
func (p *Peer) Unread() bool { return p.mux.turns.unread() }
