package netplay

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"path"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"volley/internal/vectors"
)

// vectorTests maps the file names of the golden vectors to their tests.
var vectorTests = map[string]func(*testing.T, *schemas, []vectorCase){
	"values":        testEncoded,
	"composite":     testEncoded,
	"compressed":    testCompressedVectors,
	"compression":   testExpandVectors,
	"decode_body":   testDecodeVectors,
	"mutations":     testDecodeVectors,
	"frames":        testFrameVectors,
	"page_examples": testPageVectors,
	"encode_limits": testLimitVectors,
	"stream":        testStreamVectors,
	"v3_presence":   otherFormat,
	"v4_chunks":     otherFormat,
	"v4_stream":     otherFormat,
	"head_text":     otherFormat,
}

func otherFormat(t *testing.T, _ *schemas, _ []vectorCase) {
	t.Skip("another format of the library, which this package does not speak")
}

// TestVectors runs every file of the golden vectors by its name.
func TestVectors(t *testing.T) {
	files := vectors.Files(t, "netplay")
	s := newSchemas(t, files["structs.json"])
	for name, data := range files {
		base := strings.TrimSuffix(path.Base(name), ".json")
		if base == "structs" {
			continue
		}
		t.Run(base, func(t *testing.T) {
			test := vectorTests[base]
			require.NotNil(t, test, "no test for the vectors in %s", name)
			test(t, s, readCases(t, data))
		})
	}
}

// A hexBytes is a byte string that stands in JSON in hexadecimal.
type hexBytes []byte

func (h *hexBytes) UnmarshalText(b []byte) (err error) {
	*h, err = hex.DecodeString(string(b))
	return err
}

// A vectorCase has the fields of all files.
type vectorCase struct {
	Name           string
	Struct         string
	Type           int
	Compressed     bool
	Encrypted      bool
	Fields         []schemaField
	Value          any
	Body           *hexBytes
	Options        int
	Wire           *hexBytes
	WirePrefix     hexBytes `json:"wire_prefix"`
	WireLength     int      `json:"wire_length"`
	WireSHA256     hexBytes `json:"wire_sha256"`
	Payload        hexBytes
	Result         string
	Input          string
	BodyLength     int      `json:"body_length"`
	BodySHA256     hexBytes `json:"body_sha256"`
	ReferenceError string   `json:"reference_error"`
	Reencoded      *hexBytes
	Typed          *struct {
		Struct string
		Value  any
		Error  string `json:"reference_error"`
	}
	PageHex        hexBytes `json:"page_hex"`
	DeclaredLength int      `json:"page_declared_length"`
	ReadingPage    struct {
		Value any
		Error string `json:"reference_error"`
	} `json:"reference_reading_page_hex"`
	ReferenceWire hexBytes `json:"reference_wire"`
	Message       hexBytes
	Chunks        []hexBytes
	Mode          string
	Segments      json.RawMessage
	Reference     struct {
		Messages []struct {
			Type    uint16
			Options uint8
			Payload hexBytes
			Error   string
		}
		Closed bool `json:"connection_closed_by_server"`
		Serves bool `json:"server_still_serves_others"`
	}
}

func readCases(t testing.TB, data []byte) []vectorCase {
	t.Helper()
	var file struct{ Cases []vectorCase }
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	require.NoError(t, d.Decode(&file))
	require.NotEmpty(t, file.Cases)
	return file.Cases
}

// A schemaField is a property in structs.json.
type schemaField struct {
	Name  string
	Order int
	Type  string
}

// schemas are the classes of structs.json as Go types.
type schemas struct {
	cases   map[string]*vectorCase
	release map[string]reflect.Type
	nulls   map[string]reflect.Type // in which boxed numbers and strings can be nil
}

// nullMark is a key of schemas.nulls alone.
const nullMark = "null"

// A vectorDeep is the class that contains itself, which package reflect cannot
// make.
type vectorDeep struct {
	V    int32       `netplay:"0"`
	Next *vectorDeep `netplay:"1"`
	End  int8        `netplay:"2"`
}

func newSchemas(t *testing.T, data []byte) *schemas {
	s := &schemas{
		cases:   make(map[string]*vectorCase),
		release: map[string]reflect.Type{"Deep": reflect.TypeFor[vectorDeep]()},
		nulls:   map[string]reflect.Type{"Deep": reflect.TypeFor[vectorDeep](), nullMark: nil},
	}
	for _, c := range readCases(t, data) {
		s.cases[c.Struct] = &c
	}
	for name := range s.cases {
		s.goType(t, s.release, name)
		s.goType(t, s.nulls, name)
	}
	return s
}

var scalarTypes = map[string]reflect.Type{
	"i8":     reflect.TypeFor[int8](),
	"bool":   reflect.TypeFor[bool](),
	"i16":    reflect.TypeFor[int16](),
	"i32":    reflect.TypeFor[int32](),
	"i64":    reflect.TypeFor[int64](),
	"f32":    reflect.TypeFor[float32](),
	"string": reflect.TypeFor[string](),
	// What the library cannot write, in its closest Go form.
	"unsupported:double": reflect.TypeFor[float64](),
	"unsupported:List":   reflect.TypeFor[[]any](),
	"unsupported:Map":    reflect.TypeFor[map[string]string](),
	"unsupported:Object": reflect.TypeFor[any](),
	"unsupported:char":   reflect.TypeFor[complex64](),
	"unsupported:State":  reflect.TypeFor[int](),
}

func (s *schemas) goType(t *testing.T, made map[string]reflect.Type, name string) reflect.Type {
	if typ := made[name]; typ != nil {
		return typ
	}
	c := s.cases[name]
	require.NotNil(t, c, "structs.json has no %s", name)
	var fields []reflect.StructField
	for i, f := range c.Fields {
		typ := s.fieldType(t, made, f.Type)
		if _, scalar := scalarTypes[f.Type]; scalar && name == "Boxed" && typ.Kind() != reflect.Pointer {
			typ = reflect.PointerTo(typ)
		}
		fields = append(fields, reflect.StructField{
			Name: "F" + strconv.Itoa(len(c.Fields)-1-i), // not in the order of the wire
			Type: typ,
			Tag:  reflect.StructTag(`netplay:"` + strconv.Itoa(f.Order) + `" name:"` + f.Name + `"`),
		})
	}
	// A field that is no property, lest package reflect makes equal classes one
	// type.
	fields = append(fields, reflect.StructField{Name: "Class", Type: reflect.TypeFor[struct{}](), Tag: reflect.StructTag(`class:"` + name + `"`)})
	made[name] = reflect.StructOf(fields)
	return made[name]
}

func (s *schemas) fieldType(t *testing.T, made map[string]reflect.Type, text string) reflect.Type {
	if elem, ok := strings.CutPrefix(text, "[]"); ok {
		return reflect.SliceOf(s.fieldType(t, made, elem))
	}
	if name, ok := strings.CutPrefix(text, "struct:"); ok {
		return reflect.PointerTo(s.goType(t, made, name))
	}
	typ := scalarTypes[text]
	require.NotNil(t, typ, "unknown type %s", text)
	if _, nulls := made[nullMark]; nulls && text == "string" {
		return reflect.PointerTo(typ)
	}
	return typ
}

// registry returns a registry of all classes that can be registered.
func (s *schemas) registry(t *testing.T) *Registry {
	reg := new(Registry)
	for name, c := range s.cases {
		var opts []TypeOption
		if c.Compressed {
			opts = append(opts, Compress(1))
		}
		err := reg.Add(c.Type, reflect.New(s.release[name]).Interface(), opts...)
		unsupported := strings.Contains(c.firstType(), "unsupported:")
		var te *ValueError
		require.Equal(t, unsupported, errors.As(err, &te), "%s: %v", name, err)
	}
	return reg
}

// firstType returns the type of the first field.
func (c *vectorCase) firstType() string {
	if len(c.Fields) == 0 {
		return ""
	}
	return c.Fields[0].Type
}

// toGo sets v to a value of the vectors.
func toGo(t *testing.T, v reflect.Value, from any) {
	t.Helper()
	if from == nil {
		v.SetZero()
		return
	}
	number := func() int64 {
		n, err := strconv.ParseInt(reflect.ValueOf(from).String(), 10, 64)
		require.NoError(t, err)
		return n
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		toGo(t, v.Elem(), from)
	case reflect.Struct:
		object := from.(map[string]any)
		for i := range v.NumField() {
			if name := fieldName(v.Type().Field(i)); name != "class" {
				toGo(t, v.Field(i), object[name])
			}
		}
	case reflect.Slice:
		list := from.([]any)
		v.Set(reflect.MakeSlice(v.Type(), len(list), len(list)))
		for i := range list {
			toGo(t, v.Index(i), list[i])
		}
	case reflect.Bool:
		v.SetBool(from.(bool))
	case reflect.Float32:
		bits, err := strconv.ParseUint(from.(string), 16, 32)
		require.NoError(t, err)
		fields[uint32](addr(v.Addr().UnsafePointer()), 1)[0] = uint32(bits)
	case reflect.String:
		v.SetString(from.(string))
	default:
		v.SetInt(number())
	}
}

// fromGo returns v in the form of the vectors.
func fromGo(v reflect.Value) any {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return nil
		}
		return fromGo(v.Elem())
	case reflect.Struct:
		object := make(map[string]any)
		for i := range v.NumField() {
			if name := fieldName(v.Type().Field(i)); name != "class" {
				object[name] = fromGo(v.Field(i))
			}
		}
		return object
	case reflect.Slice:
		if v.IsNil() {
			return nil
		}
		list := make([]any, v.Len())
		for i := range list {
			list[i] = fromGo(v.Index(i))
		}
		return list
	case reflect.Bool:
		return v.Bool()
	case reflect.Float32:
		// Not by a float64, which would make signalling NaNs quiet.
		return hex.EncodeToString([]byte{
			byte(bitsOf(v) >> 24), byte(bitsOf(v) >> 16), byte(bitsOf(v) >> 8), byte(bitsOf(v)),
		})
	case reflect.String:
		return v.String()
	case reflect.Int64:
		return strconv.FormatInt(v.Int(), 10)
	}
	return json.Number(strconv.FormatInt(v.Int(), 10))
}

func bitsOf(v reflect.Value) uint32 { return fields[uint32](addr(v.Addr().UnsafePointer()), 1)[0] }

func fieldName(f reflect.StructField) string {
	if name := f.Tag.Get("name"); name != "" {
		return name
	}
	return strings.ToLower(f.Name)
}

var replacements = regexp.MustCompile("\ufffd+")

// requireValue compares a decoded value with that of the vectors, but for the
// number of replacement letters in a row, which depends on the language.
func requireValue(t *testing.T, want any, got reflect.Value, name string) {
	t.Helper()
	require.Equal(t, squeeze(t, want), squeeze(t, fromGo(got)), name)
}

func squeeze(t *testing.T, v any) string {
	t.Helper()
	text, err := json.MarshalIndent(v, "", " ")
	require.NoError(t, err)
	return replacements.ReplaceAllString(strings.ReplaceAll(string(text), `\ufffd`, "\ufffd"), "\ufffd")
}

// testEncoded checks bodies and frames, in both directions.
func testEncoded(t *testing.T, s *schemas, cases []vectorCase) {
	for _, c := range cases {
		v := reflect.New(s.release[c.Struct])
		toGo(t, v.Elem(), c.Value)
		body, err := Marshal(v.Interface())
		require.NoError(t, err, c.Name)
		require.Equal(t, []byte(*c.Body), append([]byte{}, body...), c.Name)

		back := reflect.New(s.release[c.Struct])
		require.NoError(t, Unmarshal(*c.Body, back.Interface()), c.Name)
		requireValue(t, c.Value, back.Elem(), c.Name)

		reg := new(Registry)
		require.NoError(t, reg.Add(c.Type, v.Interface()))
		codec, err := NewCodec(reg, nil)
		require.NoError(t, err)
		wire, err := codec.Append(nil, v.Interface())
		require.NoError(t, err, c.Name)
		require.Equal(t, []byte(*c.Wire), wire, c.Name)
		f, rest, err := ParseFrame(*c.Wire)
		require.NoError(t, err, c.Name)
		require.Empty(t, rest, c.Name)
		require.Equal(t, uint8(c.Options), f.Options, c.Name)
		m, err := codec.Decode(f)
		require.NoError(t, err, c.Name)
		requireValue(t, c.Value, reflect.ValueOf(m).Elem(), c.Name)
	}
}

func testCompressedVectors(t *testing.T, s *schemas, cases []vectorCase) {
	for _, c := range cases {
		v := reflect.New(s.release[c.Struct])
		toGo(t, v.Elem(), c.Value)
		reg := new(Registry)
		require.NoError(t, reg.Add(c.Type, v.Interface(), Compress(1)))
		codec, err := NewCodec(reg, nil)
		require.NoError(t, err)
		own, err := codec.Append(nil, v.Interface())
		require.NoError(t, err, c.Name)
		require.LessOrEqual(t, len(own), minFrame+len(*c.Body), c.Name)
		for _, wire := range [][]byte{own, *c.Wire} {
			f, rest, err := ParseFrame(wire)
			require.NoError(t, err, c.Name)
			require.Empty(t, rest, c.Name)
			body := f.Payload
			if f.Options&Compressed != 0 {
				body, err = expand(nil, f.Payload, defaultExpanded)
				require.NoError(t, err, c.Name)
			}
			require.Equal(t, []byte(*c.Body), append([]byte{}, body...), c.Name)
			m, err := codec.Decode(f)
			require.NoError(t, err, c.Name)
			requireValue(t, c.Value, reflect.ValueOf(m).Elem(), c.Name)
		}
	}
}

func testExpandVectors(t *testing.T, _ *schemas, cases []vectorCase) {
	for _, c := range cases {
		body, err := expand(nil, c.Payload, defaultExpanded)
		// The library cannot read gzip, which the page names; we can.
		if c.Result != "ok" && !strings.HasPrefix(c.Name, "gzip stream") {
			var ce *CompressionError
			require.ErrorAs(t, err, &ce, c.Name)
			continue
		}
		require.NoError(t, err, c.Name)
		switch {
		case c.BodySHA256 != nil:
			sum := sha256.Sum256(body)
			require.Equal(t, []byte(c.BodySHA256), sum[:], c.Name)
			require.Len(t, body, c.BodyLength, c.Name)
			_, err = expand(nil, c.Payload, c.BodyLength-1)
			require.ErrorIs(t, err, ErrExpandedSize, c.Name)
		case c.Body != nil:
			require.Equal(t, []byte(*c.Body), append([]byte{}, body...), c.Name)
		}
	}
}

// testDecodeVectors checks odd bodies.
func testDecodeVectors(t *testing.T, s *schemas, cases []vectorCase) {
	for _, c := range cases {
		v := reflect.New(s.release[c.Struct])
		err := Unmarshal(*c.Body, v.Interface())
		if strings.Contains(s.cases[c.Struct].firstType(), "unsupported:") {
			var te *ValueError
			require.ErrorAs(t, err, &te, c.Name)
			continue
		}
		if strings.Contains(c.ReferenceError, "NoSuchFieldException") {
			continue // a fault of the library, which looks for a method's name
		}
		if c.Result != "ok" {
			var de *DecodeError
			require.ErrorAs(t, err, &de, c.Name)
			require.ErrorIs(t, err, ErrShortBody, c.Name)
			continue
		}
		require.NoError(t, err, c.Name)
		requireValue(t, c.Value, v.Elem(), c.Name)
		again, err := Marshal(v.Interface())
		require.NoError(t, err, c.Name)
		if c.Reencoded != nil && !bytes.Contains(*c.Reencoded, []byte("\ufffd\ufffd")) {
			require.Equal(t, []byte(*c.Reencoded), again, c.Name)
		}
	}
}

func testFrameVectors(t *testing.T, s *schemas, cases []vectorCase) {
	reg := s.registry(t)
	plain, err := NewCodec(reg, nil)
	require.NoError(t, err)
	lenient, err := NewCodec(reg, &Config{AcceptEncrypted: true})
	require.NoError(t, err)
	for _, c := range cases {
		f, rest, err := ParseFrame(*c.Wire)
		if c.Result != "ok" {
			var pe *ProtocolError
			require.True(t, errors.Is(err, errShortFrame) || errors.As(err, &pe), "%s: %v", c.Name, err)
			require.Equal(t, []byte(*c.Wire), append([]byte{}, rest...), c.Name)
			continue
		}
		require.NoError(t, err, c.Name)
		require.Equal(t, Frame{uint16(c.Type), uint8(c.Options), append([]byte{}, c.Payload...)}, f, c.Name)
		require.Equal(t, c.Encrypted, f.Options&Encrypted != 0, c.Name)
		require.Equal(t, c.Compressed, f.Options&Compressed != 0, c.Name)
		again, err := AppendFrame(nil, f)
		require.NoError(t, err, c.Name)
		require.Equal(t, (*c.Wire)[:len(*c.Wire)-len(rest)], hexBytes(again), c.Name)

		m, err := plain.Decode(f)
		if c.Encrypted {
			require.ErrorIs(t, err, ErrEncrypted, c.Name)
			m, err = lenient.Decode(f)
		}
		if c.Typed.Error != "" {
			var me *MessageError
			require.ErrorAs(t, err, &me, c.Name)
			continue
		}
		require.NoError(t, err, c.Name)
		requireValue(t, c.Typed.Value, reflect.ValueOf(m).Elem(), c.Name)
	}
}

func testPageVectors(t *testing.T, s *schemas, cases []vectorCase) {
	for _, c := range cases {
		reg := new(Registry)
		v := reflect.New(s.release[c.Struct])
		f, _, err := ParseFrame(c.ReferenceWire)
		require.NoError(t, err, c.Name)
		require.NoError(t, reg.Add(int(f.Type), v.Interface()))
		codec, err := NewCodec(reg, nil)
		require.NoError(t, err)
		toGo(t, v.Elem(), c.Value)

		if c.PageHex != nil {
			f, rest, err := ParseFrame(c.PageHex)
			require.NoError(t, err, c.Name)
			require.Empty(t, rest, c.Name)
			require.Equal(t, c.DeclaredLength, f.size()-2, c.Name)
			m, err := codec.Decode(f)
			if c.ReadingPage.Error != "" {
				var ce *CompressionError
				require.ErrorAs(t, err, &ce, c.Name)
			} else {
				require.NoError(t, err, c.Name)
				requireValue(t, c.ReadingPage.Value, reflect.ValueOf(m).Elem(), c.Name)
			}
		}
		m, err := codec.Decode(f)
		require.NoError(t, err, c.Name)
		requireValue(t, c.Value, reflect.ValueOf(m).Elem(), c.Name)
		if f.Options&Compressed == 0 {
			wire, err := codec.Append(nil, v.Interface())
			require.NoError(t, err, c.Name)
			require.Equal(t, []byte(c.ReferenceWire), wire, c.Name)
		}
	}
}
