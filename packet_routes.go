package volley

import (
	"errors"
	"net"
	"net/netip"
	"runtime"
	"time"

	"volley/internal/datagram"
)

// A socket on all addresses of a machine knows a peer once for each of those that
// it sends to, as sockets on each of them would. An address alone then does not say
// which is meant. The value that ReadFrom has returned does. For others it is the
// first one that answers, so that a forged datagram turns nothing away.

// routePatience is how long a peer may leave what it is sent without a sign of life,
// until another one with its address is sent to.
const routePatience = 3 * time.Second

// find returns the peer of an address, nil if it is not known, and whether it is
// one of several. The value is that which the caller has of the address, if any.
func (pc *PacketConn) find(addr netip.AddrPort, value net.Addr) (p *packetPeer, several bool) {
	first, others := pc.mux.HandlersOf(addr)
	h, _ := first.(*peerHandler)
	if len(others) == 0 {
		return (*packetPeer)(h), false
	}
	return choosePeer((*packetPeer)(h), others, value), true
}

// choosePeer is find among several.
func choosePeer(first *packetPeer, others []datagram.Handler, value net.Addr) *packetPeer {
	all := make([]*packetPeer, 0, 1+len(others))
	if first != nil { // else it is being made
		all = append(all, first)
	}
	for _, h := range others {
		all = append(all, (*packetPeer)(h.(*peerHandler)))
	}
	udp, _ := value.(*net.UDPAddr)
	var best *packetPeer
	rank := -1
	for _, p := range all {
		if udp != nil && p.origin.Addr == net.Addr(udp) {
			return p
		}
		if r := p.rank(); r > rank {
			best, rank = p, r
		}
	}
	return best
}

// rank returns how likely it is that somebody is there: 0 if messages were left
// without a sign of life, 2 if there has been an acknowledgement.
func (p *packetPeer) rank() int {
	c := &p.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case p.asked > c.lastHeard && c.now()-p.asked >= routePatience:
		return 0
	case c.endpoint.Acked():
		return 2
	}
	return 1
}

// ask notes that the peer is sent a message, and the time of the first one since it
// was heard.
func (p *packetPeer) ask() {
	c := &p.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	if p.asked <= c.lastHeard {
		p.asked = c.now()
	}
}

// peer returns what is known of a peer, from now on if it was nothing.
func (pc *PacketConn) peer(addr netip.AddrPort, value net.Addr) (*packetPeer, error) {
	for {
		if p, several := pc.find(addr, value); p != nil {
			if several {
				p.ask()
			}
			return p, nil
		}
		dc, err := pc.mux.Dial(addr)
		if !errors.Is(err, datagram.ErrPeerExists) {
			return pc.meetDialed(dc, err)
		}
		runtime.Gosched() // somebody is making it, or forgetting it
	}
}

// again returns the peer that follows one that is forgotten, or has ended, at the
// same address of ours.
func (pc *PacketConn) again(p *packetPeer) (*packetPeer, error) {
	former := p.conn.out.Below.(*datagram.Peer)
	former.Close() // as whoever forgets it, or ends it, is about to
	for {
		if h, ok := pc.mux.Successor(former).(*peerHandler); ok {
			return (*packetPeer)(h), nil
		}
		dc, err := pc.mux.Redial(former)
		if !errors.Is(err, datagram.ErrPeerExists) {
			return pc.meetDialed(dc, err)
		}
		runtime.Gosched()
	}
}

// meetDialed begins to know a peer that has been dialed, unless that has failed.
func (pc *PacketConn) meetDialed(dc *datagram.Peer, err error) (*packetPeer, error) {
	if err != nil {
		return nil, err
	}
	p, err := pc.meet(dc)
	if err != nil {
		return nil, err
	}
	p.conn.askFirst()
	if pc.closed.Load() { // and Close may not have seen it
		p.conn.Close()
		return nil, net.ErrClosed
	}
	return p, nil
}
