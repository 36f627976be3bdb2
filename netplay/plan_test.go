package netplay

import (
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

type (
	loopSlice   []loopSlice
	loopPointer *loopPointer
	treeNode    struct {
		Value    int32       `netplay:"0"`
		Children []*treeNode `netplay:"1"`
	}
	valueTree struct {
		Children []valueTree `netplay:"1"`
	}
	badInner struct {
		Deep map[string]int `netplay:"0"`
	}
	embedded struct {
		Inherited int32 `netplay:"0"`
	}
	named    int16
	withTags struct {
		embedded         // not a property, as fields of a Java superclass are none
		Skipped  int32   `netplay:"-"`
		Untagged float64 // no property, so that its type does not matter
		private  int32
		Last     named   `netplay:"2147483647"`
		First    []named `netplay:"-2147483648"`
		Middle   uint8   `netplay:"-1"`
	}
)

// TestTypesRefused checks that registration names the type and the field.
func TestTypesRefused(t *testing.T) {
	for _, test := range []struct {
		v           any
		typ         any
		field, text string
	}{
		{struct {
			F float64 `netplay:"0"`
		}{}, nil, "F", "double"},
		{struct {
			F []float64 `netplay:"0"`
		}{}, nil, "F", "float64"},
		{struct {
			F map[string]int32 `netplay:"0"`
		}{}, nil, "F", "map"},
		{struct {
			F any `netplay:"0"`
		}{}, nil, "F", "interface"},
		{struct {
			F error `netplay:"0"`
		}{}, nil, "F", "error"},
		{struct {
			F int `netplay:"0"`
		}{}, nil, "F", "int32"},
		{struct {
			F uint `netplay:"0"`
		}{}, nil, "F", "uint"},
		{struct {
			F [4]byte `netplay:"0"`
		}{}, nil, "F", "slice"},
		{struct {
			F chan int32 `netplay:"0"`
		}{}, nil, "F", "chan"},
		{struct {
			F func() `netplay:"0"`
		}{}, nil, "F", "func"},
		{struct {
			F complex64 `netplay:"0"`
		}{}, nil, "F", "complex"},
		{struct {
			F **int32 `netplay:"0"`
		}{}, nil, "F", "pointer"},
		{struct {
			F *[]int32 `netplay:"0"`
		}{}, nil, "F", "pointer"},
		{struct {
			F loopPointer `netplay:"0"`
		}{}, nil, "F", "pointer"},
		{struct {
			F loopSlice `netplay:"0"`
		}{}, nil, "F", "without a bound"},
		{struct {
			f int32 `netplay:"0"`
		}{}, nil, "f", "exported"},
		{struct {
			F int32 `netplay:"x"`
		}{}, nil, "F", "not a property number"},
		{struct {
			F int32 `netplay:""`
		}{}, nil, "F", "not a property number"},
		{struct {
			F int32 `netplay:"2147483648"`
		}{}, nil, "F", "-2147483648"},
		{struct {
			A int32 `netplay:"1"`
			B int16 `netplay:"0"`
			C int8  `netplay:"1"`
		}{}, nil, "C", "also that of field A"},
		{struct {
			F []*badInner `netplay:"0"`
		}{}, badInner{}, "Deep", "map"},
		{int32(5), int32(5), "", "struct"},
		{new(int32), new(int32), "", "struct"},
		{[]int32{}, []int32{}, "", "struct"},
	} {
		want := reflect.TypeOf(test.v)
		if test.typ != nil {
			want = reflect.TypeOf(test.typ)
		}
		_, marshaled := Marshal(test.v)
		for _, err := range []error{new(Registry).Add(0, test.v), marshaled} {
			var te *ValueError
			require.ErrorAs(t, err, &te)
			if test.field != "" {
				require.Equal(t, want, te.Type)
			}
			require.Equal(t, test.field, te.Field, "%v", te)
			require.Contains(t, te.Error(), test.text)
		}
	}
	for _, v := range []any{nil, withTags{}, (*withTags)(nil)} {
		require.Error(t, Unmarshal(nil, v))
	}
	_, err := Marshal((*withTags)(nil))
	require.ErrorAs(t, err, new(*ValueError))
	require.ErrorAs(t, new(Registry).Add(0, nil), new(*ValueError))
}

// TestTags checks which fields are properties, and their order.
func TestTags(t *testing.T) {
	v := withTags{embedded{1}, 2, 3, 4, 5, []named{6}, 7}
	body, err := Marshal(&v)
	require.NoError(t, err)
	require.Equal(t, []byte{0, 1, 0, 6, 7, 0, 5}, body)
	byValue, err := Marshal(v)
	require.NoError(t, err)
	require.Equal(t, body, byValue)
	var back withTags
	require.NoError(t, Unmarshal(body, &back))
	require.Equal(t, withTags{Last: 5, First: []named{6}, Middle: 7}, back)
	require.NoError(t, new(Registry).Add(65535, (*withTags)(nil)))
}

func TestRegistry(t *testing.T) {
	reg := new(Registry)
	require.NoError(t, reg.Add(7, limitInt{}))
	require.ErrorContains(t, reg.Add(7, limitString{}), "belongs to netplay.limitInt")
	require.ErrorContains(t, reg.Add(8, &limitInt{}), "already registered")
	require.ErrorContains(t, reg.Add(-1, limitString{}), "-1 is not from")
	require.ErrorContains(t, reg.Add(65536, limitString{}), "65536 is not from")
	require.Panics(t, func() { reg.MustAdd(7, limitString{}) })
	require.Equal(t, uint16(7), reg.typeOf(elemOf(&limitInt{})).number)
	for _, v := range []any{nil, 5, limitString{}, badInner{}} {
		require.Nil(t, reg.typeOf(elemOf(v)))
	}
	codec, err := NewCodec(reg, nil)
	require.NoError(t, err)
	_, err = codec.Append(nil, &limitString{})
	require.ErrorContains(t, err, "not registered")
}

// TestValuesRefused checks that a value which does not fit names its place, and
// that nothing is written.
func TestValuesRefused(t *testing.T) {
	type inner struct {
		Text string `netplay:"0"`
	}
	type outer struct {
		Inners []inner    `netplay:"0"`
		Rows   [][]uint8  `netplay:"1"`
		Boxes  []*int32   `netplay:"2"`
		Texts  []string   `netplay:"3"`
		Tree   *treeNode  `netplay:"4"`
		Matrix [][]string `netplay:"5"`
	}
	cycle := &treeNode{}
	cycle.Children = []*treeNode{nil, cycle}
	long := strings.Repeat("a", math.MaxUint16+1)
	for _, test := range []struct {
		v          outer
		path, text string
	}{
		{outer{Inners: []inner{{}, {long}}}, "Inners[1].Text", "65536"},
		{outer{Inners: []inner{{long[:math.MaxUint16]}}}, "Inners[0]", "nested struct with a length of 65537"},
		{outer{Inners: make([]inner, 65536)}, "Inners", "65536"},
		{outer{Rows: [][]uint8{nil, make([]uint8, 70000)}}, "Rows[1]", "70000"},
		{outer{Rows: make([][]uint8, 65536)}, "Rows", "65536"},
		{outer{Boxes: []*int32{new(int32), nil}}, "Boxes[1]", "nil"},
		{outer{Texts: []string{"", "", "\xff"}}, "Texts[2]", "UTF-8"},
		{outer{Matrix: [][]string{{}, {"", long}}}, "Matrix[1][1]", "65536"},
		{outer{Tree: cycle}, "Tree" + strings.Repeat(".Children[1]", 64), "deep"},
	} {
		dst := []byte("before")
		out, err := Append(dst, &test.v)
		require.Equal(t, dst, out)
		var ve *ValueError
		require.ErrorAs(t, err, &ve)
		require.Equal(t, test.path, ve.Field)
		require.Equal(t, reflect.TypeOf(test.v), ve.Type)
		require.ErrorContains(t, err, test.text)
	}
}

// TestDepth checks the limit on both sides.
func TestDepth(t *testing.T) {
	s, err := newSettings(&Config{MaxDepth: 5})
	require.NoError(t, err)
	roomy, err := newSettings(nil)
	require.NoError(t, err)
	for depth := range 8 {
		var v *vectorDeep
		for range depth + 1 {
			v = &vectorDeep{V: 1, Next: v}
		}
		body, err := roomy.appendBody(nil, v)
		require.NoError(t, err)
		_, err = s.appendBody(nil, v)
		var back vectorDeep
		readErr := s.decodeBody(body, &back)
		if depth <= 5 {
			require.NoError(t, err)
			require.NoError(t, readErr)
			require.Equal(t, v, &back)
		} else {
			require.ErrorAs(t, err, new(*ValueError))
			require.ErrorIs(t, readErr, ErrDepth)
		}
	}
	var tree valueTree // ends with an empty slice
	tree.Children = []valueTree{{}, {[]valueTree{{}}}}
	body, err := Marshal(tree)
	require.NoError(t, err)
	var back valueTree
	require.NoError(t, Unmarshal(body, &back))
	require.Len(t, back.Children[1].Children, 1)
}

// TestDepthOfNumbers checks the limit for structs of numbers alone, which are
// written in a way of their own.
func TestDepthOfNumbers(t *testing.T) {
	type point struct {
		X float32 `netplay:"0"`
	}
	for _, v := range []any{
		&struct {
			P *point `netplay:"0"`
		}{&point{1}},
		&struct {
			L []*point `netplay:"0"`
		}{[]*point{{1}}},
		&struct {
			V point `netplay:"0"`
		}{},
	} {
		_, err := (&settings{maxDepth: 1}).appendBody(nil, v)
		require.NoError(t, err)
		out, err := (&settings{}).appendBody(nil, v)
		require.ErrorContains(t, err, ErrDepth.Error())
		require.Empty(t, out)
	}
}

// TestValidString compares with package utf8, around the length up to which the
// check is another one.
func TestValidString(t *testing.T) {
	for n := range 2 * shortString {
		for at := range n + 1 {
			for _, part := range []string{"\x00", "\x7f", "\x80", "\xc3", "\xff", "\u00e9", "\u20ac", "\U0001f600", "\xed\xa0\x80"} {
				s := strings.Repeat("a", at) + part + strings.Repeat("a", n-at)
				require.Equal(t, utf8.ValidString(s), validString(s), "%q", s)
			}
		}
	}
	require.True(t, validString(""))
}

// TestDecodedSize checks the limit on what a body takes in memory, for each
// thing that takes some.
func TestDecodedSize(t *testing.T) {
	text := strings.Repeat("x", 3000)
	number := int64(1)
	for _, v := range []any{
		&limitString{text},
		&limitBytes{make([]byte, 3000)},
		&limitInts{make([]int32, 750)},
		&struct {
			F []int64 `netplay:"0"`
		}{make([]int64, 375)},
		&struct {
			F [][]int8 `netplay:"0"`
		}{make([][]int8, fit[[]int8]())},
		&struct {
			F []string `netplay:"0"`
		}{make([]string, fit[string]())},
		&limitItems{make([]*limitItem, fit[*limitItem]())},
		&limitItems{[]*limitItem{{1, text}}},
		&struct {
			F []limitItem `netplay:"0"`
		}{make([]limitItem, fit[limitItem]())},
		&struct {
			F []*int64 `netplay:"0"`
		}{slicesRepeat(&number, 1+3000/(8+int(reflect.TypeFor[*int64]().Size())))},
	} {
		s, err := newSettings(&Config{MaxDecoded: 3100})
		require.NoError(t, err)
		tight, err := newSettings(&Config{MaxDecoded: 2990})
		require.NoError(t, err)
		body, err := s.appendBody(nil, v)
		require.NoError(t, err)
		back := reflect.New(reflect.TypeOf(v).Elem()).Interface()
		require.NoError(t, s.decodeBody(body, back), "%T", v)
		require.ErrorIs(t, tight.decodeBody(body, back), ErrDecodedSize, "%T", v)
	}
}

// fit returns how many elements take 3000 bytes, nearly.
func fit[T any]() int {
	size := int(reflect.TypeFor[T]().Size())
	return (3000 + size - 1) / size
}

func slicesRepeat[T any](v T, n int) []T {
	s := make([]T, n)
	for i := range s {
		s[i] = v
	}
	return s
}

// TestHostileCounts checks that a count costs nothing until its elements are
// there.
func TestHostileCounts(t *testing.T) {
	for _, v := range []any{
		&limitBytes{}, &limitInts{}, &limitItems{}, &limitNulls{},
		&struct {
			F [][]int64 `netplay:"0"`
		}{},
		&struct {
			F []limitItem `netplay:"0"`
		}{},
	} {
		for _, body := range []string{"\xff\xff", "\xff\xff\x00", "\xff\xff\xff\xff\xff"} {
			allocs := testing.AllocsPerRun(10, func() {
				if err := Unmarshal([]byte(body), v); !errors.Is(err, ErrShortBody) {
					t.Errorf("%T: %v", v, err)
				}
			})
			require.Less(t, allocs, 8.0, "the error and nothing else")
		}
	}
}

// TestAbsentValues: structs can be absent, and are zero then.
func TestAbsentValues(t *testing.T) {
	type inner struct {
		N int32 `netplay:"0"`
	}
	r := struct {
		Struct inner  `netplay:"0"`
		Ptr    *inner `netplay:"1"`
	}{inner{1}, &inner{1}}
	require.NoError(t, Unmarshal([]byte{0, 0}, &r))
	require.Zero(t, r)
}

// TestDecodedSizeOfBadStrings: a string that is not valid UTF-8 counts three times,
// since each byte may become a replacement character.
func TestDecodedSizeOfBadStrings(t *testing.T) {
	for _, n := range []int{1024, 4000} {
		good, bad := strings.Repeat("x", n), strings.Repeat("\xff", n)
		decode := func(text string, most int) (string, error) {
			s, err := newSettings(&Config{MaxDecoded: most})
			require.NoError(t, err)
			body, err := s.appendBody(nil, &limitString{good})
			require.NoError(t, err)
			body = append(body[:len(body)-n], text...)
			var back limitString
			err = s.decodeBody(body, &back)
			return reflect.ValueOf(back).Field(0).String(), err
		}
		_, err := decode(good, n)
		require.NoError(t, err)
		_, err = decode(bad, 3*n-1)
		require.ErrorIs(t, err, ErrDecodedSize)
		s, err := decode(bad, 3*n)
		require.NoError(t, err)
		require.NotEmpty(t, s)
		require.Empty(t, strings.Trim(s, "\uFFFD"))
	}
}
