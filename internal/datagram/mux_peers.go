package datagram

import (
	"iter"
	"net/netip"
	"slices"
	"unique"
)

// maxRoutes bounds the Conns of one remote address, which are searched one by one.
const maxRoutes = 16

// hears reports whether the Peer takes what was sent to local. A dialed one takes all.
func (p *Peer) hears(local netip.Addr) bool {
	return !local.IsValid() || p.local == (unique.Handle[netip.Addr]{}) || p.local.Value() == local
}

// peerLocked returns the Peer that datagrams of a route are for.
func (m *Mux) peerLocked(r route) *Peer {
	p := m.peers[r.remote]
	if p == nil || p.hears(r.local) {
		return p
	}
	for _, p := range m.more[r.remote] {
		if p.hears(r.local) {
			return p
		}
	}
	return nil
}

// crowdedLocked reports whether an address may have no more Conns.
func (m *Mux) crowdedLocked(addr netip.AddrPort) bool { return len(m.more[addr]) >= maxRoutes-1 }

func (m *Mux) addLocked(p *Peer) {
	if m.peers[p.addr] != nil {
		if m.more == nil {
			m.more = make(map[netip.AddrPort][]*Peer)
		}
		m.more[p.addr] = append(m.more[p.addr], p)
		return
	}
	m.peers[p.addr] = p
	m.peak = max(m.peak, len(m.peers))
}

func (m *Mux) dropLocked(p *Peer) bool {
	more := m.more[p.addr]
	i := slices.Index(more, p)
	switch first := m.peers[p.addr] == p; {
	case first && len(more) == 0:
		delete(m.peers, p.addr)
		return true
	case first:
		i = 0
		m.peers[p.addr] = more[i]
	case i < 0:
		return false
	}
	if more = slices.Delete(more, i, i+1); len(more) > 0 {
		m.more[p.addr] = more
	} else if delete(m.more, p.addr); len(m.more) == 0 {
		m.more = nil
	}
	return true
}

func (m *Mux) allLocked() iter.Seq[*Peer] {
	return func(yield func(*Peer) bool) {
		for _, p := range m.peers {
			if !yield(p) {
				return
			}
		}
		for _, ps := range m.more {
			for _, p := range ps {
				if !yield(p) {
					return
				}
			}
		}
	}
}

// HandlersOf returns the Handlers of all Conns with an address.
func (m *Mux) HandlersOf(addr netip.AddrPort) (first Handler, others []Handler) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if p := m.peers[addr]; p != nil {
		first = aboveAll(p.handler)
	}
	for _, p := range m.more[addr] {
		if h := aboveAll(p.handler); h != nil {
			others = append(others, h)
		}
	}
	return first, others
}

// Handlers returns those of the Conns.
func (m *Mux) Handlers() []Handler { return m.AppendHandlers(nil) }

// AppendHandlers appends the Handlers of the Conns to hs.
func (m *Mux) AppendHandlers(hs []Handler) []Handler {
	m.mu.Lock()
	defer m.mu.Unlock()
	for p := range m.allLocked() {
		if h := aboveAll(p.handler); h != nil { // else its Admit is under way
			hs = append(hs, h)
		}
	}
	return hs
}
