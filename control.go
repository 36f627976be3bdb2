package volley

import (
	"encoding/binary"
	"strings"
	"unicode"
	"unicode/utf8"
)

// The control datagrams of docs/reliable.md, section 1.4, by which two sides greet
// each other, say goodbye, refuse, and find out that only one of them has a
// connection. Their first bytes are odd and not 1, so that every reader of packets
// and fragments refuses them, the reference implementation's too.
const (
	noticePrefix   = 3  // "I do not know you", for one packet
	helloPrefix    = 5  // a question that begins a connection
	questionPrefix = 7  // "do you know me?"
	answerPrefix   = 9  // "yes", and a question as well
	confirmPrefix  = 11 // "yes", to an answer
	refusalPrefix  = 13 // "no"
	goodbyePrefix  = 15 // the end
	heardPrefix    = 17 // that a goodbye has arrived
	lastPrefix     = heardPrefix

	noticeSize   = 1 + 2         // with the sequence of the packet; every packet is larger
	greetingSize = 1 + 8 + 8 + 8 // of a hello, question, answer or confirm
	tokenSize    = 1 + 8         // of what a token follows, and then perhaps a reason

	maxRefusal = greetingSize - tokenSize // bytes of its reason: it is not larger than what it answers
	maxReason  = 64                       // bytes of that of a goodbye
)

func isControl(b []byte) bool {
	return len(b) > 0 && b[0]&1 != 0 && b[0] != 1 && b[0] <= lastPrefix
}

func putNotice(b []byte, sequence uint16) {
	b[0] = noticePrefix
	binary.LittleEndian.PutUint16(b[1:noticeSize], sequence)
}

// parseNotice returns the sequence that a notice is about.
func parseNotice(b []byte) (sequence uint16, ok bool) {
	if len(b) != noticeSize || b[0] != noticePrefix {
		return 0, false
	}
	return binary.LittleEndian.Uint16(b[1:]), true
}

// A salute is the content of a hello, question, answer or confirm.
type salute struct {
	token    uint64 // of the sender
	echo     uint64 // the receiver's token, as the sender knows it; 0: it does not
	protocol uint64 // Config.ProtocolID
}

func (s salute) put(b []byte, prefix byte) {
	b[0] = prefix
	binary.LittleEndian.PutUint64(b[1:], s.token)
	binary.LittleEndian.PutUint64(b[9:], s.echo)
	binary.LittleEndian.PutUint64(b[17:greetingSize], s.protocol)
}

// parseSalute returns the content of a control datagram with one of these prefixes.
func parseSalute(b []byte) (s salute, ok bool) {
	if len(b) != greetingSize || b[0]&1 == 0 || b[0] < helloPrefix || b[0] > confirmPrefix {
		return salute{}, false
	}
	s = salute{binary.LittleEndian.Uint64(b[1:]), binary.LittleEndian.Uint64(b[9:]), binary.LittleEndian.Uint64(b[17:])}
	return s, s.token != 0
}

// putToken writes a refusal, goodbye or heard.
func putToken(b []byte, prefix byte, token uint64, reason string) {
	b[0] = prefix
	binary.LittleEndian.PutUint64(b[1:tokenSize], token)
	copy(b[tokenSize:], reason)
}

// parseToken returns the token of such a datagram, and its reason, of at most limit
// bytes.
func parseToken(b []byte, prefix byte, limit int) (token uint64, reason string, ok bool) {
	if len(b) < tokenSize || len(b) > tokenSize+limit || b[0] != prefix {
		return 0, "", false
	}
	return binary.LittleEndian.Uint64(b[1:]), printable(string(b[tokenSize:])), true
}

// cutReason shortens a reason to what a goodbye carries, by whole characters.
func cutReason(reason string) string {
	if len(reason) <= maxReason {
		return reason
	}
	n := maxReason
	for n > 0 && !utf8.RuneStart(reason[n]) {
		n--
	}
	return reason[:n]
}

// printable replaces what a terminal or a log might take for more than text.
func printable(reason string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return utf8.RuneError
		}
		return r
	}, reason)
}
