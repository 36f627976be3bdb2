package netplay

import (
	"math"
	"reflect"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

// An accessStruct has a field of everything that access.go touches, with
// others of odd sizes in between.
type accessStruct struct {
	A    int8
	P    *int64
	Pad1 [3]byte
	B    uint16
	S    string
	Pad2 bool
	C    float32
	D    int64
	L8   []int8
	L16  []uint16
	L32  []float32
	L64  []int64
	LS   []string
	LX   []accessElem
	E    bool
}

type accessElem struct {
	P *int32
	N int8
}

// TestAccess compares every function with package reflect.
func TestAccess(t *testing.T) {
	n := int64(5)
	v := accessStruct{A: -2, P: &n, B: 0xabcd, S: "text", C: -1.5, D: math.MinInt64, LS: []string{"a", "b"}, E: true}
	rv := reflect.ValueOf(&v)
	p := pointerIn(any(&v))
	require.Equal(t, rv.UnsafePointer(), reflect.ValueOf(&v).UnsafePointer())
	at := func(name string) addr {
		f, ok := rv.Type().Elem().FieldByName(name)
		require.True(t, ok)
		q := fieldAt(p, f.Offset)
		require.Equal(t, rv.Elem().FieldByName(name).Addr().Pointer(), reflect.ValueOf((*byte)(q)).Pointer())
		return q
	}
	require.Equal(t, uint8(0xfe), get8(at("A")))
	require.Equal(t, uint16(0xabcd), get16(at("B")))
	require.Equal(t, math.Float32bits(-1.5), get32(at("C")))
	require.Equal(t, uint64(1)<<63, get64(at("D")))
	require.Equal(t, "text", getString(at("S")))
	require.Equal(t, []string{"a", "b"}, getStrings(at("LS")))
	require.Equal(t, addr(&n), getPointer(at("P")))
	data, count := getSlice(at("LS"))
	require.Equal(t, addr(&v.LS[0]), data)
	require.Equal(t, 2, count)

	set8(at("A"), 3)
	set16(at("B"), 4)
	set32(at("C"), math.Float32bits(5))
	set64(at("D"), 6)
	setString(at("S"), "new")
	setBool(at("E"), false)
	m := int64(7)
	setPointer(at("P"), addr(&m))
	makeNumbers(at("L8"), 1, 3)
	makeNumbers(at("L16"), 2, 3)
	makeNumbers(at("L32"), 4, 3)
	makeNumbers(at("L64"), 8, 3)
	copy(fields[uint32](addr(&v.L32[0]), 3), []uint32{math.Float32bits(1), 2, 3})
	elems := makeSliceOf(reflect.TypeFor[[]accessElem](), at("LX"), 2)
	k := int32(8)
	setPointer(fieldAt(elems, reflect.TypeFor[accessElem]().Size()), addr(&k))
	setZero(reflect.TypeFor[[]string](), at("LS"))
	want := accessStruct{
		A: 3, P: &m, B: 4, S: "new", C: 5, D: 6,
		L8: make([]int8, 3), L16: make([]uint16, 3), L32: v.L32, L64: make([]int64, 3), LX: []accessElem{{}, {P: &k}},
	}
	require.Equal(t, want, v, "and nothing else was touched")
	require.Equal(t, float32(1), v.L32[0])

	empty := makeSliceOf(reflect.TypeFor[[]accessElem](), at("LX"), 0)
	require.NotNil(t, empty)
	require.NotNil(t, v.LX)
	require.Empty(t, v.LX)
	s := (*accessElem)(makeStruct(reflect.TypeFor[accessElem]()))
	require.Equal(t, accessElem{}, *s)
}

// TestAccessKeepsMemoryAlive checks that what was allocated by hand is known to
// the garbage collector, pointers in it included.
func TestAccessKeepsMemoryAlive(t *testing.T) {
	v := new(limitItems)
	body, err := Marshal(&limitItems{slicesRepeat(&limitItem{ID: 7, Name: "a name that is on the heap"}, 1000)})
	require.NoError(t, err)
	require.NoError(t, Unmarshal(body, v))
	for range 3 {
		runtime.GC()
		garbage := make([][]byte, 1000)
		for i := range garbage {
			garbage[i] = make([]byte, 64)
			for j := range garbage[i] {
				garbage[i][j] = 0xff
			}
		}
	}
	for _, item := range v.Values {
		require.Equal(t, limitItem{7, "a name that is on the heap"}, *item)
	}
}

// TestTypeOf checks the identity of types and the cache built on it.
func TestTypeOf(t *testing.T) {
	require.Nil(t, typeOf(nil))
	require.Equal(t, typeOf(&limitInt{}), typeOf(&limitInt{1}))
	require.NotEqual(t, typeOf(&limitInt{}), typeOf(limitInt{}))
	require.NotEqual(t, typeOf(&limitInt{}), typeOf(&limitBoxed{}))
	for range 100 {
		require.Less(t, cacheSlot(typeID(addr(new([16]byte))), 256), uint(256))
	}
	// Many more types than the cache has places, each with its own plan.
	for round := range 2 {
		for n := range 600 {
			typ := reflect.StructOf([]reflect.StructField{
				{Name: "Pad", Type: reflect.ArrayOf(n, reflect.TypeFor[int16]())},
				{Name: "F", Type: reflect.TypeFor[int32](), Tag: `netplay:"0"`},
			})
			v := reflect.New(typ)
			v.Elem().Field(1).SetInt(int64(n))
			body, err := Marshal(v.Interface())
			require.NoError(t, err)
			require.Equal(t, []byte{0, 0, byte(n >> 8), byte(n)}, body, "%d, round %d", n, round)
		}
	}
}

// The types of a program, which lie side by side, have slots of their own, nearly.
func TestCacheSlotsDiffer(t *testing.T) {
	types := make([][16]byte, 256)
	seen := make(map[uint]bool)
	for i := range types {
		seen[cacheSlot(typeID(addr(&types[i])), 256)] = true
	}
	require.Greater(t, len(seen), 160, "as many as by chance")
}
