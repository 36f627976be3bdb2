package riptide

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"

	"volley/internal/vectors"
	"volley/internal/wire"
)

// A hexBytes is a []byte that JSON holds in hexadecimal digits.
type hexBytes []byte

func (h *hexBytes) UnmarshalJSON(b []byte) (err error) {
	var s string
	if err = json.Unmarshal(b, &s); err == nil {
		*h, err = hex.DecodeString(s)
	}
	return err
}

// vectorTests runs the cases of a file, by the file's name. Those of a version
// are run with what it sends.
var vectorTests = map[string]func(*testing.T, bool, []byte){
	"values.json":           testValues,
	"decode.json":           testDecode,
	"datagrams.json":        testDatagrams,
	"sequence_gap.json":     testSequenceGaps,
	"reliable_receive.json": testReliableReceive,
	"reliable_acks.json":    testReliableAcks,
	"notify.json":           testNotifyRuns,
	"session_udp.json":      testSessions,
	"session_tcp.json":      testSessions,
}

func TestVectors(t *testing.T) {
	for name, data := range vectors.Files(t, "riptide") {
		t.Run(name, func(t *testing.T) {
			test := vectorTests[path.Base(name)]
			if test == nil {
				t.Fatalf("no test for %s", name)
			}
			test(t, versionOf(t, name), data)
		})
	}
}

// versionOf reports whether a folder holds datagrams of version 2.1, not 2.2.
func versionOf(t *testing.T, name string) (v21 bool) {
	dir := path.Dir(name)
	v21 = strings.HasPrefix(dir, "v2.1")
	if !v21 && !strings.HasPrefix(dir, "v2.2") {
		t.Fatalf("unknown version %s", dir)
	}
	return v21
}

// decodeFile reads the list of a file, which must hold something.
func decodeFile[T any](t *testing.T, data []byte) []T {
	t.Helper()
	var file struct{ Cases, Runs, Sessions []T }
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	all := slices.Concat(file.Cases, file.Runs, file.Sessions)
	if len(all) == 0 {
		t.Fatal("file without cases")
	}
	return all
}

type valueCase struct {
	Name      string
	Mode      string
	MessageID *uint16 `json:"message_id"`
	Sequence  uint16
	Ops       []valueOp
	Bits      int
	Hex       hexBytes
	Error     string
	RoundTrip *bool
}

func (c *valueCase) message(t *testing.T) *Message {
	switch {
	case c.Mode == "raw":
		return NewData()
	case c.Mode == "notify" && c.MessageID == nil:
		return NewMessage(Notify, 0)
	case c.Mode == "notify":
		return NewMessage(Notify, *c.MessageID)
	case c.Mode == "unreliable":
		return NewMessage(Unreliable, *c.MessageID)
	case c.Mode == "reliable":
		return NewMessage(Reliable, *c.MessageID)
	}
	t.Fatalf("unknown mode %q", c.Mode)
	return nil
}

// datagram returns the message as it leaves and its size in bits.
func (c *valueCase) datagram(m *Message) ([]byte, int) {
	var out wire.Batch
	var cd codec
	header := 0
	switch c.Mode {
	case "raw":
		return m.body(), m.end
	case "unreliable":
		cd.appendUnreliable(&out, m.body())
	case "reliable":
		header = 16
		cd.appendReliable(&out, typeReliable, c.Sequence, m.body())
	case "notify":
		header = 40
		cd.appendNotify(&out, c.Sequence, ack{}, m.body())
	}
	return out.At(0), m.end + header
}

// brokenArrays reports whether the case meets the fault of 2.1.x, which writes
// slices of shorts without their elements.
func (c *valueCase) brokenArrays(v21 bool) bool {
	return v21 && slices.ContainsFunc(c.Ops, func(op valueOp) bool {
		return (op.Op == "shorts" || op.Op == "ushorts") && string(op.Value) != "[]"
	})
}

func testValues(t *testing.T, v21 bool, data []byte) {
	for _, c := range decodeFile[valueCase](t, data) {
		t.Run(c.Name, func(t *testing.T) {
			m := c.message(t)
			for _, op := range c.Ops {
				op.add(t, m)
			}
			if c.Error != "" {
				if m.Err() != ErrMessageFull {
					t.Fatalf("Err() = %v, want %v", m.Err(), ErrMessageFull)
				}
				return
			}
			if m.Err() != nil {
				t.Fatal(m.Err())
			}
			datagram, size := c.datagram(m)
			if !c.brokenArrays(v21) && (!bytes.Equal(datagram, c.Hex) || size != c.Bits) {
				t.Fatalf("%d bits\n%x, want %d\n%x", size, datagram, c.Bits, []byte(c.Hex))
			}
			c.readBack(t, datagram)
		})
	}
}

// readBack reads what was added from the datagram.
func (c *valueCase) readBack(t *testing.T, datagram []byte) {
	m := new(Message)
	if c.Mode == "raw" {
		m.load(notes, Unreliable, datagram) // from bit 0
		m.layout = packed
	} else {
		p, ok := codec{}.parse(clientSide, datagram)
		if !ok || p.seq != c.Sequence {
			t.Fatalf("parse(%x) = %+v, %v", datagram, p, ok)
		}
		m.loadUser(packed, modeOf(p.typ), p.body)
	}
	if c.MessageID != nil {
		id := m.ID()
		if c.Mode == "notify" { // the application's own affair
			id = uint16(m.ReadUvarint())
		}
		if id != *c.MessageID {
			t.Errorf("message id %d, want %d", id, *c.MessageID)
		}
	}
	for _, op := range c.Ops {
		op.check(t, m)
	}
	if m.Err() != nil || m.Unread() > 7 {
		t.Errorf("%d bits unread, error %v", m.Unread(), m.Err())
	}
	for m.Unread() > 0 {
		if m.ReadBool() {
			t.Error("padding is not zero")
		}
	}
}

type decodeRead struct {
	valueOp
	Errors     int
	UnreadBits int `json:"unread_bits"`
	Throws     string
}

// testDecode runs malformed input. Up to the first error ours is what the
// reference reads; then ours fails for good.
func testDecode(t *testing.T, _ bool, data []byte) {
	type decodeCase struct {
		Name  string
		Hex   hexBytes
		Reads []decodeRead
	}
	for _, c := range decodeFile[decodeCase](t, data) {
		t.Run(c.Name, func(t *testing.T) {
			p, ok := codec{}.parse(clientSide, c.Hex)
			if !ok {
				if len(c.Hex) >= 4 {
					t.Fatalf("%x is dropped", []byte(c.Hex))
				}
				return
			}
			m := new(Message)
			m.load(packed, Unreliable, p.body)
			for _, r := range c.Reads {
				if r.Errors > 0 || r.Throws != "" {
					r.IncludeLength = true
					if r.Throws != "" {
						r.Value = json.RawMessage(`""`)
					}
					checkFails(t, m, &r)
					return
				}
				r.check(t, m)
				if m.Err() != nil || m.Unread() != r.UnreadBits {
					t.Fatalf("%s: %d bits unread, error %v, want %d", r.Op, m.Unread(), m.Err(), r.UnreadBits)
				}
			}
		})
	}
}

// checkFails checks that a read fails, without a result.
func checkFails(t *testing.T, m *Message, r *decodeRead) {
	t.Helper()
	got := fmt.Sprint(r.value(t).read(m))
	if m.Err() != errMessageEnd {
		t.Errorf("%s: error %v, want %v", r.Op, m.Err(), errMessageEnd)
	}
	if got != "0" && got != "false" && got != "" && got != "[]" {
		t.Errorf("%s = %s after an error", r.Op, got)
	}
}

func testSequenceGaps(t *testing.T, _ bool, data []byte) {
	type gapCase struct {
		New, Previous uint16
		Gap           int
	}
	for _, c := range decodeFile[gapCase](t, data) {
		if got := gap(c.New, c.Previous); got != c.Gap {
			t.Errorf("gap(%d, %d) = %d, want %d", c.New, c.Previous, got, c.Gap)
		}
	}
}
