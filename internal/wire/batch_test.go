package wire

import (
	"bytes"
	"testing"
)

// A model is what a Batch stands for.
type model [][]byte

func (m model) size() (n int) {
	for _, d := range m {
		n += len(d)
	}
	return n
}

func (m model) check(t *testing.T, b *Batch) {
	t.Helper()
	if b.Len() != len(m) || b.Size() != m.size() {
		t.Fatalf("Len, Size = %d, %d, want %d, %d", b.Len(), b.Size(), len(m), m.size())
	}
	for i, d := range m {
		if !bytes.Equal(b.At(i), d) {
			t.Fatalf("At(%d) = %x, want %x", i, b.At(i), d)
		}
	}
}

// script does to a Batch and to a model what the bytes of ops say.
func script(t *testing.T, ops []byte) {
	var b Batch
	var m model
	for i := 0; i+1 < len(ops); i += 2 {
		n := int(ops[i+1])
		switch ops[i] % 5 {
		case 0, 1:
			d := bytes.Repeat([]byte{byte(i)}, n)
			b.Append(d)
			m = append(m, d)
		case 2:
			d := b.Extend(4 * n)
			for j := range d {
				d[j] = byte(n)
			}
			m = append(m, bytes.Repeat([]byte{byte(n)}, 4*n))
		case 3:
			b.Truncate(n)
			m = m[:min(n, len(m))]
		case 4:
			if n == 0 {
				b.Reset()
				m = nil
			}
			checkRuns(t, &b, m, 1+n%7, 1+n*n/8)
		}
		m.check(t, &b)
	}
	checkRuns(t, &b, m, 64, 60<<10)
}

// checkRuns cuts the batch into runs, and each run into datagrams again, as a
// kernel does.
func checkRuns(t *testing.T, b *Batch, m model, maxSegments, maxBytes int) {
	t.Helper()
	for i := 0; i < b.Len(); {
		run, segment, next := b.Run(i, maxSegments, maxBytes)
		if next <= i || next > b.Len() {
			t.Fatalf("Run(%d) ends at %d of %d", i, next, b.Len())
		}
		if next-i > maxSegments || next-i > 1 && len(run) > maxBytes {
			t.Fatalf("Run(%d, %d, %d) has %d datagrams, %d bytes", i, maxSegments, maxBytes, next-i, len(run))
		}
		if cap(run) != len(run) {
			t.Fatalf("Run(%d): capacity %d beyond length %d", i, cap(run), len(run))
		}
		if next < b.Len() && next-i < maxSegments && fits(m, i, next, maxBytes) {
			t.Fatalf("Run(%d) ends at %d, but the next datagram fits", i, next)
		}
		for ; i < next; i++ {
			n := min(segment, len(run))
			if !bytes.Equal(run[:n], m[i]) {
				t.Fatalf("datagram %d of a run = %x, want %x", i, run[:n], m[i])
			}
			run = run[n:]
		}
		if len(run) != 0 {
			t.Fatalf("%d bytes behind a run", len(run))
		}
	}
}

// fits reports whether datagram next may follow the run from i on.
func fits(m model, i, next, maxBytes int) bool {
	segment, last, d := len(m[i]), len(m[next-1]), len(m[next])
	return last == segment && d > 0 && d <= segment && m[i:next+1].size() <= maxBytes
}

func TestBatchModel(t *testing.T) {
	var x uint32 = 1
	for range 500 {
		ops := make([]byte, 200)
		for i := range ops {
			x = x*1664525 + 1013904223
			ops[i] = byte(x >> 24)
			if i%2 == 1 && x>>20&3 != 0 {
				ops[i] = 40 // equal sizes make runs
			}
		}
		script(t, ops)
	}
}

func FuzzBatch(f *testing.F) {
	f.Add([]byte{0, 10, 0, 10, 1, 4, 3, 2, 4, 1, 5, 0})
	f.Add([]byte{2, 0, 2, 0, 5, 3})
	f.Fuzz(func(t *testing.T, ops []byte) {
		if len(ops) <= 1000 {
			script(t, ops)
		}
	})
}

func TestBatchRunLimits(t *testing.T) {
	var b Batch
	for _, n := range []int{100, 100, 100, 60, 100, 120, 0, 0, 5} {
		b.Extend(n)
	}
	for _, test := range []struct{ i, segments, bytes, segment, next int }{
		{0, 64, 1000, 100, 4}, // a shorter one ends it
		{0, 2, 1000, 100, 2},  // segments
		{0, 64, 300, 100, 3},  // bytes, exactly
		{0, 64, 299, 100, 2},  // bytes
		{0, 64, 10, 100, 1},   // always one
		{3, 64, 1000, 60, 4},  // a larger one does not follow
		{4, 64, 1000, 100, 5}, // nor
		{5, 64, 1000, 120, 6}, // an empty one has no segment
		{6, 64, 1000, 0, 7},   // and starts no run
		{7, 64, 1000, 0, 8},
		{8, 64, 1000, 5, 9},
	} {
		run, segment, next := b.Run(test.i, test.segments, test.bytes)
		if segment != test.segment || next != test.next {
			t.Errorf("Run(%d, %d, %d) = %d bytes, %d, %d, want segments of %d until %d",
				test.i, test.segments, test.bytes, len(run), segment, next, test.segment, test.next)
		}
	}
}

// A datagram cannot be appended to, for that would overwrite the next one.
func TestBatchCapacity(t *testing.T) {
	var b Batch
	b.Append([]byte("one"))
	b.Append([]byte("two"))
	_ = append(b.At(0), "overwritten"...)
	if got := string(b.At(1)); got != "two" {
		t.Errorf("At(1) = %q, want %q", got, "two")
	}
}

func TestBatchNoAllocation(t *testing.T) {
	var b Batch
	fill := func() {
		b.Reset()
		for i := range 100 {
			b.Extend(i)
		}
	}
	fill()
	if n := testing.AllocsPerRun(100, fill); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}
