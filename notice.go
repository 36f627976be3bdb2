package volley

import "encoding/binary"

// The datagrams by which two sides find out that only one of them has a
// connection, see docs/reliable.md, section 1.4. Their first bytes are odd and
// not 1, so that every reader of packets and fragments refuses them, the
// reference implementation's too.
const (
	noticePrefix = 3 // "I do not know you", for one packet
	askPrefix    = 5 // "is that so?", with a token
	answerPrefix = 7 // "it is", with the same token

	noticeSize = 1 + 2 // with the sequence of the packet; every packet is larger
	askSize    = 1 + 8 // with the token
)

// putNotice writes a notice about the packet with a sequence.
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

// putAsk writes a question.
func putAsk(b []byte, token uint64) {
	b[0] = askPrefix
	binary.LittleEndian.PutUint64(b[1:askSize], token)
}

// parseAsk returns the token of a question.
func parseAsk(b []byte) (token uint64, ok bool) { return parseToken(b, askPrefix) }

// putAnswer writes the answer to a question, which is as long.
func putAnswer(b []byte, token uint64) {
	putAsk(b, token)
	b[0] = answerPrefix
}

// parseAnswer returns the token of an answer.
func parseAnswer(b []byte) (token uint64, ok bool) { return parseToken(b, answerPrefix) }

func parseToken(b []byte, prefix byte) (token uint64, ok bool) {
	if len(b) != askSize || b[0] != prefix {
		return 0, false
	}
	return binary.LittleEndian.Uint64(b[1:]), true
}
