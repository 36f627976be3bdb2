package seq

import (
	"flag"
	"math/rand/v2"
	"testing"
)

var exhaustive = flag.Bool("exhaustive", false, "compare all 2^32 pairs of sequence numbers")

// greater is the definition, on plain integers.
func greater(a, b int) bool {
	return a > b && a-b <= 32768 || a < b && b-a > 32768
}

func checkPair(t *testing.T, a, b int) {
	if got, want := Greater(uint16(a), uint16(b)), greater(a, b); got != want {
		t.Fatalf("Greater(%d, %d) = %v, want %v", a, b, got, want)
	}
	if got, want := Less(uint16(a), uint16(b)), greater(b, a); got != want {
		t.Fatalf("Less(%d, %d) = %v, want %v", a, b, got, want)
	}
}

func TestCompare(t *testing.T) {
	near := []int{0, 1, 2, 255, 256, 32766, 32767, 32768, 32769, 32770, 65534, 65535}
	for a := range 65536 {
		if *exhaustive {
			for b := range 65536 {
				checkPair(t, a, b)
			}
			continue
		}
		for _, d := range near {
			checkPair(t, a, (a+d)&65535)
			checkPair(t, a, d)
		}
		for range 20 {
			checkPair(t, a, rand.IntN(65536))
		}
	}
	for a := range 65536 { // exactly one of two different numbers is newer
		if b := (a + 32768) & 65535; Greater(uint16(a), uint16(b)) == Greater(uint16(b), uint16(a)) {
			t.Fatalf("both or none of %d and %d are newer", a, b)
		}
	}
}

// plainWindow is Window without a trick: the slots of the definition.
type plainWindow struct {
	next  uint16
	slots []int
}

func newPlain(n int) *plainWindow {
	w := &plainWindow{slots: make([]int, n)}
	for i := range w.slots {
		w.slots[i] = -1
	}
	return w
}

func (w *plainWindow) slot(s int) *int      { return &w.slots[s%len(w.slots)] }
func (w *plainWindow) exists(s uint16) bool { return *w.slot(int(s)) == int(s) }
func (w *plainWindow) stale(s uint16) bool  { return Less(s, w.next-uint16(len(w.slots))) }
func (w *plainWindow) forward(s uint16) {
	if !Greater(s+1, w.next) {
		return
	}
	for i := range min(int(s-w.next)+1, len(w.slots)) {
		*w.slot(int(w.next) + i) = -1
	}
	w.next = s + 1
}

func (w *plainWindow) insert(s uint16) bool {
	if w.stale(s) {
		return false
	}
	w.forward(s)
	*w.slot(int(s)) = int(s)
	return true
}

func (w *plainWindow) acks() (ack uint16, bits uint32) {
	ack = w.next - 1
	for i := range uint16(32) {
		if w.exists(ack - i) {
			bits |= 1 << i
		}
	}
	return ack, bits
}

func TestWindow(t *testing.T) {
	for _, n := range []int{1, 2, 4, 16, 31, 32, 33, 64, 100, 128, 255, 256, 1000, 1024, 16384, 32767} {
		rng := rand.New(rand.NewPCG(1, uint64(n)))
		var w Window
		w.Init(n, n)
		if got, want := w.Bitwise(), n&(n-1) == 0; got != want {
			t.Errorf("a window of %d of bits: %v, want %v", n, got, want)
		}
		p := newPlain(n)
		for i := range 100_000 {
			s := w.Next() + uint16(rng.IntN(5)) - 1
			switch rng.IntN(20) {
			case 0:
				s = w.Next() - uint16(rng.IntN(n+10))
			case 1:
				s = w.Next() + uint16(rng.IntN(2*n))
			case 2:
				if rng.IntN(50) == 0 {
					s = uint16(rng.Uint32())
				}
			}
			want := Fresh
			switch {
			case p.stale(s):
				want = Stale
			case p.exists(s):
				want = Seen
			}
			if got := w.Status(s); got != want {
				t.Fatalf("size %d, step %d: Status(%d) = %v, want %v; next is %d", n, i, s, got, want, w.Next())
			}
			if rng.IntN(4) == 0 {
				p.forward(s)
				if s == w.Next() && w.Bitwise() {
					w.Skip()
				} else {
					w.Forward(s)
				}
			} else if got, want := w.Insert(s), p.insert(s); got != want {
				t.Fatalf("size %d, step %d: Insert(%d) = %v, want %v", n, i, s, got, want)
			}
			ack, bits := w.Acks()
			if wantAck, wantBits := p.acks(); ack != wantAck || bits != wantBits {
				t.Fatalf("size %d, step %d: Acks = %d, %x, want %d, %x", n, i, ack, bits, wantAck, wantBits)
			}
		}
	}
}

// TestAcksAfterRun has runs in order, shorter and longer than what an ack field
// covers, and then something else.
func TestAcksAfterRun(t *testing.T) {
	for _, n := range []int{1, 16, 32, 64, 100, 1024} {
		rng := rand.New(rand.NewPCG(2, uint64(n)))
		var w Window
		w.Init(n, n)
		p := newPlain(n)
		forget := func(next uint16) {
			for i := range p.slots {
				p.slots[i] = -1
			}
			p.next = next
		}
		check := func(after string) {
			t.Helper()
			ack, bits := w.Acks()
			if wantAck, wantBits := p.acks(); ack != wantAck || bits != wantBits {
				t.Fatalf("size %d, after %s: Acks = %d, %x, want %d, %x", n, after, ack, bits, wantAck, wantBits)
			}
		}
		for range 5000 {
			for range rng.IntN(50) {
				p.insert(w.Next())
				w.Insert(w.Next())
				check("Insert in order")
			}
			s := w.Next()
			switch rng.IntN(8) {
			case 0:
				s += uint16(1 + rng.IntN(2))
				w.Insert(s)
				p.insert(s)
				check("Insert ahead")
			case 1:
				w.Forward(s)
				p.forward(s)
				check("Forward")
			case 2:
				if w.Bitwise() {
					w.Skip()
					p.forward(s)
					check("Skip")
				}
			case 3:
				s -= uint16(1 + rng.IntN(min(n, 40)))
				w.Remove(s)
				*p.slot(int(s)) = -1
				check("Remove")
			case 4:
				w.Restart(s + 7)
				forget(s + 7)
				check("Restart")
			case 5:
				w.Begin(s-7, 64)
				forget(s - 7)
				check("Begin")
			case 6:
				w.Reset()
				forget(0)
				check("Reset")
			case 7:
				if n >= 64 && w.Bitwise() {
					w.Resize(n) // which keeps all
					check("Resize")
				}
			}
		}
	}
}

// TestWindowResize grows and shrinks a window that must never call a present
// sequence fresh, nor change what it says of those it still tells apart.
func TestWindowResize(t *testing.T) {
	const n = 4096
	rng := rand.New(rand.NewPCG(9, 9))
	var w, full Window
	w.Init(n, 64)
	full.Init(n, n)
	for i := range 200_000 {
		s := w.Next() + uint16(rng.IntN(3))
		if rng.IntN(3) == 0 {
			s -= uint16(rng.IntN(1 << rng.IntN(13)))
		}
		got, want := w.Status(s), full.Status(s)
		if got != want && !(got == Seen && want == Fresh) {
			t.Fatalf("step %d: Status(%d) = %v, want %v", i, s, got, want)
		}
		if got == Fresh {
			w.Insert(s)
			full.Insert(s)
		}
		ack, bits := w.Acks()
		if wantAck, wantBits := full.Acks(); ack != wantAck || bits != wantBits {
			t.Fatalf("step %d: Acks = %d, %x, want %d, %x", i, ack, bits, wantAck, wantBits)
		}
		switch rng.IntN(1000) {
		case 0:
			if w.Track() < n {
				w.Resize(2 * w.Track())
			}
		case 1:
			if size := w.Trim(64, 1024); size < w.Track() {
				w.Resize(size)
			}
		case 2:
			if rng.IntN(20) == 0 {
				s := uint16(rng.Uint32())
				w.Restart(s)
				full.Restart(s)
			}
		}
	}
}

func TestTrim(t *testing.T) {
	var w Window
	w.Init(1024, 1024)
	for s := range uint16(2000) {
		if s != 1500 {
			w.Insert(s)
		}
	}
	for _, test := range []struct{ least, most, want int }{{64, 1024, 512}, {64, 256, 256}, {1024, 1024, 1024}} {
		if got := w.Trim(test.least, test.most); got != test.want {
			t.Errorf("Trim(%d, %d) = %d, want %d", test.least, test.most, got, test.want)
		}
	}
	w.Insert(1500)
	for behind := range 1024 { // at powers of two, too
		s := 2000 - 1 - uint16(behind)
		w.Remove(s)
		for _, least := range []int{1, 64} {
			want := least
			for want <= behind {
				want *= 2
			}
			if got := w.Trim(least, 1024); got != want {
				t.Errorf("Trim(%d, 1024) = %d where only one %d behind is fresh, want %d", least, got, behind, want)
			}
		}
		w.Insert(s)
	}
	if got := w.Trim(64, 1024); got != 64 {
		t.Errorf("Trim of a full window = %d, want 64", got)
	}
	w.Resize(64)
	if w.Bytes() != 8 || w.Status(1500) != Seen || w.Status(2000-1024-1) != Stale || w.Status(2000) != Fresh {
		t.Error("the window judges otherwise after Resize")
	}
}

// A window that starts again at a sequence has left all before it behind, and one
// that begins there still takes those that it can tell apart.
func TestStartAgain(t *testing.T) {
	for _, s := range []uint16{0, 1, 40, 1000, 40_000, 65535} {
		for _, begin := range []bool{false, true} {
			var w Window
			w.Init(256, 64)
			for i := range uint16(300) {
				w.Insert(i)
			}
			known := 0
			if begin {
				known = 37
				w.Begin(s, known)
			} else {
				w.Restart(s)
			}
			if ack, bits := w.Acks(); w.Next() != s || ack != s-1 || bits != 0 {
				t.Fatalf("begin %v at %d: next %d, acks %d, %x, want %d, %d, 0", begin, s, w.Next(), ack, bits, s, s-1)
			}
			for d := 1; d <= 256; d++ {
				want := Seen
				if d <= known {
					want = Fresh
				}
				if got := w.Status(s - uint16(d)); got != want || w.Exists(s-uint16(d)) {
					t.Fatalf("begin %v at %d: %d before: status %v, want %v", begin, s, d, got, want)
				}
			}
			if w.Status(s-257) != Stale || w.Status(s) != Fresh || w.Status(s+1) != Fresh {
				t.Fatalf("begin %v at %d: what is stale or fresh", begin, s)
			}
			w.Insert(s)
			w.Insert(s + 2)
			want := uint32(0b101)
			if begin {
				w.Insert(s - 1)
				want = 0b1101
			}
			if ack, bits := w.Acks(); ack != s+2 || bits != want {
				t.Fatalf("begin %v at %d: acks %d, %b, want %d, %b", begin, s, ack, bits, s+2, want)
			}
		}
	}
	for _, n := range []int{64, 100} {
		var w Window
		w.Init(n, n)
		for i := range uint16(300) {
			w.Insert(i)
		}
		w.Reset()
		if _, bits := w.Acks(); w.Next() != 0 || bits != 0 || !w.Insert(0) || w.Status(0) != Seen {
			t.Errorf("size %d: not empty after Reset", n)
		}
	}
}

// A header may name any sequence of the window, and says the same of each.
func TestAcksAt(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	var w Window
	w.Init(256, 128)
	w.Begin(65_500, 64)
	for range 2000 {
		w.Forward(w.Next() + uint16(rng.IntN(3)))
		w.Insert(w.Next() - 1 - uint16(rng.IntN(10)))
		if rng.IntN(300) == 0 {
			w.Restart(w.Next())
		}
		for d := range uint16(256) {
			s := w.Next() - 1 - d
			var want uint32
			for i := range uint16(32) {
				if w.Exists(s-i) && d+i < 128 {
					want |= 1 << i
				}
			}
			if got := w.AcksAt(s); got != want {
				t.Fatalf("AcksAt(%d) = %b with next %d, want %b", s, got, w.Next(), want)
			}
		}
	}
}

// Remove empties the place of a sequence, which another one may have.
func TestRemove(t *testing.T) {
	for _, n := range []int{64, 100} {
		var w Window
		w.Init(n, n)
		for i := range uint16(300) {
			w.Insert(i)
		}
		w.Remove(290)
		if w.Exists(290) || !w.Exists(289) || !w.Exists(291) {
			t.Errorf("size %d: Remove(290) leaves 289, 290, 291: %v, %v, %v", n, w.Exists(289), w.Exists(290), w.Exists(291))
		}
		w.Remove(uint16(280 - n))
		if w.Exists(280) || !w.Exists(279) || !w.Exists(281) {
			t.Errorf("size %d: the place of 280 was to be emptied alone", n)
		}
	}
	var w Window
	w.Init(100, 100)
	if w.Bytes() != 400 || w.Len() != 100 || w.Track() != 100 || w.Bitwise() {
		t.Errorf("a table of 100: %d bytes, %d long, tells %d apart, bits: %v", w.Bytes(), w.Len(), w.Track(), w.Bitwise())
	}
	w.Insert(7)
	if s, ok := w.Occupant(107); s != 7 || !ok {
		t.Errorf("Occupant(107) = %d, %v, want 7, true", s, ok)
	}
	if _, ok := w.Occupant(8); ok {
		t.Error("an empty place has an occupant")
	}
	w.Restart(50)
	if w.Exists(7) || w.Next() != 50 {
		t.Error("a table is not empty after Restart")
	}
}
