package netplay

import (
	"crypto/sha256"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

type (
	limitBytes struct {
		Data []byte `netplay:"0"`
	}
	limitString struct {
		Value string `netplay:"0"`
	}
	limitItem struct {
		ID   int32  `netplay:"0"`
		Name string `netplay:"1"`
	}
	limitItems struct {
		Values []*limitItem `netplay:"0"`
	}
	limitHolder struct {
		Item *limitItem `netplay:"0"`
		Tail string     `netplay:"1"`
	}
	limitInt struct {
		Value int32 `netplay:"0"`
	}
	limitBoxed struct {
		Value *int32 `netplay:"0"`
	}
	limitNulls struct {
		Values []*string `netplay:"0"`
	}
	limitInts struct {
		Values []int32 `netplay:"0"`
	}
)

var fillCase = regexp.MustCompile(`^(byte\[\]|string) of (\d+) (zero bytes|letters a|two-byte letters)$`)

// A limitCase is what we do at one of the library's limits.
type limitCase struct {
	message any
	options []TypeOption
	refused any    // the type of our error; nil if we write what the library writes
	wire    string // what we write instead, if it is something else
}

// limitCases are the cases that do not follow a pattern.
var limitCases = map[string]limitCase{
	"nested struct whose data needs more than 65535 bytes": {message: &limitItems{[]*limitItem{{Name: strings.Repeat("a", 65530)}}}, refused: new(*ValueError)},
	"compressed 60000 zero bytes":                          {message: &limitBytes{make([]byte, 60000)}, options: []TypeOption{Compress(1)}},
	"lone surrogate":                                       {message: &limitString{"a\xed\xa0\x80b"}, refused: new(*ValueError)},
	"null string":                                          {message: &limitNulls{[]*string{nil}}, refused: new(*ValueError)},
	"null array":                                           {message: &limitInts{}, wire: "00050000710000"},
	"null nested":                                          {message: &limitHolder{Tail: "x"}, wire: "0007000078" + "00" + "000178"},
	"null boxed":                                           {message: &limitBoxed{}, refused: new(*ValueError)},
	"null element in string array":                         {message: &limitNulls{[]*string{nil}}, refused: new(*ValueError)},
	"double": {message: &struct {
		V float64 `netplay:"0"`
	}{}, refused: new(*ValueError)},
	"char": {message: &struct {
		V int `netplay:"0"`
	}{}, refused: new(*ValueError)},
	"list": {message: &struct {
		V []any `netplay:"0"`
	}{}, refused: new(*ValueError)},
	"map": {message: &struct {
		V map[string]string `netplay:"0"`
	}{}, refused: new(*ValueError)},
	"enum": {message: &struct {
		V any `netplay:"0"`
	}{}, refused: new(*ValueError)},
	"double array": {message: &struct {
		V []float64 `netplay:"0"`
	}{[]float64{1}}, refused: new(*ValueError)},
	"empty double array": {message: &struct {
		V []float64 `netplay:"0"`
	}{}, refused: new(*ValueError)},
	"Object field holding an Integer": {message: &struct {
		V any `netplay:"0"`
	}{int32(5)}, refused: new(*ValueError)},
	"message type 65536": {message: &limitInt{1}, refused: new(*ValueError)},
	// There is no way to set an option by hand; what the library writes then
	// can be written with AppendFrame.
	"explicit compressed option":             {message: &limitInt{42}, wire: "00070000670000002a"},
	"explicit encrypted option":              {message: &limitInt{42}, wire: "00070000670000002a"},
	"explicit none overrides the annotation": {},
}

func testLimitVectors(t *testing.T, s *schemas, cases []vectorCase) {
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			l, ok := limitCases[c.Name]
			if m := fillCase.FindStringSubmatch(c.Name); m != nil {
				l, ok = filled(t, &c, m), true
			}
			require.True(t, ok, "no test for this case")
			if l.message == nil {
				return
			}
			number := s.cases[c.Struct].Type
			if c.Name == "message type 65536" {
				number = 65536
			}
			wire, err := appendNew(number, &l)
			if l.refused != nil {
				require.ErrorAs(t, err, l.refused)
				require.Empty(t, wire)
				return
			}
			require.NoError(t, err)
			l.check(t, &c, wire)
		})
	}
}

// appendNew registers the message and writes it.
func appendNew(number int, l *limitCase) ([]byte, error) {
	reg := new(Registry)
	if err := reg.Add(number, l.message, l.options...); err != nil {
		return nil, err
	}
	codec, err := NewCodec(reg, nil)
	if err != nil {
		return nil, err
	}
	return codec.Append(nil, l.message)
}

// check compares what we wrote with what the library wrote.
func (l *limitCase) check(t *testing.T, c *vectorCase, wire []byte) {
	switch {
	case l.wire != "":
		require.Equal(t, l.wire, fmt.Sprintf("%x", wire))
	case len(l.options) > 0: // compressed bytes depend on the zlib
		f, _, err := ParseFrame(wire)
		require.NoError(t, err)
		require.Equal(t, Compressed, f.Options)
		body, err := expand(nil, f.Payload, defaultExpanded)
		require.NoError(t, err)
		plain, err := Marshal(l.message)
		require.NoError(t, err)
		require.Equal(t, plain, body)
	default:
		require.Len(t, wire, c.WireLength)
		require.Equal(t, []byte(c.WirePrefix), wire[:len(c.WirePrefix)])
		sum := sha256.Sum256(wire)
		require.Equal(t, []byte(c.WireSHA256), sum[:])
	}
}

// filled makes the case of a long array or string: up to a payload of 65532
// bytes it is written as the library does, beyond it is refused.
func filled(t *testing.T, c *vectorCase, m []string) limitCase {
	n, err := strconv.Atoi(m[2])
	require.NoError(t, err)
	var l limitCase
	switch m[3] {
	case "zero bytes":
		l.message = &limitBytes{make([]byte, n)}
	case "letters a":
		l.message = &limitString{strings.Repeat("a", n)}
	case "two-byte letters":
		n *= 2
		l.message = &limitString{strings.Repeat("é", n/2)}
	}
	switch {
	case n > maxCount:
		l.refused = new(*ValueError)
	case n+2 > MaxPayload:
		l.refused = new(*MessageTooLargeError)
	default:
		require.Equal(t, minFrame+2+n, c.WireLength)
	}
	return l
}
