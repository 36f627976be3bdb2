package main

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"
)

func TestGenerator(t *testing.T) {
	g, same := newGenerator(1, 1, 16<<10), newGenerator(1, 1, 16<<10)
	orders := make(map[int]int) // messages by the number of decimal digits of their size
	for i := range 3000 {
		msg, _ := g.next()
		again, _ := same.next()
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
	a, _ := newGenerator(1, 100, 100).next()
	b, _ := newGenerator(2, 100, 100).next()
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

func TestRecords(t *testing.T) {
	for _, test := range []struct {
		name, input, records string
		maxSize              int
		want                 []string
	}{
		{"lines", "one\ntwo\n", "auto", 100, []string{"one", "two"}},
		{"no final line break", "one\ntwo", "auto", 100, []string{"one", "two"}},
		{"empty lines", "\n\none\n\r\n\ntwo\n\n", "auto", 100, []string{"one", "two"}},
		{"carriage returns", "one\r\nt\rwo\r\n", "auto", 100, []string{"one", "t\rwo"}},
		{"long lines", "abcdefg\nxyz\n", "auto", 3, []string{"abc", "def", "g", "xyz"}},
		{"binary", strings.Repeat("\x00", 2500), "auto", 16 << 10,
			[]string{strings.Repeat("\x00", 1024), strings.Repeat("\x00", 1024), strings.Repeat("\x00", 452)}},
		{"binary, small messages", "a\x00bcd", "auto", 2, []string{"a\x00", "bc", "d"}},
		{"binary as lines", "a\x00\nb\x00", "lines", 100, []string{"a\x00", "b\x00"}},
		{"text as blocks", "one\ntwo\n", "5", 100, []string{"one\nt", "wo\n"}},
		{"exact blocks", "abcd", "2", 100, []string{"ab", "cd"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			o := &options{records: test.records, maxSize: test.maxSize}
			src, _, stop, err := openSource(o, file(t, test.input))
			if err != nil {
				t.Fatal(err)
			}
			defer stop()
			if got := all(t, src); !slices.Equal(got, test.want) {
				t.Errorf("records = %q, want %q", got, test.want)
			}
		})
	}
}

// TestInput checks what counts as input, and what as none.
func TestInput(t *testing.T) {
	text := file(t, "from a file\n")
	full, w := pipe(t)
	w.WriteString("from a pipe\n")
	w.Close()
	silent, _ := pipe(t)
	ended, w := pipe(t)
	w.Close()
	for _, test := range []struct {
		name  string
		input string
		stdin *os.File
		want  string // the first message; empty: a generated one
	}{
		{"nothing", "", devNull(t), ""},
		{"file", "", text, "from a file"},
		{"file ignored", "none", file(t, "ignored"), ""},
		{"empty file", "", file(t, ""), ""},
		{"pipe", "", full, "from a pipe"},
		{"pipe without data", "", silent, ""},
		{"pipe at its end", "", ended, ""},
		{"named file", text.Name(), devNull(t), "from a file"},
		{"standard input", "-", file(t, "by name"), "by name"},
	} {
		t.Run(test.name, func(t *testing.T) {
			o := &options{input: test.input, records: "auto", minSize: 1, maxSize: 100}
			src, about, stop, err := openSource(o, test.stdin)
			if err != nil {
				t.Fatal(err)
			}
			defer stop()
			if _, generated := src.(*generator); generated != (test.want == "") {
				t.Fatalf("source = %T (%s)", src, about)
			}
			if test.want == "" {
				return
			}
			if msg, err := src.next(); string(msg) != test.want || err != nil {
				t.Errorf("first message = %q, %v, want %q", msg, err, test.want)
			}
		})
	}
}
