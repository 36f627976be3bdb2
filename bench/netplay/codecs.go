package main

import (
	"bytes"
	"encoding/gob"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vmihailenco/msgpack/v5"

	"volley/netplay"
)

// A codec turns a message into bytes and back, again and again.
type codec struct {
	name   string
	encode func() (size int, err error)
	decode func() error
}

// codecsOf returns the codecs of a message, by hand first.
func codecsOf(m byHand, empty func() byHand) ([]codec, error) {
	var hand, own, text, packed []byte
	into := empty()
	cs := []codec{
		{"by hand", func() (_ int, err error) { hand, err = m.appendByHand(hand[:0]); return len(hand), err },
			func() error { return into.readByHand(hand) }},
		{"netplay", func() (_ int, err error) { own, err = netplay.Append(own[:0], m); return len(own), err },
			func() error { return netplay.Unmarshal(own, into) }},
	}
	var buf bytes.Buffer
	enc := msgpack.NewEncoder(&buf)
	cs = append(cs, codec{"msgpack", func() (int, error) {
		buf.Reset()
		err := enc.Encode(m)
		packed = buf.Bytes()
		return len(packed), err
	}, func() error { return msgpack.Unmarshal(packed, into) }})
	g, err := gobOf(m, into)
	if err != nil {
		return nil, err
	}
	cs = append(cs, g)
	cs = append(cs, codec{"json", func() (_ int, err error) { text, err = json.Marshal(m); return len(text), err },
		func() error { return json.Unmarshal(text, into) }})
	return cs, check(cs, m, into)
}

// check has every codec write and read once.
func check(cs []codec, m, into byHand) error {
	for _, c := range cs {
		if _, err := c.encode(); err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		if err := c.decode(); err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		if !reflect.DeepEqual(m, into) {
			return fmt.Errorf("%s: %T reads another message", c.name, m)
		}
	}
	return nil
}

// gobOf returns gob in the middle of a stream, which has described the types at
// its beginning.
func gobOf(m, into byHand) (codec, error) {
	var buf bytes.Buffer
	enc := gob.NewEncoder(&buf)
	if err := enc.Encode(m); err != nil {
		return codec{}, err
	}
	var src repeated
	src.b = bytes.Clone(buf.Bytes())
	dec := gob.NewDecoder(&src)
	if err := dec.Decode(into); err != nil {
		return codec{}, err
	}
	buf.Reset()
	if err := enc.Encode(m); err != nil {
		return codec{}, err
	}
	src.b, src.pos = bytes.Clone(buf.Bytes()), 0
	return codec{"gob", func() (int, error) {
		buf.Reset()
		err := enc.Encode(m)
		return buf.Len(), err
	}, func() error {
		// A decoder adds to slices and leaves zeros out: begin anew.
		v := reflect.ValueOf(into).Elem()
		v.SetZero()
		return dec.Decode(into)
	}}, nil
}

// A repeated reader yields the same message for ever.
type repeated struct {
	b   []byte
	pos int
}

func (r *repeated) Read(p []byte) (int, error) {
	if r.pos == len(r.b) {
		r.pos = 0
	}
	n := copy(p, r.b[r.pos:])
	r.pos += n
	return n, nil
}

func (r *repeated) ReadByte() (byte, error) {
	var b [1]byte
	_, err := io.ReadFull(r, b[:])
	return b[0], err
}

// compareCodecs writes the tables.
func compareCodecs(b *strings.Builder, rounds int, length time.Duration) error {
	b.WriteString("Bodies of the messages of the protocol's public page, and of one with 30 nested structs that hold two more each. Time in ns, and in brackets its ratio to code " +
		"written by hand with encoding/binary and the same checks. All take turns; medians of " + fmt.Sprint(rounds) + " rounds. Gob is in the middle of a stream, its types " +
		"described. Msgpack and json reuse memory of the value that they read into; netplay and gob allocate all of it. Then allocations.\n\n")
	var encode, decode strings.Builder
	for _, m := range messages {
		cs, err := codecsOf(m.message, m.empty)
		if err != nil {
			return err
		}
		if encode.Len() == 0 {
			for _, t := range []*strings.Builder{&encode, &decode} {
				t.WriteString("| ")
				for _, c := range cs {
					t.WriteString(" | " + c.name)
				}
				t.WriteString(" |\n|---" + strings.Repeat("|---", len(cs)) + "|\n")
			}
		}
		row(&encode, m.name, cs, rounds, length, func(c codec) func() error {
			return func() error { _, err := c.encode(); return err }
		}, true)
		row(&decode, m.name, cs, rounds, length, func(c codec) func() error { return c.decode }, false)
	}
	fmt.Fprintf(b, "Encode, with the bytes that come of it:\n\n%s\nDecode:\n\n%s\n", &encode, &decode)
	return nil
}

// row measures a message.
func row(b *strings.Builder, name string, cs []codec, rounds int, length time.Duration, op func(codec) func() error, sizes bool) {
	times := make([][]float64, len(cs))
	ratios := make([][]float64, len(cs))
	for range rounds {
		for i, c := range cs {
			ns := nanoseconds(op(c), length)
			times[i] = append(times[i], ns)
			ratios[i] = append(ratios[i], ns/times[0][len(times[0])-1])
		}
	}
	b.WriteString("| " + name)
	for i, c := range cs {
		f := op(c)
		allocs := testing.AllocsPerRun(20, func() { _ = f() })
		fmt.Fprintf(b, " | %.0f (%.2f), %.0f", median(times[i]), median(ratios[i]), allocs)
		if sizes {
			n, _ := c.encode()
			fmt.Fprintf(b, ", %d B", n)
		}
	}
	b.WriteString(" |\n")
}

// nanoseconds returns how long a call takes.
func nanoseconds(f func() error, length time.Duration) float64 {
	n := 0
	start := time.Now()
	for {
		for range 16 {
			_ = f()
		}
		n += 16
		if d := time.Since(start); d >= length {
			return float64(d.Nanoseconds()) / float64(n)
		}
	}
}

func median(vs []float64) float64 {
	vs = slices.Sorted(slices.Values(vs))
	return vs[len(vs)/2]
}
