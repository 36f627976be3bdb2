package netcode

import (
	"encoding/binary"
	"time"

	"volley/internal/wire"
)

// A sender is the sending half of a session: the state that sealing touches.
// Halves have no state in common, so that each can have a lock of its own.
type sender struct {
	cipher packetCipher
	seq    uint64 // of the next packet
	start  uint64 // of the first
	end    uint64 // no packet has this or more; zero: there is no end
	last   time.Time
	body   [keepAliveBodySize]byte // kept, so that keep alives don't allocate
}

// startAt gives a server its share of the sequences by its place in the token. The token's
// servers have the same keys, and a client may have sessions at several. The first share
// begins at 0, the last has no end.
func (s *sender) startAt(place int, last bool) {
	s.start = uint64(place) << sessionShareBits
	s.seq = s.start
	if !last {
		s.end = s.start + 1<<sessionShareBits
	}
}

// startAnywhere is startAt for a token that may be used again unnoticed. The random start
// avoids the sequences of earlier packets. It is above all shares, and leaves at least 2^56.
func (s *sender) startAnywhere(place int, random uint64) {
	share := anywhereStart + uint64(place)<<anywhereShareBits
	s.start = share + random>>(64-anywhereShareBits+1)
	s.seq = s.start
	s.end = share + 1<<anywhereShareBits
}

// sequenceReserve is how many sequences are kept for the last packets.
const sequenceReserve = 64

// exhausted reports whether the session has to end for lack of sequences.
func (s *sender) exhausted() bool { return s.end > 0 && s.seq >= s.end-sequenceReserve }

// packets returns how many packets have been sent.
func (s *sender) packets() uint64 { return s.seq - s.start }

func (s *sender) send(now time.Time, t packetType, body []byte, out *wire.Batch) {
	if s.end > 0 && s.seq >= s.end {
		return // do not repeat a nonce
	}
	s.cipher.seal(out, t, s.seq, body)
	s.seq++
	s.last = now
}

// sendBanded sends a payload with a byte in front.
func (s *sender) sendBanded(now time.Time, band byte, body []byte, out *wire.Batch) {
	if s.end > 0 && s.seq >= s.end {
		return
	}
	s.cipher.sealBanded(out, s.seq, band, body)
	s.seq++
	s.last = now
}

func (s *sender) keepAlive(now time.Time, index, maxClients uint32, out *wire.Batch) {
	binary.LittleEndian.PutUint32(s.body[:], index)
	binary.LittleEndian.PutUint32(s.body[4:], maxClients)
	s.send(now, packetKeepAlive, s.body[:], out)
}

func readKeepAlive(b []byte) (index, maxClients uint32) {
	return binary.LittleEndian.Uint32(b), binary.LittleEndian.Uint32(b[4:])
}

// disconnect appends the redundant disconnect packets.
func (s *sender) disconnect(now time.Time, out *wire.Batch) {
	for range disconnectPackets {
		s.send(now, packetDisconnect, nil, out)
	}
}

// A receiver is the receiving half of a session.
type receiver struct {
	cipher packetCipher
	window replayWindow
	last   time.Time   // of the newest packet that shows the peer alive
	drops  *dropCounts // nil: none
}

// drop counts a useless datagram.
func (r *receiver) drop(reason dropReason) {
	if r.drops == nil {
		r.drops = new(dropCounts)
	}
	r.drops[reason]++
}
