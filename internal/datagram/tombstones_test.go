package datagram

import (
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"
	"unique"
)

func peerRoute(n int) route { return route{remote: peerAddr(n)} }
func peerPlace(n int) place { return place{remote: peerAddr(n)} }

func TestGraveyard(t *testing.T) {
	now := time.Unix(1000, 0)
	at := func(s int) time.Time { return now.Add(time.Duration(s) * time.Second) }
	var g tombstones
	g.init(3)
	g.add(peerPlace(1), now, at(10))
	if !g.has(peerRoute(1), at(9)) || g.has(peerRoute(2), at(9)) {
		t.Error("has = false, true, want true, false before the time is over")
	}
	if g.has(peerRoute(1), at(10)) || g.until != nil || g.oldest != nil {
		t.Error("something is left after the time is over")
	}
	for i := range 5 {
		g.add(peerPlace(i), now, at(10+i))
	}
	for i := range 5 {
		if got, want := g.has(peerRoute(i), now), i >= 2; got != want {
			t.Errorf("beyond the limit: has(%d) = %v, want %v", i, got, want)
		}
	}
	// The same address again: its older grave goes first, the newer one stays.
	g.add(peerPlace(2), now, at(100))
	g.add(peerPlace(7), now, at(100))
	if !g.has(peerRoute(2), at(50)) {
		t.Error("an address that died twice is forgotten with its first grave")
	}
	var none tombstones
	none.add(peerPlace(1), now, at(10))
	if none.has(peerRoute(1), now) {
		t.Error("tombstones for nobody remember somebody")
	}
}

// A grave is at an address of ours, where the Conn knew it; at all of them, where it
// did not.
func TestGraveyardPlaces(t *testing.T) {
	now := time.Unix(1000, 0)
	end := now.Add(time.Second)
	at := func(peer int, local byte) route {
		return route{peerAddr(peer), netip.AddrFrom4([4]byte{192, 0, 2, local})}
	}
	var g tombstones
	g.init(9)
	g.add(place{peerAddr(1), unique.Make(at(1, 7).local)}, now, end)
	g.add(peerPlace(2), now, end)
	for r, want := range map[route]bool{
		at(1, 7): true, at(1, 8): false, peerRoute(1): false, at(2, 7): true, peerRoute(2): true, at(3, 7): false,
	} {
		if got := g.has(r, now); got != want {
			t.Errorf("has(%v) = %v, want %v", r, got, want)
		}
	}
	g.forget(place{peerAddr(1), unique.Make(at(1, 8).local)})
	if !g.has(at(1, 7), now) {
		t.Error("another place has been forgotten")
	}
	g.forget(place{peerAddr(1), unique.Make(at(1, 7).local)})
	if g.has(at(1, 7), now) {
		t.Error("the place has not been forgotten")
	}
}

// Whatever is added: never more than the limit, never an address after its
// time, and always the newest ones.
func TestGraveyardModel(t *testing.T) {
	const limit = 20
	rng := rand.New(rand.NewPCG(1, 2))
	now := time.Unix(1000, 0)
	var g tombstones
	g.init(limit)
	until := make(map[netip.AddrPort]time.Time)
	var last []netip.AddrPort
	for range 20_000 {
		now = now.Add(time.Duration(rng.IntN(1000)) * time.Millisecond)
		a := peerAddr(rng.IntN(60))
		if rng.IntN(2) == 0 {
			end := now.Add(time.Duration(rng.IntN(30)) * time.Second)
			g.add(place{remote: a}, now, end)
			until[a] = end
			last = append(last, a)
			last = last[max(0, len(last)-limit):]
		}
		if len(g.oldest) > limit || len(g.until) > limit {
			t.Fatalf("%d tombstones, %d addresses, want at most %d", len(g.oldest), len(g.until), limit)
		}
		a = peerAddr(rng.IntN(60))
		has := g.has(route{remote: a}, now)
		if has && !now.Before(until[a]) {
			t.Fatalf("%v is remembered after its time", a)
		}
		for _, l := range last {
			if a == l && !has && now.Before(until[a]) {
				t.Fatalf("%v is forgotten, and was among the last %d", a, limit)
			}
		}
	}
}
