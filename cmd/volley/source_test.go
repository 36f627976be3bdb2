package main

import (
	"bytes"
	"testing"
)

func TestGenerator(t *testing.T) {
	g, same := newGenerator(1, 1, 16<<10), newGenerator(1, 1, 16<<10)
	orders := make(map[int]int) // messages by the number of decimal digits of their size
	for i := range 3000 {
		msg := g.next()
		again := same.next()
		if !bytes.Equal(msg, again) {
			t.Fatalf("message %d differs with the same seed", i)
		}
		if len(msg) < 1 || len(msg) > 16<<10 {
			t.Fatalf("message %d has %d bytes", i, len(msg))
		}
		if i == 0 && len(msg) != 1 || i == 1 && len(msg) != 16<<10 {
			t.Errorf("message %d has %d bytes, want the extremes first", i, len(msg))
		}
		orders[len(msg)/10]++
	}
	if small := orders[0]; small < 300 || small > 1200 {
		t.Errorf("%d of 3000 messages have less than 10 bytes", small)
	}
	a := newGenerator(1, 100, 100).next()
	b := newGenerator(2, 100, 100).next()
	if bytes.Equal(a, b) {
		t.Error("different seeds made the same message")
	}
}

func TestContent(t *testing.T) {
	long := appendContent(nil, 1, 0x0102, 100)
	if !bytes.Equal(long[:8], []byte{2, 1, 0, 0, 0, 0, 0, 0}) {
		t.Errorf("content begins with %x, want the number", long[:8])
	}
	for _, size := range []int{0, 1, 7, 8, 9, 99} {
		if got := appendContent(nil, 1, 0x0102, size); !bytes.Equal(got, long[:size]) {
			t.Errorf("content of %d bytes isn't the beginning of a longer one", size)
		}
	}
}
