package datagram

import (
	"net/netip"
	"time"
	"unique"
)

// Tombstones remember the addresses of closed Conns for a while.
type tombstones struct {
	max    int
	until  map[place]time.Time
	oldest []grave // in the order they were added, used as a queue
}

// A place is where a Conn was: its route.
type place struct {
	remote netip.AddrPort
	local  unique.Handle[netip.Addr] // zero: all of ours
}

func (p *Peer) place() place { return place{p.addr, p.local} }

type grave struct {
	at    place
	until time.Time
}

func (g *tombstones) init(max int) { g.max = max }

// has reports whether there is a grave at either place of a route.
func (g *tombstones) has(r route, now time.Time) bool {
	if g.hasAt(place{remote: r.remote}, now) {
		return true
	}
	return r.local.IsValid() && len(g.until) > 0 && g.hasAt(place{r.remote, unique.Make(r.local)}, now)
}

func (g *tombstones) hasAt(at place, now time.Time) bool {
	until, ok := g.until[at]
	if ok && !now.Before(until) {
		g.purge(now)
		return false
	}
	return ok
}

func (g *tombstones) forget(at place) { delete(g.until, at) }

func (g *tombstones) add(at place, now, until time.Time) {
	if g.max <= 0 {
		return
	}
	g.purge(now)
	for len(g.oldest) >= g.max {
		g.drop()
	}
	if g.until == nil {
		g.until = make(map[place]time.Time)
	}
	g.until[at] = until
	g.oldest = append(g.oldest, grave{at, until})
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

// drop forgets the oldest grave, unless there is a newer one at its place.
func (g *tombstones) drop() {
	d := g.oldest[0]
	g.oldest = g.oldest[1:]
	if g.until[d.at].Equal(d.until) {
		delete(g.until, d.at)
	}
}
