package riptide

import (
	"testing"

	"github.com/stretchr/testify/require"

	"volley/internal/dissect"
	"volley/internal/vectors"
)

// TestDissect compares what the tools see in every recorded datagram, and in
// damaged copies, with what this package reads, in both layouts.
func TestDissect(t *testing.T) {
	vectors.EachDamaged(t, 5, func(b []byte) {
		checkDissected(t, packed, dissect.Decode(dissect.Riptide, b, nil), b)
		checkDissected(t, notes, dissect.Decode(dissect.RiptideNotes, b, nil), b)
	}, "riptide", "hex", "ack")
}

func checkDissected(t *testing.T, layout layout, d dissect.Datagram, b []byte) {
	t.Helper()
	from := clientSide
	if field[string](&d, "from") == "server" {
		from = serverSide
	}
	p, ok := codec{layout: layout}.parse(from, b)
	if layout == packed && ok && (p.typ == typeUnreliable || p.typ == typeReliable) {
		ok = checkMessage(t, &d, p)
	}
	require.Equal(t, ok, d.Problem == "", "%v, %s: %x", layout, d.Problem, b)
	if !ok {
		return
	}
	require.Equal(t, uint64(p.typ), field[uint64](&d, "type"), "%x", b)
	seq := []uint64{uint64(p.seq), uint64(p.client), uint64(p.ack.newest), uint64(p.ack.bits), uint64(p.ack.id), uint64(p.pingID)}
	require.Equal(t, seq, []uint64{
		field[uint64](&d, "sequence"), field[uint64](&d, "client"), field[uint64](&d, "newest"), field[uint64](&d, "ack_bits"), field[uint64](&d, "acked"), field[uint64](&d, "ping"),
	}, "%x", b)
	switch p.typ {
	case typeHeartbeat:
		rtt := any(int64(noRTT))
		d.All(func(f dissect.Field, _ int) {
			if f.Name == "volley.riptide.rtt" {
				rtt = f.Value
			}
		})
		require.Equal(t, int64(p.rtt), rtt, "%x", b)
	case typeReject:
		reason := uint8(field[uint64](&d, "reject"))
		if layout == notes {
			reason = notesReject(reason)
		}
		require.Equal(t, p.reason, reason, "%x", b)
	case typeDisconnect:
		require.Equal(t, uint64(p.reason), field[uint64](&d, "disconnect"), "%x", b)
	}
	checkBody(t, layout, &d, p)
}

// checkMessage compares the message id and the payload, and reports whether
// there is an id.
func checkMessage(t *testing.T, d *dissect.Datagram, p packet) bool {
	t.Helper()
	m := new(Message)
	m.loadUser(packed, modeOf(p.typ), p.body)
	if m.Err() != nil {
		return false
	}
	require.Equal(t, uint64(m.ID()), field[uint64](d, "message"))
	return true
}

// checkBody compares what an application has put into a datagram.
func checkBody(t *testing.T, layout layout, d *dissect.Datagram, p packet) {
	t.Helper()
	got := field[[]byte](d, "payload")
	if got == nil {
		got = field[[]byte](d, "data")
	}
	user := p.typ == typeUnreliable || p.typ == typeReliable || layout == notes && p.typ == typeNotify
	if layout == notes {
		want := p.body
		if user {
			require.Equal(t, uint64(want[0])|uint64(want[1])<<8, field[uint64](d, "message"))
			want = want[2:]
		}
		require.Equal(t, append([]byte{}, want...), append([]byte{}, got...))
		return
	}
	m := new(Message)
	if user {
		m.loadUser(layout, modeOf(p.typ), p.body)
	} else {
		m.load(layout, Unreliable, p.body)
	}
	want := make([]byte, m.Unread()/8)
	m.copyBytes(want)
	if n := m.Unread(); n > 0 {
		if rest := m.ReadBits(n); rest != 0 {
			want = append(want, byte(rest))
		}
	}
	require.Equal(t, want, append([]byte{}, got...))
}

// field returns the value of the first field with a name, zero if there is none.
func field[T any](d *dissect.Datagram, name string) (v T) {
	found := false
	d.All(func(f dissect.Field, _ int) {
		if !found && f.Name == "volley.riptide."+name {
			v, found = f.Value.(T)
		}
	})
	return v
}
