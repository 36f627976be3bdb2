package dissect_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"volley/internal/dissect"
	"volley/internal/vectors"
	"volley/internal/wire"
	"volley/reliable"
)

// fields returns all fields of a datagram by their names behind "volley." and
// the protocol.
func fields(d *dissect.Datagram) map[string]any {
	m := make(map[string]any)
	d.All(func(f dissect.Field, _ int) {
		_, name, _ := strings.Cut(strings.TrimPrefix(f.Name, "volley."), ".")
		if _, twice := m[name]; !twice {
			m[name] = f.Value
		}
	})
	return m
}

// bytesOf returns the bytes of the first field of that name, nil if there are none.
func bytesOf(d *dissect.Datagram, name string) []byte {
	b, _ := fields(d)[name].([]byte)
	return b
}

// checkPlaces fails for a field that lies outside the datagram b, or outside the
// field that it is in.
func checkPlaces(t *testing.T, d *dissect.Datagram, b []byte) {
	t.Helper()
	var check func(fields []dissect.Field, from, to int)
	check = func(fields []dissect.Field, from, to int) {
		for _, f := range fields {
			if f.In == "" && (f.Offset < from || f.Length < 1 || f.Offset+f.Length > to) {
				t.Errorf("%s takes %d bytes at %d, outside %d to %d; datagram %x", f.Name, f.Length, f.Offset, from, to, b)
			}
			check(f.Fields, f.Offset, f.Offset+f.Length)
		}
	}
	check(d.Fields, 0, len(b))
	if d.Summary == "" {
		t.Errorf("no summary of %x", b)
	}
}

// A headerVector is a line of one of the files about headers and fragments.
type headerVector struct {
	Hex                    string
	OK                     *bool
	Canonical              *bool
	Sequence, Ack, AckBits *uint64
	MaxFragments           int     `json:"max_fragments"`
	FragmentSize           int     `json:"fragment_size"`
	HeaderBytes            *int    `json:"header_bytes"`
	FragmentID             *uint64 `json:"fragment_id"`
	NumFragments           *uint64 `json:"num_fragments"`
	FragmentBytes          int     `json:"fragment_bytes"`
}

func (v *headerVector) UnmarshalJSON(b []byte) error {
	type plain headerVector
	aux := struct {
		*plain
		AckBits *uint64 `json:"ack_bits"`
	}{plain: (*plain)(v)}
	err := json.Unmarshal(b, &aux)
	v.AckBits = aux.AckBits
	return err
}

// TestReliableStated compares what is found in headers and fragments with what
// the recordings say is in them.
func TestReliableStated(t *testing.T) {
	files := vectors.Files(t, "reliable")
	for _, name := range []string{"packet_header_encode", "packet_header_decode", "conformance_headers", "fragment_header_decode"} {
		dec, n := json.NewDecoder(bytes.NewReader(files[name+".jsonl"])), 0
		for ; ; n++ {
			var v headerVector
			if err := dec.Decode(&v); errors.Is(err, io.EOF) {
				break
			} else {
				require.NoError(t, err)
			}
			checkStated(t, name, &v)
		}
		require.Greater(t, n, 100, name)
	}
}

func checkStated(t *testing.T, file string, v *headerVector) {
	b, err := hex.DecodeString(v.Hex)
	require.NoError(t, err)
	if b[0]&1 == 0 && strings.HasPrefix(file, "fragment") {
		require.False(t, *v.OK)
		return // by its first byte it is a packet
	}
	d := dissect.Decode(dissect.Reliable, b, &dissect.Options{MaxFragments: v.MaxFragments, FragmentSize: v.FragmentSize})
	checkPlaces(t, &d, b)
	if v.OK != nil && !*v.OK {
		if b[0]&1 == 1 && strings.HasPrefix(file, "packet") {
			return // a fragment, or a notice, which is no header
		}
		require.NotEmpty(t, d.Problem, "%s: %s", file, v.Hex)
		return
	}
	require.Empty(t, d.Problem, "%s: %s", file, v.Hex)
	got := fields(&d)
	require.Equal(t, *v.Sequence, got["sequence"], v.Hex)
	if v.Ack != nil {
		require.Equal(t, []any{*v.Ack, *v.AckBits}, []any{got["ack"], got["ack_bits"]}, v.Hex)
	}
	if v.Canonical != nil {
		require.Equal(t, *v.Canonical, d.Note == "", v.Hex)
	}
	if v.HeaderBytes != nil {
		require.Equal(t, b[*v.HeaderBytes:], append([]byte{}, bytesOf(&d, "payload")...), v.Hex)
	}
	if v.FragmentID != nil {
		require.Equal(t, []any{*v.FragmentID, *v.NumFragments}, []any{got["fragment"], got["fragments"]}, v.Hex)
		require.Len(t, bytesOf(&d, "data"), v.FragmentBytes, v.Hex)
	}
}

// TestReliableAgrees compares what is found in every recorded datagram, and in
// damaged copies, with what package reliable finds.
func TestReliableAgrees(t *testing.T) {
	n := 0
	vectors.EachDamaged(t, 3, func(b []byte) {
		checkReliable(t, b)
		n++
	}, "reliable", "hex", "datagrams")
	require.Greater(t, n, 4*10000)
}

func checkReliable(t *testing.T, b []byte) {
	d := dissect.Decode(dissect.Reliable, b, nil)
	checkPlaces(t, &d, b)
	got := fields(&d)
	if len(b) == 0 || got["type"] != "packet" && got["type"] != "fragment" {
		return // not of package reliable
	}
	if wire.IsFragment(b) {
		checkFragment(t, b, &d)
		return
	}
	h, n, err := reliable.ParseHeader(b)
	if err != nil {
		require.Equal(t, err.Error(), "reliable: "+d.Problem, "%x", b)
		return
	}
	require.Empty(t, d.Problem, "%x", b)
	require.Equal(t, []any{uint64(h.Sequence), uint64(h.Ack), uint64(h.AckBits)}, []any{got["sequence"], got["ack"], got["ack_bits"]}, "%x", b)
	require.Equal(t, b[n:], append([]byte{}, bytesOf(&d, "payload")...), "%x", b)
}

func checkFragment(t *testing.T, b []byte, d *dissect.Datagram) {
	data := len(bytesOf(d, "data"))
	f, err := reliable.ParseFragment(b, 256, data)
	if d.Problem != "" {
		require.Equal(t, err.Error(), "reliable: "+d.Problem, "%x", b)
		return
	}
	require.NoError(t, err, "%x", b)
	got := fields(d)
	require.Equal(t, []any{uint64(f.Sequence), uint64(f.ID), uint64(f.Count)}, []any{got["sequence"], got["fragment"], got["fragments"]}, "%x", b)
	require.Equal(t, append([]byte{}, f.Data...), append([]byte{}, bytesOf(d, "data")...), "%x", b)
	if f.HeaderSize > 0 {
		require.Equal(t, []any{uint64(f.Header.Sequence), uint64(f.Header.Ack), uint64(f.Header.AckBits)},
			[]any{got["header.sequence"], got["ack"], got["ack_bits"]}, "%x", b)
	}
	// With a size that is not the fragment's it is refused, unless it is the last.
	other := dissect.Decode(dissect.Reliable, b, &dissect.Options{FragmentSize: data + 1})
	_, err = reliable.ParseFragment(b, 256, data+1)
	require.Equal(t, err == nil, other.Problem == "", "%x", b)
}

// TestReliableNotices is about the datagrams that package volley adds.
func TestReliableNotices(t *testing.T) {
	for _, c := range []struct{ hex, summary string }{
		{"03e803", "notice: packet 1000 belongs to no connection"},
		{"05010203040506070800000000000000002a00000000000000", "hello with token 0x807060504030201"},
		{"07010203040506070800000000000000002a00000000000000", "question with token 0x807060504030201"},
		{"09010203040506070811121314151617182a00000000000000", "answer with token 0x807060504030201"},
		{"0b010203040506070811121314151617182a00000000000000", "confirmation with token 0x807060504030201"},
		{"0d010203040506070866756c6c", "refusal with token 0x807060504030201, 4 bytes of reason"},
		{"0f0102030405060708", "goodbye with token 0x807060504030201"},
		{"0f01020304050607086b69636b6564", "goodbye with token 0x807060504030201, 6 bytes of reason"},
		{"110102030405060708", "heard with token 0x807060504030201"},
		{"03e8", "notice, malformed: a datagram of this type has 3 bytes, not 2"},
		{"0701", "question, malformed: a datagram of this type has 25 bytes, not 2"},
		{"0f01", "goodbye, malformed: a datagram of this type has 9 to 73 bytes, not 2"},
		{"13e803ffff", "fragment, malformed: fragment prefix is not 1"},
		{"3e00000100000000", "packet 0, has heard nothing, no payload"},
		{"3e0000010000000068656c6c6f", "packet 0, has heard nothing, 5 bytes"},
		{"20e80364", "packet 1000, ack 900, 32 of 32 received, no payload"},
		{"60e80364", "packet 1000, ack 900, 32 of 32 received, no payload, header in an encoding no sender uses"},
		{"01000000023e0000010000000066726167", "fragment 1 of 3 of packet 0, has heard nothing, 4 bytes"},
		{"01000001026d656e74", "fragment 2 of 3 of packet 0, 4 bytes"},
	} {
		b, err := hex.DecodeString(c.hex)
		require.NoError(t, err)
		d := dissect.Decode(dissect.Reliable, b, nil)
		require.Equal(t, c.summary, d.Summary, c.hex)
		checkPlaces(t, &d, b)
	}
}
