package datagram

import (
	"net/netip"
	"time"
)

// Tombstones remember the addresses of closed Conns for a while.
type tombstones struct {
	max    int
	until  map[netip.AddrPort]time.Time
	oldest []grave // in the order they were added, used as a queue
}

type grave struct {
	addr  netip.AddrPort
	until time.Time
}

func (g *tombstones) init(max int) { g.max = max }

func (g *tombstones) has(addr netip.AddrPort, now time.Time) bool {
	until, ok := g.until[addr]
	if ok && !now.Before(until) {
		g.purge(now)
		return false
	}
	return ok
}

// forget forgets an address.
func (g *tombstones) forget(addr netip.AddrPort) { delete(g.until, addr) }

func (g *tombstones) add(addr netip.AddrPort, now, until time.Time) {
	if g.max <= 0 {
		return
	}
	g.purge(now)
	for len(g.oldest) >= g.max {
		g.drop()
	}
	if g.until == nil {
		g.until = make(map[netip.AddrPort]time.Time)
	}
	g.until[addr] = until
	g.oldest = append(g.oldest, grave{addr, until})
}

// purge forgets what is over, and gives the memory back with the last one.
func (g *tombstones) purge(now time.Time) {
	for len(g.oldest) > 0 && !now.Before(g.oldest[0].until) {
		g.drop()
	}
	if len(g.oldest) == 0 {
		g.until, g.oldest = nil, nil
	}
}

// drop forgets the oldest grave, unless its address has died again since.
func (g *tombstones) drop() {
	d := g.oldest[0]
	g.oldest = g.oldest[1:]
	if g.until[d.addr].Equal(d.until) {
		delete(g.until, d.addr)
	}
}
