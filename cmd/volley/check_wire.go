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
// are datagrams of any size, which come back as long as they were:
//
//	bytes  0-7    checkMagic, with the version
//	       8      1: question, 2: answer
//	       9      of an answer, 1: it could not have been fragmented by the sender
//	      10-11   of an answer, the port from which the question came
//	      12-27   of an answer, the address from which the question came
//	      28-     zeros
//
// Numbers are little-endian.
const (
	checkMagic    = "vlyCHK\x00\x02"
	checkHead     = 28
	checkMax      = 9 << 10 // largest question
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
	seenAs netip.AddrPort // of an answer
}

// put writes the head of a datagram to b.
func (d *checkDatagram) put(b []byte) {
	copy(b, checkMagic)
	b[8], b[9] = checkQuestion, 0
	if d.answer {
		b[8] = checkAnswer
	}
	if d.whole {
		b[9] = 1
	}
	binary.LittleEndian.PutUint16(b[10:], d.seenAs.Port())
	if d.seenAs.IsValid() {
		ip := d.seenAs.Addr().As16()
		copy(b[12:], ip[:])
	}
}

func parseCheckDatagram(b []byte) (d checkDatagram, ok bool) {
	if len(b) < checkHead || string(b[:len(checkMagic)]) != checkMagic || b[8] != checkQuestion && b[8] != checkAnswer {
		return d, false
	}
	seenAs := netip.AddrPortFrom(netip.AddrFrom16([16]byte(b[12:])).Unmap(), binary.LittleEndian.Uint16(b[10:]))
	return checkDatagram{answer: b[8] == checkAnswer, whole: b[9] == 1, seenAs: seenAs}, true
}

// A checkReply is what serve says about a client.
type checkReply struct {
	Address string    `json:"address"`            // as which the server sees the client
	Time    time.Time `json:"time"`               // by the server's clock
	NATPort int       `json:"nat_port,omitempty"` // the second port, 0 for none
}

var errNoReply = errors.New("not an answer of volley serve")

func parseCheckReply(b []byte) (r checkReply, err error) {
	if err := json.Unmarshal(b[probeSize:], &r); err != nil {
		return r, errNoReply
	}
	r.Address = harmless(r.Address)
	return r, nil
}
