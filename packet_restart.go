package volley

import (
	"hash/maphash"

	"volley/internal/recording"
	"volley/internal/wire"
	"volley/reliable"
)

// A beginning is the first message of a peer that had heard nothing yet. Another
// one with its sequence is of somebody else who has the address now, as clients
// have that open a socket for each question. It is no late copy if its bytes
// differ: not of this beginning, nor of the one before.
type beginning struct {
	known    bool
	sequence uint16
	now, old uint32 // hashes; old is that of the beginning before, or 0
}

var beginnings = maphash.MakeSeed()

// meetLocked looks at a datagram before the endpoint is given it, which otherwise
// would have to take it for a copy.
func (p *packetPeer) meetLocked(datagram []byte) {
	if !wire.MayOpen(datagram) {
		return
	}
	cfg := &p.pc.set.reliable
	seen, ok := reliable.Inspect(cfg, datagram)
	if !ok || !seen.Opening || !seen.Message {
		return
	}
	b := &p.begun
	switch h := uint32(maphash.Bytes(beginnings, datagram)); {
	case !b.known:
		*b = beginning{known: true, sequence: seen.Sequence, now: h}
	case seen.Sequence == b.sequence && h != b.now && h != b.old:
		b.now, b.old = h, b.now
		if cfg.MidStream {
			p.conn.do(recording.Renew, p.conn.born(), nil, nil)
		}
	}
}
