package main

import (
	"encoding/binary"
	"time"
)

// A probe is the head of a message of ping and bench, which an echo server leaves as it is.
type probe struct {
	kind   byte
	number uint64        // of the message, from 0
	sent   time.Duration // by the sender's clock, since it began
	seen   uint64        // how many of its kind the answering side has received, this one included
}

// Kinds of probes.
const (
	probePing    byte = 1 + iota // answered at once with what is in it, and seen
	probeStart                   // client: a measurement is to begin, with its figures behind the head
	probeAccept                  // server: show that you are there, with the number in this one
	probeGo                      // client: that number; repeated while it wants to go on
	probeData                    // the messages that are measured
	probeReport                  // what the receiver of the data has received so far
	probeEnd                     // the sender of the data has sent so many
	probeRefused                 // server: it does not measure, with the reason behind the head
	probeBye                     // client: that was all
)

// probeSize is the size of the head in bytes, and so that of the smallest probe.
const probeSize = 32

// probeMagic begins every probe; the last byte is the version.
const probeMagic = "vly\x01"

// append appends a probe of size bytes, filled up with zeros.
func (p *probe) append(dst []byte, size int) []byte {
	dst = append(dst, probeMagic...)
	dst = append(dst, p.kind, 0, 0, 0)
	dst = binary.LittleEndian.AppendUint64(dst, p.number)
	dst = binary.LittleEndian.AppendUint64(dst, uint64(p.sent))
	dst = binary.LittleEndian.AppendUint64(dst, p.seen)
	return append(dst, make([]byte, max(0, size-probeSize))...)
}

func parseProbe(b []byte) (p probe, ok bool) {
	if len(b) < probeSize || string(b[:len(probeMagic)]) != probeMagic {
		return p, false
	}
	p.kind = b[4]
	p.number = binary.LittleEndian.Uint64(b[8:])
	p.sent = time.Duration(binary.LittleEndian.Uint64(b[16:]))
	p.seen = binary.LittleEndian.Uint64(b[24:])
	return p, true
}

// setSeen fills in what the answering side has received.
func setSeen(b []byte, seen uint64) { binary.LittleEndian.PutUint64(b[24:], seen) }
