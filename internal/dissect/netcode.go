package dissect

import (
	"encoding/binary"
	"encoding/hex"
	"math"
	"strings"
	"time"

	"golang.org/x/crypto/chacha20poly1305"
)

// Types of packets, and sizes in bytes, as docs/netcode.md has them.
const (
	netcodeRequest = iota
	netcodeDenied
	netcodeChallenge
	netcodeResponse
	netcodeKeepAlive
	netcodePayload
	netcodeDisconnect
)

const (
	netcodeVersion     = "NETCODE 1.02\x00"
	netcodeRequestSize = 1078
	netcodeMinimum     = 18
	netcodeMaxPayload  = 1200
	tagSize            = 16
	nonceSize          = 24
	privateSize        = 1024
)

var (
	netcodeTypes = []string{"request", "denied", "challenge", "response", "keep_alive", "payload", "disconnect"}
	// netcodeBodies are the sizes of bodies, -1 where they vary.
	netcodeBodies = []int{-1, 0, 308, 308, 8, -1, 0}
)

func (d *decoder) netcode() {
	typ, n := uint64(d.b[0]&0xf), int(d.b[0]>>4)
	d.add("type", 0, 1, typ).Text = name(netcodeTypes, typ)
	if d.b[0] == netcodeRequest {
		d.netcodeRequest()
		return
	}
	d.add("sequence_size", 0, 1, uint64(n))
	switch {
	case len(d.b) < netcodeMinimum:
		d.problem("%s are less than the %d of a packet", size(len(d.b)), netcodeMinimum)
		return
	case typ == netcodeRequest || typ >= uint64(len(netcodeTypes)):
		d.problem("%d is no type of sealed packets", typ)
		return
	case n < 1 || n > 8:
		d.problem("a sequence of %s, not 1 to 8", size(n))
		return
	case len(d.b) < 1+n+tagSize:
		d.problem("%s are less than sequence and tag", size(len(d.b)))
		return
	}
	var seq uint64
	for i := range n {
		seq |= uint64(d.b[1+i]) << (8 * i)
	}
	d.add("sequence", 1, n, seq)
	d.say("%s %d", netcodeTypes[typ], seq)
	body := len(d.b) - 1 - n - tagSize
	d.bytes("sealed", 1+n, body)
	d.bytes("tag", 1+n+body, tagSize)
	if typ == netcodePayload {
		d.also(", %s", size(body))
		if body < 1 || body > netcodeMaxPayload {
			d.problem("a payload of %s, not 1 to %d", size(body), netcodeMaxPayload)
		}
	} else if want := netcodeBodies[typ]; body != want {
		d.problem("a body of %s, not %d", size(body), want)
	}
	if d.Problem == "" && len(d.o.Keys) > 0 {
		d.netcodeOpen(typ, seq, 1+n)
	}
}

func (d *decoder) netcodeRequest() {
	d.say("request")
	if len(d.b) != netcodeRequestSize {
		d.problem("a request has %d bytes, not %d", netcodeRequestSize, len(d.b))
		return
	}
	off := 1 + len(netcodeVersion)
	version := d.b[1:off]
	if string(version) != netcodeVersion {
		d.add("version", 1, len(version), hex.EncodeToString(version))
		d.problem("the version is not NETCODE 1.02")
		return
	}
	d.add("version", 1, len(version), strings.TrimSuffix(netcodeVersion, "\x00"))
	d.add("protocol_id", off, 8, d.le64(off)).Hex = true
	expires := d.add("expires", off+8, 8, d.le64(off+8))
	expires.Text = unixText(d.le64(off + 8))
	d.say("request for protocol %#x, token expires %s", d.le64(off), expires.Text)
	off += 16
	d.bytes("nonce", off, nonceSize)
	d.bytes("private", off+nonceSize, privateSize)
}

// unixText formats seconds since 1970.
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

// TokenKeys returns the keys in the 2048 bytes of a connect token, whose form
// netcode.ParseToken has found to be right.
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

// netcodeOpen opens the body at off, if one of the keys does.
func (d *decoder) netcodeOpen(typ, seq uint64, off int) {
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
				return
			}
		}
	}
	d.Note = "sealed with other keys"
}

// open opens a sealed body, into memory of its own.
func open(key *[chacha20poly1305.KeySize]byte, protocolID uint64, prefix byte, seq uint64, sealed []byte) ([]byte, bool) {
	aead, err := chacha20poly1305.New(key[:])
	if err != nil {
		return nil, false // in a program restricted to FIPS 140
	}
	nonce := binary.LittleEndian.AppendUint64(make([]byte, 4, 12), seq)
	data := binary.LittleEndian.AppendUint64([]byte(netcodeVersion), protocolID)
	body, err := aead.Open(nil, nonce, sealed, append(data, prefix))
	return body, err == nil
}

// netcodeBody adds what was sealed. Each of its bytes has its place in the
// datagram.
func (d *decoder) netcodeBody(typ uint64, body []byte, from string, off int) {
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
