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
	if f, _ := d.Find("from"); f.Value == "server" {
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
	require.Equal(t, uint64(p.typ), d.Uint("type"), "%x", b)
	seq := []uint64{uint64(p.seq), uint64(p.client), uint64(p.ack.newest), uint64(p.ack.bits), uint64(p.ack.id), uint64(p.pingID)}
	require.Equal(t, seq, []uint64{
		d.Uint("sequence"), d.Uint("client"), d.Uint("newest"), d.Uint("ack_bits"), d.Uint("acked"), d.Uint("ping"),
	}, "%x", b)
	switch p.typ {
	case typeHeartbeat:
		rtt, found := d.Find("rtt")
		if !found {
			rtt.Value = int64(noRTT)
		}
		require.Equal(t, int64(p.rtt), rtt.Value, "%x", b)
	case typeReject:
		reason := uint8(d.Uint("reject"))
		if layout == notes {
			reason = notesReject(reason)
		}
		require.Equal(t, p.reason, reason, "%x", b)
	case typeDisconnect:
		require.Equal(t, uint64(p.reason), d.Uint("disconnect"), "%x", b)
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
	require.Equal(t, uint64(m.ID()), d.Uint("message"))
	return true
}

// checkBody compares what an application has put into a datagram.
func checkBody(t *testing.T, layout layout, d *dissect.Datagram, p packet) {
	t.Helper()
	got := d.Bytes("payload")
	if got == nil {
		got = d.Bytes("data")
	}
	user := p.typ == typeUnreliable || p.typ == typeReliable || layout == notes && p.typ == typeNotify
	if layout == notes {
		want := p.body
		if user {
			require.Equal(t, uint64(want[0])|uint64(want[1])<<8, d.Uint("message"))
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
