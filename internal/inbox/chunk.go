package inbox

import (
	"encoding/binary"
	"sync"
	"unsafe"
)

// A chunk holds messages behind heads: the length in four bytes, perhaps a number in eight.
type chunk struct {
	next *chunk
	buf  []byte
	r, w int // read and write offset
	pool *sync.Pool
	from []*Origin // of the messages, where an Inbox has several
	read int       // how many of from have been read

	front uint8 // bytes before each message
	tight bool  // made for one message
}

const (
	lengthSize = 4
	numberSize = 8
)

// Chunks have three sizes, for short messages and for floods.
var pools = [...]struct {
	size int
	pool sync.Pool
}{{size: 1 << 10}, {size: 8 << 10}, {size: 64 << 10}}

// newChunk returns a chunk for at least n bytes, of the given class or above.
func newChunk(n, class int) *chunk {
	for i := class; i < len(pools); i++ {
		p := &pools[i]
		if n > p.size {
			continue
		}
		if c, ok := p.pool.Get().(*chunk); ok {
			return c
		}
		return &chunk{buf: make([]byte, p.size), pool: &p.pool}
	}
	return &chunk{buf: make([]byte, n)}
}

// ChunkSize returns what an empty Inbox reserves for a message of n bytes, its head included.
func ChunkSize(n int) int {
	for i := range pools {
		if size := pools[i].size; n <= size {
			return size
		}
	}
	return n
}

// size returns the memory that c counts for, in bytes.
func (c *chunk) size() int {
	n := len(c.buf) + cap(c.from)*originSize
	if c.tight {
		n += chunkHead
	}
	return n
}

// chunkHead is what a chunk takes beside its buffer; nothing where messages share one.
const chunkHead = int(unsafe.Sizeof(chunk{}))

// TightOverhead is how many bytes PushKept keeps at most beside a message.
const TightOverhead = chunkHead + lengthSize + numberSize

func (c *chunk) free() {
	if c.pool != nil {
		c.next, c.r, c.w = nil, 0, 0
		clear(c.from)
		c.from, c.read = c.from[:0], 0
		c.pool.Put(c)
	}
}

func (c *chunk) room() int { return len(c.buf) - c.w }

func (c *chunk) push(p []byte, number uint64) {
	c.putHead(c.w, len(p), number)
	head := int(c.front)
	copy(c.buf[c.w+head:], p)
	c.w += head + len(p)
}

func (c *chunk) pop() []byte {
	n := int(binary.NativeEndian.Uint32(c.buf[c.r:]))
	start := c.r + int(c.front)
	c.r = start + n
	return c.buf[start:c.r:c.r]
}

// putBack makes the last n bytes of the popped message the next message.
func (c *chunk) putBack(n int, number uint64) {
	c.r -= n + int(c.front)
	c.putHead(c.r, n, number)
}

// putHead writes the head of a message of n bytes.
func (c *chunk) putHead(at, n int, number uint64) {
	binary.NativeEndian.PutUint32(c.buf[at:], uint32(n))
	if c.front > lengthSize {
		binary.NativeEndian.PutUint64(c.buf[at+lengthSize:], number)
	}
}

// number returns that of the next message, 0 if its head has none.
func (c *chunk) number() uint64 {
	if c.front == lengthSize {
		return 0
	}
	return binary.NativeEndian.Uint64(c.buf[c.r+lengthSize:])
}
