package recording_test

import (
	"bytes"
	"encoding/binary"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"

	"volley/capture"
	"volley/internal/recording"
)

// sample is a small capture with all there is.
func sample(t testing.TB) []byte {
	r := newRecorder(t, nil)
	c, d := record(r, 0), record(r, 1)
	for n := range 5 {
		c.receive([]byte{1, byte(n)})
		d.receive([]byte("datagram"))
	}
	d.s.Begin(recording.Aside, d.at)
	d.s.Outputs().Datagram([]byte("aside"), 5)
	d.s.End()
	c.close()
	return contents(t, r)
}

// Every change of a byte is found, and every end but those between records.
func TestReaderChanged(t *testing.T) {
	b := sample(t)
	report, err := replayAdders(b)
	require.NoError(t, err)
	require.True(t, report.Same(), report)
	var fe *capture.FormatError
	for i := range b {
		changed := bytes.Clone(b)
		changed[i] ^= 0x41
		_, err := replayAdders(changed)
		require.ErrorAs(t, err, &fe, "byte %d", i)
	}
	whole := 0
	for i := range b {
		_, err := replayAdders(b[:i])
		if err == nil {
			whole++ // it ends behind a record
			continue
		}
		require.ErrorAs(t, err, &fe, "%d bytes", i)
		if i >= len(recording.Magic) {
			require.ErrorIs(t, err, io.ErrUnexpectedEOF)
		}
	}
	require.Equal(t, 16, whole, "15 records, and before them")
	_, err = replayAdders(append(bytes.Clone(b), b[len(recording.Magic):]...))
	require.ErrorAs(t, err, &fe, "more behind the end")
	_, err = recording.NewReader(iotest.ErrReader(io.ErrClosedPipe))
	require.Equal(t, io.ErrClosedPipe, err)
	_, err = replayAdders(nil)
	require.ErrorAs(t, err, &fe)
}

// frames returns a capture with records of bodies.
func frames(bodies ...string) []byte {
	h := recording.NewHeader(&recording.Config{})
	b := recording.AppendStart(nil, &h)
	for _, body := range bodies {
		b = recording.AppendFrame(b, []byte(body))
	}
	return b
}

func TestReaderHostile(t *testing.T) {
	opened := "\x01\x05" + `{"protocol":"adder","start":"2020-01-01T00:00:00Z","config":{}}`
	call := "\x03\x05\x01\x00\x00\x00\x00\x00"
	require.NotPanics(t, func() {
		report, err := replayAdders(frames(opened, call))
		require.NoError(t, err)
		require.NotNil(t, report.Connections[0].Divergence)
	})
	long := binary.AppendUvarint(nil, 1<<40)
	for name, bodies := range map[string][]string{
		"no kind":             {"\x00"},
		"unknown kind":        {"\x09\x01"},
		"no id":               {"\x03"},
		"a call of nobody":    {call},
		"closed by nobody":    {"\x04\x05"},
		"opened twice":        {opened, opened},
		"no JSON":             {"\x01\x05{"},
		"other JSON":          {"\x01\x05[]"},
		"after closing":       {opened, "\x04\x05", call},
		"closed and more":     {opened, "\x04\x05\x00"},
		"arguments too long":  {opened, "\x03\x05\x01\x00" + string(long)},
		"data too long":       {opened, "\x03\x05\x01\x00\x00" + string(long) + "\x00\x00"},
		"more data than size": {opened, "\x03\x05\x01\x00\x00\x00\x01x\x00"},
		"no answers":          {opened, "\x03\x05\x01\x00\x00\x00\x00"},
		"before the start":    {opened, "\x03\x05\x01\x01\x00\x00\x00\x00"},
		"bad output":          {opened, call + "\x09"},
		"short output":        {opened, call + "\x02\x01\x01\x00"},
		"end":                 {"\x05\x00"},
		"kind of end":         {"\x05\x00\x00\x00\x00\x03"},
		"continued, short":    {"\x02\x05"},
		"continued, no JSON":  {"\x02\x05\x00\x00"},
		"unknown call":        {opened, "\x03\x05\x63\x00\x00\x00\x00\x00"},
		"time overflows": {opened, "\x03\x05\x01" + string(binary.AppendVarint(nil, recording.MaxElapsed)) + "\x00\x00\x00\x00",
			"\x03\x05\x01" + string(binary.AppendVarint(nil, 1)) + "\x00\x00\x00\x00"},
		"step overflows": {opened, "\x03\x05\x01" + string(binary.AppendVarint(nil, 1<<62)) + "\x00\x00\x00\x00"},
	} {
		_, err := replayAdders(frames(bodies...))
		var fe *capture.FormatError
		require.ErrorAs(t, err, &fe, name)
		require.Positive(t, fe.Offset)
	}
	h := recording.NewHeader(&recording.Config{})
	h.Version = 2
	_, err := recording.NewReader(bytes.NewReader(recording.AppendStart(nil, &h)))
	require.ErrorContains(t, err, "version 2 of the format")

	// A length takes no memory before there are that many bytes.
	b := append(frames(), long[:0]...)
	b = binary.AppendUvarint(b, recording.MaxFrame)
	n := testing.AllocsPerRun(1, func() {
		_, err := replayAdders(b)
		require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	})
	require.Less(t, n, 1000.0)
	_, err = replayAdders(binary.AppendUvarint(frames(), recording.MaxFrame+1))
	require.ErrorContains(t, err, "a record of 67108865 bytes")
	_, err = replayAdders(append(frames(), strings.Repeat("\xff", 20)...))
	require.ErrorContains(t, err, "without a length")
}

func TestPackets(t *testing.T) {
	r := newRecorder(t, &recording.Config{OmitPayload: true})
	c := record(r, 0)
	c.receive([]byte("abc"))
	reader, err := recording.NewReader(bytes.NewReader(contents(t, r)))
	require.NoError(t, err)
	record, err := reader.Next()
	require.NoError(t, err)
	require.Equal(t, recording.Opened, record.Kind)
	record, err = reader.Next()
	require.NoError(t, err)
	require.Equal(t, recording.Receive, record.Kind)
	var got []recording.Packet
	for p := range record.Packets() {
		p.Data = bytes.Clone(p.Data)
		got = append(got, p)
	}
	at := epoch.Add(time.Millisecond)
	require.Equal(t, []recording.Packet{{at, false, []byte("a"), 3}, {at, true, []byte("sum:"), 7}}, got)
	for range record.Packets() {
		break
	}
	require.Len(t, packetsOf(t, func(c *recorded) {
		c.s.Begin(recording.Receive, 0)
		out := c.s.Outputs()
		out.Datagram([]byte("one"), 3)
		out.Datagram([]byte("two"), 3)
		c.s.End()
	}), 3, "what came in, and two answers")
	v, ok := record.Arg()
	require.Equal(t, []any{int64(-5), true}, []any{v, ok})
	_, ok = record.Arg()
	require.False(t, ok)
	_, err = reader.Next()
	require.Equal(t, io.EOF, err)
}

// packetsOf returns the datagrams of a call.
func packetsOf(t *testing.T, call func(*recorded)) (list []recording.Packet) {
	r := newRecorder(t, &recording.Config{})
	call(record(r, 0))
	reader, err := recording.NewReader(bytes.NewReader(contents(t, r)))
	require.NoError(t, err)
	for range 2 {
		record, err := reader.Next()
		require.NoError(t, err)
		list = slices.Collect(record.Packets())
	}
	return list
}

func FuzzReader(f *testing.F) {
	f.Add(sample(f))
	f.Fuzz(func(t *testing.T, b []byte) {
		replayAdders(b)
	})
}

// FuzzRecords has frames with correct checksums around what it makes up.
func FuzzRecords(f *testing.F) {
	b := sample(f)
	head, size := binary.Uvarint(b[len(recording.Magic):])
	b = b[len(recording.Magic)+size+int(head)+4:] // the header's length varies with the time in it
	var seed []byte
	for len(b) > 0 {
		n, size := binary.Uvarint(b)
		seed = append(binary.LittleEndian.AppendUint16(seed, uint16(n)), b[size:size+int(n)]...)
		seed = seed[:len(seed):len(seed)]
		b = b[size+int(n)+4:]
	}
	f.Add(seed)
	f.Fuzz(func(t *testing.T, b []byte) {
		var bodies []string
		for len(b) > 2 {
			n := min(int(binary.LittleEndian.Uint16(b)), len(b)-2)
			bodies = append(bodies, string(b[2:2+n]))
			b = b[2+n:]
		}
		replayAdders(frames(bodies...))
	})
}
