package riptide

// A queue holds messages that wait for the window, one behind the other in one
// piece of memory. The zero value is empty.
type queue struct {
	buf   []byte
	start int // of the oldest
	n     int
}

const queueHeader = 4

func (q *queue) len() int { return q.n }

func (q *queue) push(t packetType, body []byte) {
	if q.start > len(q.buf)/2 && len(q.buf)+queueHeader+len(body) > cap(q.buf) {
		n := copy(q.buf, q.buf[q.start:])
		q.buf, q.start = q.buf[:n], 0
	}
	n := len(body)
	q.buf = append(q.buf, byte(t), byte(n), byte(n>>8), byte(n>>16))
	q.buf = append(q.buf, body...)
	q.n++
}

// pop returns the oldest message; its body is valid until the next push.
func (q *queue) pop() (t packetType, body []byte) {
	b := q.buf[q.start:]
	n := int(b[1]) | int(b[2])<<8 | int(b[3])<<16
	q.start += queueHeader + n
	q.n--
	if q.n == 0 {
		q.buf, q.start = q.buf[:0], 0
	}
	return packetType(b[0]), b[queueHeader : queueHeader+n]
}
