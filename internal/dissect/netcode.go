package dissect

import (
	"encoding/binary"
	"math"
	"time"

	"golang.org/x/crypto/chacha20poly1305"
)

func unixText(s uint64) string {
	if s == math.MaxUint64 {
		return "never"
	}
	return time.Unix(int64(min(s, math.MaxInt32<<8)), 0).UTC().Format("2006-01-02 15:04:05 UTC")
}

// Keys are those of a session of netcode, as its connect token holds them.
type Keys struct {
	ProtocolID     uint64
	Client, Server [chacha20poly1305.KeySize]byte // that seal what the client, and what the server sends
}

// TokenKeys returns the keys in a connect token of 2048 bytes that netcode.ParseToken took.
func TokenKeys(token []byte) (k Keys, ok bool) {
	const protocol, servers = 13, 1089
	if len(token) != 2048 {
		return k, false
	}
	k.ProtocolID = binary.LittleEndian.Uint64(token[protocol:])
	n := binary.LittleEndian.Uint32(token[servers:])
	off := servers + 4
	for range min(n, 32) {
		switch token[off] {
		case 1:
			off += 7
		case 2:
			off += 19
		default:
			return k, false
		}
	}
	copy(k.Client[:], token[off:])
	copy(k.Server[:], token[off+len(k.Client):])
	return k, true
}

// The types of packets that are looked into.
const (
	netcodeDenied    = 1
	netcodeChallenge = 2
	netcodeResponse  = 3
	netcodeKeepAlive = 4
	netcodePayload   = 5
)

// unseal opens the body at off, if one of the keys does.
func (d *decoder) unseal(args []any) bool {
	typ, seq, off := num(args[0]), args[1].(uint64), num(args[2])
	if len(d.o.Keys) == 0 {
		return true
	}
	for _, k := range d.o.Keys {
		from := []string{"client", "server"}
		keys := [][chacha20poly1305.KeySize]byte{k.Client, k.Server}
		switch typ {
		case netcodeDenied, netcodeChallenge:
			from, keys = from[1:], keys[1:]
		case netcodeResponse:
			from, keys = from[:1], keys[:1]
		}
		for i := range keys {
			if body, ok := open(&keys[i], k.ProtocolID, d.b[0], seq, d.b[off:]); ok {
				d.netcodeBody(typ, body, from[i], off)
				return true
			}
		}
	}
	d.Note = "sealed with other keys"
	return true
}

// open opens a sealed body, into memory of its own.
func open(key *[chacha20poly1305.KeySize]byte, protocolID uint64, prefix byte, seq uint64, sealed []byte) ([]byte, bool) {
	aead, err := chacha20poly1305.New(key[:])
	if err != nil {
		return nil, false // in a program restricted to FIPS 140
	}
	nonce := binary.LittleEndian.AppendUint64(make([]byte, 4, 12), seq)
	data := binary.LittleEndian.AppendUint64([]byte("NETCODE 1.02\x00"), protocolID)
	body, err := aead.Open(nil, nonce, sealed, append(data, prefix))
	return body, err == nil
}

// netcodeBody adds what was sealed. Each of its bytes has its place in the datagram.
func (d *decoder) netcodeBody(typ int, body []byte, from string, off int) {
	d.add("from", 0, 1, from)
	d.also(", from the %s", from)
	switch typ {
	case netcodeChallenge, netcodeResponse:
		d.add("challenge", off, 8, binary.LittleEndian.Uint64(body))
		d.add("challenge_token", off+8, len(body)-8, body[8:])
	case netcodeKeepAlive:
		index, slots := binary.LittleEndian.Uint32(body), binary.LittleEndian.Uint32(body[4:])
		d.add("index", off, 4, uint64(index))
		d.add("slots", off+4, 4, uint64(slots))
		d.also(", index %d of %d", index, slots)
	case netcodePayload:
		d.add("payload", off, len(body), body)
	}
}
