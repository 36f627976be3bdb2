package riptide

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"testing"

	"volley/internal/wire"
)

var notesCodec = codec{layout: notes}

// unspace decodes hexadecimal digits with spaces.
func unspace(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(string(bytes.ReplaceAll([]byte(s), []byte(" "), nil)))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// notesUser returns the content of the examples of user messages.
func notesUser(m Mode) []byte {
	msg := (&Config{NotesLayout: true}).NewMessage(m, 3)
	msg.AddString("hi")
	Add[int32](msg, -1)
	return msg.body()
}

// TestNotesExamples has worked examples of every datagram, which are appended
// and parsed.
func TestNotesExamples(t *testing.T) {
	for _, test := range []struct {
		hex    string
		from   side
		append func(*wire.Batch)
		want   packet
	}{
		{"02", clientSide, func(out *wire.Batch) { notesCodec.appendConnect(out, nil) }, packet{typ: typeConnect}},
		{"08 0100 0100", serverSide, func(out *wire.Batch) { appendID(out, typeWelcome, 1, 1) }, packet{typ: typeWelcome, seq: 1, client: 1}},
		{"09 0200 ff01", serverSide, func(out *wire.Batch) { appendID(out, typeClientConnected, 2, 511) }, packet{typ: typeClientConnected, seq: 2, client: 511}},
		{"0a 0300 0200", serverSide, func(out *wire.Batch) { appendID(out, typeClientDisconnected, 3, 2) }, packet{typ: typeClientDisconnected, seq: 3, client: 2}},
		{"04 00 ffff", clientSide, func(out *wire.Batch) { notesCodec.appendHeartbeat(out, clientSide, 0, -1) }, packet{typ: typeHeartbeat, rtt: -1}},
		{"04 ff 2c01", serverSide, func(out *wire.Batch) { notesCodec.appendHeartbeat(out, serverSide, 255, 300) }, packet{typ: typeHeartbeat, pingID: 255, rtt: 300}},
		{"04 07", serverSide, nil, packet{typ: typeHeartbeat, pingID: 7, rtt: -1}},
		{"01 0300 0700", clientSide, func(out *wire.Batch) { notesCodec.appendAck(out, ack{newest: 3, bits: 7, id: 2, has: true}) }, packet{typ: typeAck, ack: ack{newest: 3, bits: 7}}},
		{"03 03", serverSide, func(out *wire.Batch) { notesCodec.appendReject(out, rejectFull, nil) }, packet{typ: typeReject, reason: uint8(rejectFull)}},
		{"03 04", serverSide, func(out *wire.Batch) { notesCodec.appendReject(out, rejectPlain, nil) }, packet{typ: typeReject, reason: uint8(rejectPlain)}},
		{"03 02", serverSide, nil, packet{typ: typeReject, reason: rejectPending}},
		{"03 05 02 6e6f", serverSide, func(out *wire.Batch) { notesCodec.appendReject(out, rejectData, []byte("\x02no")) }, packet{typ: typeReject, reason: uint8(rejectData), body: []byte("\x02no")}},
		{"05 06", clientSide, func(out *wire.Batch) { notesCodec.appendLeave(out) }, packet{typ: typeDisconnect, reason: uint8(endLeft)}},
		{"05 05", serverSide, func(out *wire.Batch) { notesCodec.appendDisconnect(out, endStopped, nil) }, packet{typ: typeDisconnect, reason: uint8(endStopped)}},
		{"05 04 aabb", serverSide, func(out *wire.Batch) { notesCodec.appendDisconnect(out, endKicked, []byte{0xaa, 0xbb}) }, packet{typ: typeDisconnect, reason: uint8(endKicked), body: []byte{0xaa, 0xbb}}},
		{"00 0300 02 6869 ffffffff", clientSide, func(out *wire.Batch) { notesCodec.appendUnreliable(out, notesUser(Unreliable)) }, packet{typ: typeUnreliable, body: notesUser(Unreliable)}},
		{"07 0100 0300 02 6869 ffffffff", clientSide, func(out *wire.Batch) { notesCodec.appendReliable(out, typeReliable, 1, notesUser(Reliable)) }, packet{typ: typeReliable, seq: 1, body: notesUser(Reliable)}},
		{"06 0201 07", clientSide, func(out *wire.Batch) { notesCodec.appendNotify(out, 9, ack{newest: 5}, []byte{2, 1, 7}) }, packet{typ: typeNotify, body: []byte{2, 1, 7}}},
	} {
		b := unspace(t, test.hex)
		p, ok := notesCodec.parse(test.from, b)
		if !ok || !equalPackets(p, test.want) {
			t.Errorf("parse(%s) = %+v, %v, want %+v", test.hex, p, ok, test.want)
		}
		if test.append == nil {
			continue
		}
		var out wire.Batch
		test.append(&out)
		if out.Len() != 1 || !bytes.Equal(out.At(0), b) {
			t.Errorf("appended %x, want %s", out.At(0), test.hex)
		}
	}
}

func appendID(out *wire.Batch, typ packetType, seq, client uint16) {
	body := notesCodec.idBody(client)
	notesCodec.appendReliable(out, typ, seq, body[:notesCodec.idBodySize()])
}

// TestNotesShort: datagrams below the minimum, and unknown types, are dropped.
func TestNotesShort(t *testing.T) {
	for typ, n := range notesMinimum {
		b := make([]byte, n)
		b[0] = byte(typ)
		if _, ok := parseNotes(b); !ok {
			t.Errorf("%x is dropped", b)
		}
		if _, ok := parseNotes(b[:n-1]); ok {
			t.Errorf("%x is not dropped", b[:n-1])
		}
	}
	for typ := numPacketTypes; typ < 256-1; typ++ {
		if _, ok := parseNotes(append([]byte{byte(typ)}, make([]byte, 20)...)); ok {
			t.Errorf("type %d is not dropped", typ)
		}
	}
}

func TestNotesValues(t *testing.T) {
	for _, test := range []struct {
		hex string
		add func(*Message)
	}{
		{"00", func(m *Message) { m.addLength(0) }},
		{"7f", func(m *Message) { m.addLength(127) }},
		{"80 80", func(m *Message) { m.addLength(128) }},
		{"81 2c", func(m *Message) { m.addLength(300) }},
		{"ff ff", func(m *Message) { m.addLength(32767) }},
		{"0a 05 03", func(m *Message) {
			AddSlice(m, []bool{true, false, true, false, false, false, false, false, true, true})
		}},
		{"02 0100 feff", func(m *Message) { AddSlice(m, []int16{1, -2}) }},
		{"01", func(m *Message) { m.AddBool(true) }},
		{"00", func(m *Message) { m.AddBool(false) }},
		{"0000c03f", func(m *Message) { Add[float32](m, 1.5) }},
		{"000000000000f83f", func(m *Message) { Add[float64](m, 1.5) }},
		{"7f", func(m *Message) { m.AddUvarint(127) }},
		{"8001", func(m *Message) { m.AddUvarint(128) }},
		{"ac02", func(m *Message) { m.AddUvarint(300) }},
		{"00", func(m *Message) { m.AddVarint(0) }},
		{"01", func(m *Message) { m.AddVarint(-1) }},
		{"02", func(m *Message) { m.AddVarint(1) }},
		{"8001", func(m *Message) { m.AddVarint(64) }},
		{"04 61626364", func(m *Message) { m.AddString("abcd") }},
		{"fe", func(m *Message) { Add[int8](m, -2) }},
		{"0000803f 00000040 00004040", func(m *Message) { m.AddValue(Vector3{1, 2, 3}) }},
	} {
		m := (&Config{NotesLayout: true}).NewData()
		test.add(m)
		if m.Err() != nil || !bytes.Equal(m.body(), unspace(t, test.hex)) {
			t.Errorf("got %x, %v, want %s", m.body(), m.Err(), test.hex)
		}
	}
}

// TestPackedShort: datagrams below the minimum are dropped, and so are the
// types that do not exist.
func TestPackedShort(t *testing.T) {
	for _, test := range []struct {
		from side
		hex  string // of the shortest
	}{
		{clientSide, "1000"}, {serverSide, "1100100000"}, {clientSide, "31007000500000"}, {clientSide, "02"},
		{serverSide, "2300"}, {clientSide, "04f0ff0f"}, {serverSide, "0400"}, {clientSide, "05"}, {serverSide, "4500"},
		{clientSide, "060000100000"}, {clientSide, "17001000"}, {serverSide, "1800100000"},
	} {
		b := unspace(t, test.hex)
		if _, ok := (codec{}).parse(test.from, b); !ok {
			t.Errorf("%x is dropped", b)
		}
		if p, ok := (codec{}).parse(test.from, b[:len(b)-1]); ok {
			t.Errorf("%x is %+v", b[:len(b)-1], p)
		}
	}
	for typ := byte(numPacketTypes); typ < 16; typ++ {
		if p, ok := (codec{}).parse(serverSide, []byte{typ, 0, 0x10, 0, 0, 0, 0, 0}); ok {
			t.Errorf("type %d is %+v", typ, p)
		}
	}
}

func ExampleConfig_NewMessage() {
	cfg := &Config{NotesLayout: true}
	m := cfg.NewMessage(Reliable, 3)
	m.AddString("hi")
	Add[int32](m, -1)
	fmt.Println(m, m.ReadString(), Read[int32](m), m.Err())
	// Output: reliable message 3 of 56 bits hi -1 <nil>
}
