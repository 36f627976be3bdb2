package registry

import (
	"cmp"
	"net"
	"testing"
	"time"
)

type fakeConn struct {
	born   time.Time
	remote net.Addr
	over   bool
	why    error // nil: its own Close
}

func (c *fakeConn) ID() uint64 { return ID(c, c.born) }

func (c *fakeConn) End() error {
	if !c.over {
		return nil
	}
	return cmp.Or(c.why, net.ErrClosed)
}

func (c *fakeConn) View(v *Conn, explain bool) bool {
	v.Protocol, v.Remote = "fake", c.remote
	if explain {
		v.Explain = "explained"
	}
	return !c.over
}

type fakeListener struct{ conns []*fakeConn }

func (l *fakeListener) ID() uint64       { return ID(l, time.Time{}) }
func (l *fakeListener) Over() bool       { return false }
func (l *fakeListener) View(v *Listener) { v.Conns = len(l.conns) }
func (l *fakeListener) Each(f func(Viewer)) {
	for _, c := range l.conns {
		f(c)
	}
}

// TestLook: everyone comes once, with the listener it belongs to, unless it has
// ended; and is explained if there are not too many.
func TestLook(t *testing.T) {
	ls := NewListeners(func(l *fakeListener) ListenerViewer { return l })
	dialed := NewConns(Dialed, func(c *fakeConn) Viewer { return c })
	piped := NewConns(Piped, func(c *fakeConn) Viewer { return c })
	both, ended := new(fakeConn), &fakeConn{over: true}
	l := &fakeListener{conns: []*fakeConn{new(fakeConn), both, ended}}
	ls.Add(l)
	d, p := new(fakeConn), new(fakeConn)
	dialed.Add(both) // as two layers may know it
	dialed.Add(d)
	piped.Add(p)
	want := map[uint64]Conn{
		l.conns[0].ID(): {Role: Accepted, Listener: l.ID()}, both.ID(): {Role: Accepted, Listener: l.ID()},
		d.ID(): {Role: Dialed}, p.ID(): {Role: Piped},
	}
	for _, explained := range []int{-1, 4, 6} {
		gotL, got, all := Look(explained)
		if all != (explained >= 6) {
			t.Errorf("Look(%d) says that it explains: %v", explained, all)
		}
		if len(gotL) != 1 || gotL[0].ID != l.ID() || gotL[0].Conns != 3 {
			t.Errorf("Look = %v, want the listener", gotL)
		}
		if len(got) != len(want) {
			t.Errorf("Look returns %d connections, want %d", len(got), len(want))
		}
		for _, c := range got {
			w, ok := want[c.ID]
			w.ID, w.Protocol = c.ID, "fake"
			if explained >= 6 { // the connections, with those that come twice or have ended
				w.Explain = "explained"
			}
			if !ok || c != w {
				t.Errorf("Look(%d) has %+v, want %+v", explained, c, w)
			}
		}
	}
	if c, ok := LookAt(d.ID()); !ok || c.Role != Dialed || c.Explain == "" {
		t.Errorf("LookAt = %+v, %v, want the dialed connection", c, ok)
	}
	d.over = true
	if c, ok := LookAt(d.ID()); ok {
		t.Errorf("LookAt = %+v, want nothing, for it has ended", c)
	}
	if _, ok := LookAt(ended.ID()); ok {
		t.Error("LookAt returns what has ended")
	}
}

// TestID: numbers differ with the place and with the time, fit into a float64,
// and are never 0, which means: none.
func TestID(t *testing.T) {
	all := make([]fakeConn, 10_000)
	seen := make(map[uint64]bool)
	for i := range all {
		for _, born := range []time.Time{{}, time.Unix(1, 0), time.Unix(1, 1)} {
			id := ID(&all[i], born)
			if id == 0 || id >= 1<<53 || id != ID(&all[i], born) {
				t.Fatalf("ID = %d, want one number from 1 to 2^53 - 1", id)
			}
			seen[id] = true
		}
	}
	if len(seen) != 3*len(all) {
		t.Errorf("%d numbers for %d", len(seen), 3*len(all))
	}
}
