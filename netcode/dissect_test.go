package netcode

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"

	"volley/internal/dissect"
	"volley/internal/vectors"
)

// TestDissect compares what the tools see in every recorded packet, and in
// damaged copies, with what this package reads.
func TestDissect(t *testing.T) {
	vectors.EachDamaged(t, 20, func(b []byte) { checkDissected(t, b) }, "netcode", "packet", "request_packet")
}

func checkDissected(t *testing.T, b []byte) {
	t.Helper()
	d := dissect.Decode(dissect.Netcode, b, nil)
	if len(b) == 0 {
		require.NotEmpty(t, d.Problem)
		return
	}
	if b[0] == byte(packetRequest) {
		ok := len(b) == requestSize && string(b[1:1+versionSize]) == version
		require.Equal(t, ok, d.Problem == "", "%x", b)
		if ok {
			require.Equal(t, binary.LittleEndian.Uint64(b[requestProtocol:]), field[uint64](&d, "protocol_id"))
			require.Equal(t, binary.LittleEndian.Uint64(b[requestExpires:]), field[uint64](&d, "expires"))
			require.Equal(t, b[requestNonce:requestPrivate], field[[]byte](&d, "nonce"))
			require.Equal(t, b[requestPrivate:], field[[]byte](&d, "private"))
		}
		return
	}
	p, n, reason := parseHeader(b, clientTakes|serverTakes, true)
	if reason == dropNone {
		p.body = b[n : len(b)-tagSize]
		require.Equal(t, p.seq, field[uint64](&d, "sequence"), "%x", b)
		require.Equal(t, uint64(p.typ), field[uint64](&d, "type"), "%x", b)
		require.Equal(t, append([]byte{}, p.body...), append([]byte{}, field[[]byte](&d, "sealed")...), "%x", b)
		reason = checkBody(p)
	}
	require.Equal(t, reason == dropNone, d.Problem == "", "%v, %s: %x", reason, d.Problem, b)
}

// TestDissectOpens opens the recorded packets as the tools do that know the
// keys.
func TestDissectOpens(t *testing.T) {
	type packetCase struct {
		Type          string
		Key           hexBytes
		ProtocolID    num `json:"protocol_id"`
		Plain, Packet hexBytes
		Challenge     num `json:"challenge_token_sequence"`
	}
	n := 0
	for _, c := range decodeCases[packetCase](t, vectors.Files(t, "netcode")["packets.json"]) {
		k := dissect.Keys{ProtocolID: uint64(c.ProtocolID), Client: c.Key.key(), Server: c.Key.key()}
		d := dissect.Decode(dissect.Netcode, c.Packet, &dissect.Options{Keys: []dissect.Keys{{}, k}})
		require.Empty(t, d.Problem+d.Note, c.Type)
		switch c.Type {
		case "payload":
			require.Equal(t, []byte(c.Plain), field[[]byte](&d, "payload"))
			n++
		case "keep_alive":
			index, slots := binary.LittleEndian.Uint32(c.Plain), binary.LittleEndian.Uint32(c.Plain[4:])
			require.Equal(t, []uint64{uint64(index), uint64(slots)}, []uint64{field[uint64](&d, "index"), field[uint64](&d, "slots")})
			n++
		case "challenge", "response":
			require.Equal(t, uint64(c.Challenge), field[uint64](&d, "challenge"))
			require.Equal(t, []byte(c.Plain[8:]), field[[]byte](&d, "challenge_token"))
			n++
		}
		k.ProtocolID++
		d = dissect.Decode(dissect.Netcode, c.Packet, &dissect.Options{Keys: []dissect.Keys{k}})
		require.Equal(t, "sealed with other keys", d.Note)
	}
	require.Greater(t, n, 50)
}

// TestDissectTokenKeys reads the keys of every recorded token.
func TestDissectTokenKeys(t *testing.T) {
	for _, r := range vectors.Recordings(t, "netcode", "token", "connect_token") {
		token, err := parseToken(r.Bytes)
		if err != nil {
			continue
		}
		k, ok := dissect.TokenKeys(r.Bytes)
		require.True(t, ok)
		require.Equal(t, dissect.Keys{ProtocolID: token.protocolID, Client: token.clientKey, Server: token.serverKey}, k)
	}
}

// field returns the value of the first field with a name, zero if there is none.
func field[T any](d *dissect.Datagram, name string) (v T) {
	found := false
	d.All(func(f dissect.Field, _ int) {
		if !found && f.Name == "volley.netcode."+name {
			v, found = f.Value.(T)
		}
	})
	return v
}
