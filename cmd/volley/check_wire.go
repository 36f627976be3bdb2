package main

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"net/netip"
	"time"
)

// The questions of check travel in two ways. Over a connection they are probes of
// kind probeCheck, which serve answers with probeChecked and a checkReply behind
// the head; an echo server returns the question. To the second port of serve they
// are datagrams, of sizes that both sides choose:
//
//	bytes  0-7    checkMagic, with the version
//	       8      1: question, 2: answer
//	       9      of an answer, 1: it could not have been fragmented by the sender
//	      10-11   of an answer, the port from which the question came
//	      12-15   of a question, how large the answer is to be; of an answer,
//	              how large the question was; in bytes
//	      16-23   a number of the asker's
//	      24-39   a cookie: zero at first, then that of an answer
//	      40-55   of an answer, the address from which the question came
//	      56-     zeros
//
// Numbers are little-endian. Without the cookie, which proves the address, no
// answer is larger than its question.
const (
	checkMagic    = "vlyCHK\x00\x01"
	checkHead     = 56
	checkMax      = 9 << 10 // largest question and answer
	checkQuestion = 1
	checkAnswer   = 2
)

// Kinds of probes of check, beside those of ping and bench.
const (
	probeCheck   byte = 100 // client: who am I to you?
	probeChecked byte = 101 // server: a checkReply behind the head
)

// A checkDatagram is one of those to the second port.
type checkDatagram struct {
	answer bool
	whole  bool           // of an answer: the sender's system does not fragment
	size   int            // wanted, or that of the question
	number uint64         // of the asker
	cookie [16]byte       // zero: none
	seenAs netip.AddrPort // of an answer
}

// append appends the datagram in size bytes.
func (d *checkDatagram) append(dst []byte, size int) []byte {
	var b [checkHead]byte
	copy(b[:], checkMagic)
	b[8] = checkQuestion
	if d.answer {
		b[8] = checkAnswer
	}
	if d.whole {
		b[9] = 1
	}
	binary.LittleEndian.PutUint16(b[10:], d.seenAs.Port())
	binary.LittleEndian.PutUint32(b[12:], uint32(d.size))
	binary.LittleEndian.PutUint64(b[16:], d.number)
	copy(b[24:], d.cookie[:])
	if d.seenAs.IsValid() {
		ip := d.seenAs.Addr().As16()
		copy(b[40:], ip[:])
	}
	dst = append(dst, b[:]...)
	return append(dst, make([]byte, max(0, size-checkHead))...)
}

// parseCheckDatagram parses a datagram.
func parseCheckDatagram(b []byte) (d checkDatagram, ok bool) {
	if len(b) < checkHead || string(b[:len(checkMagic)]) != checkMagic || b[8] != checkQuestion && b[8] != checkAnswer {
		return d, false
	}
	d.answer = b[8] == checkAnswer
	d.whole = b[9] == 1
	d.size = int(min(binary.LittleEndian.Uint32(b[12:]), checkMax))
	d.number = binary.LittleEndian.Uint64(b[16:])
	d.cookie = [16]byte(b[24:40])
	d.seenAs = netip.AddrPortFrom(netip.AddrFrom16([16]byte(b[40:56])).Unmap(), binary.LittleEndian.Uint16(b[10:]))
	return d, true
}

// A checkReply is what serve says about a client.
type checkReply struct {
	Address string    `json:"address"`            // as which the server sees the client
	Time    time.Time `json:"time"`               // by the server's clock
	NATPort int       `json:"nat_port,omitempty"` // the second port, 0 for none
}

var errNoReply = errors.New("not an answer of volley serve")

// parseCheckReply parses a probe of kind probeChecked.
func parseCheckReply(b []byte) (r checkReply, err error) {
	if err := json.Unmarshal(b[probeSize:], &r); err != nil {
		return r, errNoReply
	}
	r.Address = harmless(r.Address)
	return r, nil
}
