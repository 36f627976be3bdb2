package netplay

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"testing"

	"volley/internal/tape"
)

type (
	recordedNumbers struct {
		A bool    `netplay:"0"`
		B int8    `netplay:"1"`
		C uint8   `netplay:"2"`
		D int16   `netplay:"3"`
		E uint16  `netplay:"-4"`
		F int32   `netplay:"5"`
		G uint32  `netplay:"6"`
		H int64   `netplay:"7"`
		I uint64  `netplay:"8"`
		J float32 `netplay:"9"`
	}
	recordedGroups struct {
		F1, F2, F3, F4, F5, F6 float32 `netplay:"-"`
		X, Y, Z, U, V, W, S    float32 `netplay:"-"`
	}
	recordedRows struct {
		A1 float32 `netplay:"1"`
		A2 float32 `netplay:"2"`
		A3 float32 `netplay:"3"`
		A4 float32 `netplay:"4"`
		A5 float32 `netplay:"5"`
		A6 float32 `netplay:"6"`
		B1 int16   `netplay:"11"`
		B2 int16   `netplay:"12"`
		B3 uint16  `netplay:"13"`
		B4 int16   `netplay:"14"`
		B5 int16   `netplay:"15"`
		B6 int16   `netplay:"16"`
		B7 int16   `netplay:"17"`
		C1 bool    `netplay:"21"`
		C2 bool    `netplay:"22"`
		C3 bool    `netplay:"23"`
		C4 bool    `netplay:"24"`
		C5 bool    `netplay:"25"`
		C6 bool    `netplay:"26"`
		D1 int64   `netplay:"31"`
		D2 int64   `netplay:"32"`
		D3 int64   `netplay:"33"`
		D4 int64   `netplay:"34"`
		D5 int64   `netplay:"35"`
		D6 int64   `netplay:"36"`
		E1 uint8   `netplay:"41"`
		E2 uint8   `netplay:"42"`
		E3 uint8   `netplay:"43"`
		E4 uint8   `netplay:"44"`
		E5 uint8   `netplay:"45"`
		E6 uint8   `netplay:"46"`
		G1 int32   `netplay:"51"`
		G2 int32   `netplay:"53"`
		G3 int32   `netplay:"52"`
		G4 int32   `netplay:"54"`
		G5 int32   `netplay:"55"`
		G6 int32   `netplay:"56"`
		G7 int32   `netplay:"57"`
		G8 int32   `netplay:"58"`
		G9 int32   `netplay:"59"`
	}
	recordedLists struct {
		A []bool    `netplay:"0"`
		B []int8    `netplay:"1"`
		C []uint8   `netplay:"2"`
		D []int16   `netplay:"3"`
		E []uint16  `netplay:"4"`
		F []int32   `netplay:"5"`
		G []uint32  `netplay:"6"`
		H []int64   `netplay:"7"`
		I []uint64  `netplay:"8"`
		J []float32 `netplay:"9"`
		K []string  `netplay:"10"`
		L [][]int16 `netplay:"11"`
		M string    `netplay:"12"`
	}
	recordedBoxes struct {
		A *bool    `netplay:"0"`
		B *int8    `netplay:"1"`
		C *int32   `netplay:"2"`
		D *float32 `netplay:"3"`
		E *string  `netplay:"4"`
		F []*int64 `netplay:"5"`
	}
	recordedTree struct {
		Here  recordedNumbers    `netplay:"1"`
		There *recordedNumbers   `netplay:"2"`
		Rows  *recordedRows      `netplay:"3"`
		Some  []recordedNumbers  `netplay:"4"`
		More  []*recordedNumbers `netplay:"5"`
		Lists *recordedLists     `netplay:"6"`
		Boxes *recordedBoxes     `netplay:"7"`
		Under []*recordedTree    `netplay:"8"`
		Name  string             `netplay:"9"`
		Empty recordedGroups     `netplay:"10"`
	}
	recordedBudget struct {
		N []int64 `netplay:"1"`
		S string  `netplay:"2"`
		M []int16 `netplay:"3"`
	}
)

// A recording plays with the values of one Codec.
type recording struct {
	*tape.Scene
	rng           tape.Rand
	codec         *Codec
	wrote, failed int
}

// fill gives a value random content.
func (r *recording) fill(v reflect.Value, depth int) {
	x := r.rng.Uint64() >> r.rng.Below(64)
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(x&1 == 1)
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(int64(x))
	case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(x)
	case reflect.Float32:
		v.SetFloat(float64(int64(x)) / 512)
		if r.rng.Chance(50) {
			v.SetFloat([]float64{math.NaN(), math.Inf(1), math.Inf(-1), math.Copysign(0, -1)}[r.rng.Below(4)])
		}
	case reflect.String:
		v.SetString(r.text())
	case reflect.Slice:
		if r.rng.Chance(800) {
			n := r.rng.Below(1 + 12/(1+depth*depth))
			v.Set(reflect.MakeSlice(v.Type(), n, n))
			for i := range n {
				r.fill(v.Index(i), depth+1)
			}
		}
	case reflect.Pointer:
		if r.rng.Chance(950 - 200*depth) {
			v.Set(reflect.New(v.Type().Elem()))
			r.fill(v.Elem(), depth+1)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			r.fill(v.Field(i), depth)
		}
	}
}

func (r *recording) text() string {
	b := make([]byte, r.rng.Below(1+r.rng.Below(40)))
	if r.rng.Chance(20) {
		r.rng.Bytes(b)
		return string(b)
	}
	for i := range b {
		b[i] = byte(r.rng.Between(' ', '~'))
	}
	if r.rng.Chance(700) {
		return string(b)
	}
	return string(b) + "äöü€"
}

// show notes a value, with what is nil.
func (r *recording) show(v reflect.Value) {
	r.Note(int64(v.Kind()))
	switch v.Kind() {
	case reflect.Bool:
		r.Note(tape.Truth(v.Bool()))
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		r.Note(v.Int())
	case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		r.Note(int64(v.Uint()))
	case reflect.Float32:
		r.Data([]byte(fmt.Sprint(v.Float(), math.Signbit(v.Float()) && v.Float() == 0)))
	case reflect.String:
		r.Data([]byte(v.String()))
	case reflect.Slice:
		r.Note(tape.Truth(v.IsNil()), int64(v.Len()))
		for i := range v.Len() {
			r.show(v.Index(i))
		}
	case reflect.Pointer:
		if r.Note(tape.Truth(v.IsNil())); !v.IsNil() {
			r.show(v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			r.show(v.Field(i))
		}
	}
}

// error notes an error, and returns whether there is one.
func (r *recording) error(err error) bool {
	text := fmt.Sprint(err)
	if ce := new(CompressionError); errors.As(err, &ce) {
		text = fmt.Sprint("compression", errors.Is(err, ErrExpandedSize)) // the rest is of package compress
	}
	r.Data([]byte(text))
	return err != nil
}

// play writes a value of a type, and reads it, whole, cut short and changed.
func (r *recording) play(t reflect.Type) {
	v := reflect.New(t)
	r.fill(v.Elem(), 0)
	prefix := []byte("before")[:r.rng.Below(7)]
	out, err := r.codec.Append(prefix, v.Interface())
	r.wrote++
	if r.error(err) {
		r.failed++
		r.Data(out)
		return
	}
	out = out[len(prefix):]
	compressed := out[2]&Compressed != 0
	if r.Note(tape.Truth(compressed)); !compressed {
		r.Data(out)
	}
	f, rest, err := ParseFrame(append(out, 1, 2))
	if r.error(err); !compressed {
		r.Note(int64(len(rest)), int64(f.Type), int64(f.Options), int64(f.size()))
	}
	r.decode(t, f)
	if compressed {
		return
	}
	body, err := r.codec.set.appendBody(nil, v.Interface())
	if r.error(err) {
		return
	}
	number := r.codec.reg.typeOf(elemOf(v.Interface())).number
	for range 6 {
		b := append([]byte(nil), body...)
		switch r.rng.Below(4) {
		case 0:
			b = b[:r.rng.Below(len(b)+1)]
		case 1:
			b = append(b, 1, 2, 3)
		default:
			for range r.rng.Below(3) {
				if len(b) > 0 {
					b[r.rng.Below(len(b))] = byte(r.rng.Below(4) * r.rng.Below(64))
				}
			}
		}
		r.decode(t, Frame{Type: number + uint16(r.rng.Below(50)/49), Options: uint8(r.rng.Below(40)/37) << 1, Payload: b})
	}
}

func (r *recording) decode(t reflect.Type, f Frame) {
	if r.rng.Chance(300) {
		v := reflect.New(t)
		r.fill(v.Elem(), 1) // what was there before
		if r.error(r.codec.Unmarshal(f, v.Interface())) {
			r.failed++
		}
		r.show(v)
		return
	}
	v, err := r.codec.Decode(f)
	if r.error(err) {
		r.failed++
		return
	}
	r.show(reflect.ValueOf(v))
}

// TestRecordedValues writes and reads values of all kinds, and compares with what came out before.
func TestRecordedValues(t *testing.T) {
	p := tape.Open(t, "values", "What codecs write and read in the scenes of TestRecordedValues.")
	for _, c := range []struct {
		name string
		cfg  *Config
	}{
		{"release", nil},
		{"release, narrow", &Config{MaxFrame: 700, MaxDepth: 2, WriteGzip: true, AcceptEncrypted: true}},
		{"small", &Config{MaxDecoded: 1024, MaxExpanded: 1024}},
	} {
		reg := new(Registry)
		types := []any{recordedNumbers{}, recordedRows{}, recordedLists{}, recordedBoxes{}, recordedTree{}}
		if c.cfg != nil && c.cfg.MaxDecoded > 0 { // whose types are equally large on all machines
			types = []any{recordedBudget{}, recordedNumbers{}}
		}
		for i, v := range types {
			if i%2 == 0 {
				reg.MustAdd(1000*i+7, v, Compress(300))
			} else {
				reg.MustAdd(1000*i+7, v)
			}
		}
		codec, err := NewCodec(reg, c.cfg)
		if err != nil {
			t.Fatal(err)
		}
		r := &recording{Scene: p.Scene("%s", c.name), codec: codec, rng: 1}
		for _, v := range types {
			for range 60 {
				r.play(reflect.TypeOf(v))
			}
			r.Phase(reflect.TypeOf(v).Name(), "wrote", r.wrote, "errors", r.failed)
		}
	}
}
