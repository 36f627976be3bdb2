package riptide

import (
	"net"
	"net/netip"
	"time"
)

// A transport is a kind of places: streams and datagrams have their own.
type transport uint8

const (
	overDatagrams transport = iota
	overStreams
	numTransports
)

// hostOf returns an IPv4 address, or the /64 of IPv6. All other addresses are one host.
func hostOf(addr net.Addr) netip.Addr {
	switch a := addr.(type) {
	case *net.UDPAddr:
		return hostOfAddr(a.AddrPort().Addr())
	case *net.TCPAddr:
		return hostOfAddr(a.AddrPort().Addr())
	}
	return netip.Addr{}
}

func hostOfAddr(a netip.Addr) netip.Addr {
	a = a.Unmap().WithZone("")
	if a.Is6() {
		p, _ := a.Prefix(64)
		return p.Addr()
	}
	return a
}

// places are those of the clients of one transport that are not connected yet.
type places struct {
	peers map[*Peer]struct{}
	hosts map[netip.Addr]int // how many places each has
	tally []int              // how many hosts have so many places
	most  int                // that a host has
	quiet int                // peers that have said nothing
}

func newPlaces() places {
	return places{peers: make(map[*Peer]struct{}), hosts: make(map[netip.Addr]int)}
}

func (l *places) add(p *Peer) {
	l.peers[p] = struct{}{}
	l.quiet++
	n := l.hosts[p.host] + 1
	l.hosts[p.host] = n
	for len(l.tally) <= n {
		l.tally = append(l.tally, 0)
	}
	l.tally[n]++
	l.tally[n-1]--
	l.most = max(l.most, n)
}

func (l *places) remove(p *Peer) {
	delete(l.peers, p)
	if !p.spoke {
		l.quiet--
	}
	n := l.hosts[p.host] - 1
	l.hosts[p.host] = n
	l.tally[n+1]--
	l.tally[n]++
	if n == 0 {
		delete(l.hosts, p.host)
	}
	if l.tally[l.most] == 0 {
		l.most--
	}
}

// spoke notes that a client has asked to be accepted.
func (l *places) spoke(p *Peer) {
	if !p.spoke {
		p.spoke = true
		l.quiet--
	}
}

// crowding returns the oldest client of the fullest host, if that has two more than the given.
func (l *places) crowding(host netip.Addr) *Peer {
	if l.most < l.hosts[host]+2 {
		return nil
	}
	return l.oldest(func(p *Peer) bool { return l.hosts[p.host] == l.most })
}

// silent returns the client that has said nothing for longest, if too long.
func (l *places) silent(now time.Time) *Peer {
	if l.quiet == 0 {
		return nil
	}
	p := l.oldest(func(p *Peer) bool { return !p.spoke })
	if p == nil || now.Sub(p.entered) < confirmAfter {
		return nil
	}
	return p
}

func (l *places) oldest(which func(*Peer) bool) (oldest *Peer) {
	for p := range l.peers {
		if which(p) && (oldest == nil || p.entered.Before(oldest.entered)) {
			oldest = p
		}
	}
	return oldest
}
