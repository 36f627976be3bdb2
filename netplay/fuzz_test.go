package netplay

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"volley/internal/vectors"
)

// fuzzTypes are what bodies are read into.
var fuzzTypes = []any{
	limitBytes{}, limitString{}, limitItems{}, limitHolder{}, limitBoxed{}, limitNulls{}, limitInts{},
	vectorDeep{}, treeNode{}, valueTree{}, withTags{},
	struct {
		A bool       `netplay:"0"`
		B []bool     `netplay:"1"`
		C [][]int16  `netplay:"2"`
		D []*int64   `netplay:"3"`
		E limitItem  `netplay:"4"`
		F []float32  `netplay:"5"`
		G [][]string `netplay:"6"`
	}{},
}

// sizeOf returns the bytes behind a value that was decoded, as they are charged.
func sizeOf(v reflect.Value) int {
	n := 0
	switch v.Kind() {
	case reflect.String:
		n = v.Len()
	case reflect.Pointer:
		if !v.IsNil() {
			n = int(v.Type().Elem().Size()) + sizeOf(v.Elem())
		}
	case reflect.Slice:
		n = v.Len() * int(v.Type().Elem().Size())
		for i := range v.Len() {
			n += sizeOf(v.Index(i))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			n += sizeOf(v.Field(i))
		}
	}
	return n
}

// FuzzUnmarshal reads anything into every type: what is accepted stays within
// the limit on memory, and what is written for it reads the same.
func FuzzUnmarshal(f *testing.F) {
	for i := range fuzzTypes {
		for _, name := range []string{"decode_body.json", "composite.json"} {
			for j, c := range readSeeds(f, name) {
				if j%len(fuzzTypes) == i {
					f.Add(c, uint8(i))
				}
			}
		}
	}
	const limit = 2048
	f.Fuzz(func(t *testing.T, body []byte, which uint8) {
		s := settings{maxDecoded: limit, maxDepth: 8}
		typ := reflect.TypeOf(fuzzTypes[int(which)%len(fuzzTypes)])
		v := reflect.New(typ)
		err := s.decodeBody(body, v.Interface())
		if n := sizeOf(v.Elem()); n > limit {
			t.Fatalf("%x takes %d bytes as %v", body, n, typ)
		}
		if err != nil {
			require.ErrorAs(t, err, new(*DecodeError))
			return
		}
		once, err := s.appendBody(nil, v.Interface())
		if err != nil {
			// Bytes that are no text have become three each.
			require.ErrorAs(t, err, new(*ValueError))
			require.Greater(t, len(body), math.MaxUint16/3)
			return
		}
		s.maxDecoded = 4 * limit
		again := reflect.New(typ)
		require.NoError(t, s.decodeBody(once, again.Interface()))
		twice, err := s.appendBody(nil, again.Interface())
		require.NoError(t, err)
		require.Equal(t, once, twice)
	})
}

// readSeeds returns the bodies in a file of vectors.
func readSeeds(tb testing.TB, name string) (bodies [][]byte) {
	for _, c := range readCases(tb, vectors.Files(tb, "netplay")[name]) {
		if c.Body != nil {
			bodies = append(bodies, *c.Body)
		}
	}
	return bodies
}

// FuzzFrames reads any stream, cut anywhere, and compares with a reader that
// has everything at once.
func FuzzFrames(f *testing.F) {
	f.Add([]byte("\x00\x07\x00\x00\x67\x00\x00\x00\x2a\x00\x03\x00\x00\x7b"), []byte{1, 2, 3})
	f.Add([]byte("\x00\x02"), []byte{})
	f.Add([]byte("\xff\xff\x00\x00\x67"), []byte{200})
	f.Add(append([]byte("\x07\xfa\x00\x00\x82"), make([]byte, 2039)...), []byte{255, 7})
	f.Fuzz(func(t *testing.T, stream, cuts []byte) {
		s := &settings{maxFrame: 4000}
		want, wantEnd := modelStream(s, stream)
		var segments [][]byte
		rest := bytes.Clone(stream)
		for i := 0; len(rest) > 0; i++ {
			n := len(rest)
			if len(cuts) > 0 {
				n = min(n, 1+int(cuts[i%len(cuts)]))
			}
			segments = append(segments, rest[:n:n])
			rest = rest[n:]
		}
		frames, end := readSegments(s, segments)
		require.Equal(t, want, frames)
		require.Equal(t, wantEnd, classOf(end))
	})
}

// modelStream is modelFrames with a limit.
func modelStream(s *settings, b []byte) (frames []Frame, end string) {
	for len(b) > 0 {
		size, err := frameSize(b, s.maxFrame)
		if err != nil && err != errShortFrame {
			return frames, "protocol"
		}
		if err != nil || size > len(b) {
			return frames, "partial"
		}
		f := frameAt(b[:size])
		f.Payload = append([]byte{}, f.Payload...)
		frames = append(frames, f)
		b = b[size:]
	}
	return frames, "end"
}

// FuzzExpand expands anything, and compares with the packages it uses.
func FuzzExpand(f *testing.F) {
	for _, c := range readCases(f, vectors.Files(f, "netplay")["compression.json"]) {
		if len(c.Payload) < 200 {
			f.Add([]byte(c.Payload))
		}
	}
	f.Add([]byte("\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff\x03\x00\x00\x00\x00\x00\x00\x00\x00\x00"))
	var members bytes.Buffer // two streams, of which the second is ignored
	for _, text := range []string{"first", "second"} {
		zw := gzip.NewWriter(&members)
		zw.Write([]byte(text))
		zw.Close()
	}
	f.Add(members.Bytes())
	const limit = 3000
	f.Fuzz(func(t *testing.T, payload []byte) {
		got, err := expand(nil, payload, limit)
		require.LessOrEqual(t, cap(got), 2*limit)
		want, wantErr := expandAll(payload)
		switch {
		case len(payload) == 0:
			require.NoError(t, err)
		case len(want) > limit:
			require.ErrorIs(t, err, ErrExpandedSize)
		case wantErr != nil:
			require.ErrorAs(t, err, new(*CompressionError))
		default:
			require.NoError(t, err)
			require.True(t, bytes.Equal(want, got))
		}
	})
}

func expandAll(payload []byte) ([]byte, error) {
	var r io.Reader
	var err error
	if bytes.HasPrefix(payload, []byte{0x1f, 0x8b}) {
		var gr *gzip.Reader
		if gr, err = gzip.NewReader(bytes.NewReader(payload)); err == nil {
			gr.Multistream(false)
			r = gr
		}
	} else {
		r, err = zlib.NewReader(bytes.NewReader(payload))
	}
	if err != nil {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(r, 10000))
}

// FuzzGenerated makes types and values of them, and compares what is written
// with a second encoder, and what is read with the value.
func FuzzGenerated(f *testing.F) {
	for i := range uint64(50) {
		f.Add(i, i*i)
	}
	f.Fuzz(func(t *testing.T, a, b uint64) {
		g := generator{rand.New(rand.NewPCG(a, b))}
		typ := g.structType(4)
		v := reflect.New(typ)
		g.fill(v.Elem(), 4)
		s := settings{maxDecoded: 1 << 20, maxDepth: 10}
		body, err := s.appendBody([]byte("x"), v.Interface())
		require.NoError(t, err)
		require.Equal(t, g.model([]byte("x"), v.Elem()), body, "%v", typ)
		back := reflect.New(typ)
		require.NoError(t, s.decodeBody(body[1:], back.Interface()))
		require.Equal(t, v.Interface(), back.Interface())
		for n := range len(body) - 1 {
			require.ErrorIs(t, s.decodeBody(body[1:][:n], back.Interface()), ErrShortBody, "%d of %d bytes", n, len(body)-1)
		}
	})
}

// A generator makes types and values at random.
type generator struct{ *rand.Rand }

var generatedScalars = []reflect.Type{
	reflect.TypeFor[bool](), reflect.TypeFor[int8](), reflect.TypeFor[uint8](), reflect.TypeFor[int16](), reflect.TypeFor[uint16](),
	reflect.TypeFor[int32](), reflect.TypeFor[uint32](), reflect.TypeFor[int64](), reflect.TypeFor[uint64](),
	reflect.TypeFor[float32](), reflect.TypeFor[string](),
}

func (g generator) structType(depth int) reflect.Type {
	var fields []reflect.StructField
	orders := g.Perm(20)
	for i := range g.IntN(7) {
		f := reflect.StructField{Name: "F" + strconv.Itoa(i), Type: g.typ(depth)}
		if g.IntN(10) > 0 {
			f.Tag = reflect.StructTag(`netplay:"` + strconv.Itoa(orders[i]-5) + `"`)
		}
		fields = append(fields, f)
	}
	if n := len(fields); n > 0 && g.IntN(2) == 0 { // a run of one kind
		last := fields[n-1]
		for i := range g.IntN(12) {
			last.Name = "R" + strconv.Itoa(i)
			last.Tag = reflect.StructTag(`netplay:"` + strconv.Itoa(100+i) + `"`)
			fields = append(fields, last)
		}
	}
	return reflect.StructOf(fields)
}

func (g generator) typ(depth int) reflect.Type {
	if depth == 0 || g.IntN(3) > 0 {
		t := generatedScalars[g.IntN(len(generatedScalars))]
		if g.IntN(6) == 0 {
			t = reflect.PointerTo(t)
		}
		return t
	}
	switch g.IntN(3) {
	case 0:
		return reflect.SliceOf(g.typ(depth - 1))
	case 1:
		return g.structType(depth - 1)
	}
	return reflect.PointerTo(g.structType(depth - 1))
}

// fill sets the properties in v. What is no property stays zero, as it is when
// read.
func (g generator) fill(v reflect.Value, depth int) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).Tag != "" {
				g.fill(v.Field(i), depth)
			}
		}
	case reflect.Pointer:
		if g.IntN(4) > 0 || v.Type().Elem().Kind() != reflect.Struct {
			v.Set(reflect.New(v.Type().Elem()))
			g.fill(v.Elem(), depth)
		}
	case reflect.Slice:
		n := g.IntN(4)
		v.Set(reflect.MakeSlice(v.Type(), n, n))
		for i := range n {
			g.fill(v.Index(i), depth)
		}
	case reflect.String:
		v.SetString(strings.Repeat([]string{"a", "é", "\x00", "😀"}[g.IntN(4)], g.IntN(4)))
	case reflect.Bool:
		v.SetBool(g.IntN(2) == 0)
	case reflect.Float32:
		v.SetFloat(float64(float32(g.NormFloat64())))
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(int64(g.Uint64()) >> (64 - v.Type().Bits()))
	default:
		v.SetUint(g.Uint64() >> (64 - v.Type().Bits()))
	}
}

// model writes v by the letter of the format.
func (g generator) model(dst []byte, v reflect.Value) []byte {
	t := v.Type()
	var order []int
	for i := range t.NumField() {
		if t.Field(i).Tag != "" {
			order = append(order, i)
		}
	}
	slices.SortFunc(order, func(a, b int) int {
		x, _ := strconv.Atoi(t.Field(a).Tag.Get(tagKey))
		y, _ := strconv.Atoi(t.Field(b).Tag.Get(tagKey))
		return x - y
	})
	for _, i := range order {
		dst = g.modelValue(dst, v.Field(i))
	}
	return dst
}

func (g generator) modelValue(dst []byte, v reflect.Value) []byte {
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return append(dst, 0)
		}
		return g.modelValue(dst, v.Elem())
	}
	if v.Kind() == reflect.Struct {
		body := g.model(nil, v)
		return append(append(dst, 1, byte(len(body)>>8), byte(len(body))), body...)
	}
	switch v.Kind() {
	case reflect.Slice:
		dst = append(dst, byte(v.Len()>>8), byte(v.Len()))
		for i := range v.Len() {
			dst = g.modelValue(dst, v.Index(i))
		}
		return dst
	case reflect.String:
		return append(append(dst, byte(v.Len()>>8), byte(v.Len())), v.String()...)
	}
	var b bytes.Buffer
	if err := binary.Write(&b, binary.BigEndian, v.Interface()); err != nil {
		panic(errors.Join(errors.New("BUG"), err))
	}
	return append(dst, b.Bytes()...)
}
