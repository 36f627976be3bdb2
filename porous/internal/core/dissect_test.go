package core

import (
	"testing"

	"github.com/stretchr/testify/require"

	"volley/internal/dissect"
	"volley/internal/vectors"
)

// TestDissect compares what the tools see in every recorded frame, and in
// damaged copies, with what this package reads.
func TestDissect(t *testing.T) {
	vectors.EachDamaged(t, 20, func(b []byte) { checkDissected(t, b) }, "porous", "hex", "sent")
}

// checkDissected writes again what was seen, by the functions of this package.
func checkDissected(t *testing.T, b []byte) {
	t.Helper()
	d := dissect.Decode(dissect.Porous, b, nil)
	_, ok := parseFrame(b)
	require.Equal(t, ok && len(b) <= MTU0, d.Problem == "", "%s: %x", d.Problem, b)
	if !ok {
		return
	}
	var again []byte
	switch typ := FrameType(field[uint64](&d, "type")); typ {
	case TypeConnect:
		again = AppendConnect(nil, Connect{
			Version: uint8(field[uint64](&d, "version")), Channels: int(field[uint64](&d, "channels")),
			Bandwidth: uint32(field[uint64](&d, "bandwidth")), ID: uint32(field[uint64](&d, "id")),
		})
	case TypeConnectAck:
		again = AppendConnectAck(nil, uint32(field[uint64](&d, "id")))
	case TypeDisconnect:
		again = AppendDisconnect(nil)
	case TypeDisconnectAck:
		again = AppendDisconnectAck(nil)
	case TypePing, TypePingAck:
		again = AppendPing(nil, typ, uint16(field[uint64](&d, "ping")))
	case TypeData:
		again = AppendDataHeader(nil, uint32(field[uint64](&d, "frame")), int(field[uint64](&d, "messages")))
		for _, f := range d.Fields {
			if f.Name == "volley.porous.message" {
				m := messageOf(t, f.Fields)
				again = AppendMessage(again, &m)
			}
		}
	case TypeDataAck:
		var ids []uint32
		for _, f := range d.Fields {
			if f.Name == "volley.porous.acked" {
				ids = append(ids, uint32(f.Value.(uint64)))
			}
		}
		again = AppendDataAck(nil, ids)
	}
	require.Equal(t, b, again)
}

// messageOf makes a message of what was seen of it.
func messageOf(t *testing.T, fields []dissect.Field) (m Message) {
	t.Helper()
	for _, f := range fields {
		v, _ := f.Value.(uint64)
		switch f.Name {
		case "volley.porous.message.type":
			m.Type = MessageType(v)
		case "volley.porous.message.channel":
			m.Channel = uint8(v)
		case "volley.porous.message.packet":
			m.Packet = uint32(v)
		case "volley.porous.message.lead":
			m.Lead = uint16(v)
		case "volley.porous.message.fragment":
			m.Fragment = uint16(v)
		case "volley.porous.message.last_fragment":
			m.Last = uint16(v)
		case "volley.porous.message.data":
			m.Data = f.Value.([]byte)
		case "volley.porous.message.length":
		default:
			t.Errorf("a field %s", f.Name)
		}
	}
	return m
}

// field returns the value of the first field with a name, zero if there is none.
func field[T any](d *dissect.Datagram, name string) (v T) {
	found := false
	d.All(func(f dissect.Field, _ int) {
		if !found && f.Name == "volley.porous."+name {
			v, found = f.Value.(T)
		}
	})
	return v
}
