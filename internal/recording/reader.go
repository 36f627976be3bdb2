package recording

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"iter"
	"math"
	"time"
)

// A FormatError is a capture.FormatError.
type FormatError struct {
	Offset int64
	Reason string
	Err    error
}

func (e *FormatError) Error() string {
	return fmt.Sprintf("capture: at byte %d: %s", e.Offset, e.Reason)
}

// A Record is one record of a capture. It is valid until the next call of Next.
type Record struct {
	Offset int64 // in the file, in bytes
	Kind   Kind
	Conn   *Connection // the same for all records of a connection

	// Of a call:
	At   time.Duration // since the beginning of the connection
	Data []byte        // the datagram or message that the core was given, as far as it is there
	Size int           // of Data, in full
	Out  []byte        // the core's answers, as of Outputs.Bytes

	args, answers []byte
	whole         *whole
}

// Whole returns Data with zeros for what was left out, until the next Whole or Next.
func (r *Record) Whole() []byte {
	if len(r.Data) == r.Size {
		return r.Data
	}
	return r.whole.of(r.Data, r.Size)
}

// A whole has the zeros of what was left out, made once for all records.
type whole struct {
	buf  []byte
	used int // bytes that are not zero
}

func (w *whole) of(b []byte, size int) []byte {
	if size > len(w.buf) {
		*w = whole{buf: make([]byte, size)}
	}
	clear(w.buf[:w.used])
	w.used = copy(w.buf, b)
	return w.buf[:size:size]
}

// Arg returns the next argument of the call; ok is false if there is none.
func (r *Record) Arg() (v int64, ok bool) {
	v, n := binary.Varint(r.args)
	if n <= 0 {
		return 0, false
	}
	r.args = r.args[n:]
	return v, true
}

// Answered reports whether all replies to the core's questions have been used.
func (r *Record) Answered() bool { return len(r.answers) == 0 }

// Answer returns the reply to the core's next question; ok is false if it asked no more.
func (r *Record) Answer() (answer, ok bool) {
	if len(r.answers) == 0 {
		return false, false
	}
	answer = r.answers[0] != 0
	r.answers = r.answers[1:]
	return answer, true
}

// AnswerNumber is Answer for a number, which is at most 2^40.
func (r *Record) AnswerNumber() (n int64, ok bool) {
	v, size := binary.Uvarint(r.answers)
	if size <= 0 || v > 1<<40 {
		return 0, false
	}
	r.answers = r.answers[size:]
	return int64(v), true
}

// A Packet is a capture.Packet.
type Packet struct {
	Time time.Time
	Sent bool
	Data []byte
	Size int
}

// Packets returns the datagrams that a call has received or sent.
func (r *Record) Packets() iter.Seq[Packet] {
	return func(yield func(Packet) bool) {
		at := r.Conn.Start.Add(r.At)
		if r.Kind == Receive && !yield(Packet{Time: at, Data: r.Data, Size: r.Size}) {
			return
		}
		for o := range outputs(r.Out) {
			if o.what == outDatagram && !yield(Packet{Time: at, Sent: true, Data: o.data, Size: o.size}) {
				return
			}
		}
	}
}

// A Reader is the inside of a capture.Reader.
type Reader struct {
	r      *bufio.Reader
	offset int64
	header Header
	end    *End
	body   bytes.Buffer
	conns  map[uint64]*Connection
	record Record
	whole  whole
}

// An End is a capture.End.
type End struct {
	Dropped uint32
	Limit   bool
	Failed  bool
}

// NewReader returns a Reader of a capture, of which it has read the header.
func NewReader(r io.Reader) (*Reader, error) {
	c := &Reader{r: bufio.NewReader(r), conns: make(map[uint64]*Connection)}
	var m [len(magic)]byte
	if _, err := io.ReadFull(c.r, m[:]); err != nil {
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			return nil, c.wrong("not a capture")
		}
		return nil, err
	}
	if string(m[:]) != magic {
		return nil, c.wrong("not a capture")
	}
	c.offset += int64(len(m))
	body, err := c.frame(maxHeader)
	if err == io.EOF {
		return nil, c.truncated()
	}
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(body, &c.header); err != nil {
		return nil, c.wrong("header: " + err.Error())
	}
	if v := c.header.Version; v != version {
		return nil, c.wrong(fmt.Sprintf("version %d of the format, but this program reads version %d", v, version))
	}
	return c, nil
}

// Header returns where the capture was made.
func (c *Reader) Header() Header { return c.header }

// End returns the last record, once Next has returned io.EOF; nil if there is none.
func (c *Reader) End() *End { return c.end }

// Next returns the next record, and io.EOF after the last one.
func (c *Reader) Next() (*Record, error) {
	for {
		at := c.offset
		body, err := c.frame(maxFrame)
		if err != nil {
			return nil, err
		}
		if c.end != nil {
			return nil, wrongAt(at, "a record behind the end")
		}
		c.record = Record{Offset: at, whole: &c.whole}
		skip, err := c.take(&c.record, body)
		if err != nil {
			return nil, err
		}
		if !skip {
			return &c.record, nil
		}
	}
}

// take reads a record; skip says that users need not see it.
func (c *Reader) take(r *Record, body []byte) (skip bool, err error) {
	f := &fields{b: body}
	what := f.byte()
	if what == recordEnd {
		return true, c.takeEnd(r, f)
	}
	id := f.uvarint()
	if f.bad {
		return false, wrongAt(r.Offset, "a record without a connection")
	}
	conn := c.conns[id]
	r.Conn = conn
	switch {
	case what == recordOpened && conn == nil:
		r.Kind = Opened
		r.Conn, err = c.meet(r, id, f)
	case what == recordContinued:
		return conn != nil, c.continued(r, id, f)
	case what == recordCall && conn != nil:
		err = c.call(r, f)
	case what == recordClosed && conn != nil && len(f.b) == 0:
		r.Kind = Closed
		delete(c.conns, id)
	default:
		err = wrongAt(r.Offset, fmt.Sprintf("a record of kind %d is out of place", what))
	}
	return false, err
}

func (c *Reader) takeEnd(r *Record, f *fields) error {
	if len(f.b) != 5 || f.b[4] > 2 {
		return wrongAt(r.Offset, "an end that is malformed")
	}
	c.end = &End{Dropped: binary.LittleEndian.Uint32(f.b), Limit: f.b[4] == 1, Failed: f.b[4] == 2}
	return nil
}

func (c *Reader) meet(r *Record, id uint64, f *fields) (*Connection, error) {
	conn := &Connection{ID: id}
	if err := json.Unmarshal(f.b, conn); err != nil {
		return nil, wrongAt(r.Offset, "connection: "+err.Error())
	}
	c.conns[id] = conn
	return conn, nil
}

// continued reads the name of a connection in a later segment.
func (c *Reader) continued(r *Record, id uint64, f *fields) (err error) {
	calls, last := f.uvarint(), f.uvarint()
	if f.bad || calls > math.MaxInt || last > uint64(maxElapsed) {
		return wrongAt(r.Offset, "a malformed connection")
	}
	if r.Conn == nil {
		r.Kind = Joined
		if r.Conn, err = c.meet(r, id, f); err != nil {
			return err
		}
		r.Conn.Incomplete = true
	}
	if uint64(r.Conn.Calls) != calls {
		r.Conn.Incomplete = true
	}
	r.Conn.Calls, r.Conn.Elapsed = int(calls), time.Duration(last)
	r.At = r.Conn.Elapsed
	return nil
}

func (c *Reader) call(r *Record, f *fields) error {
	rest := len(f.b)
	r.Kind = Kind(f.byte())
	step := f.varint()
	r.args = f.blob()
	r.Data, r.Size = f.data()
	r.answers = f.blob()
	r.Out = f.b
	conn := r.Conn
	at := int64(conn.Elapsed) + step
	if f.bad || step > maxElapsed || step < -maxElapsed || at < 0 || at > maxElapsed {
		return wrongAt(r.Offset, "a malformed call")
	}
	if lacks := r.Size - len(r.Data); lacks > 0 && !(c.header.Omitted && mayLack(lacks, rest)) {
		return wrongAt(r.Offset, fmt.Sprintf("a call that lacks %d bytes of its data", lacks))
	}
	for o := range outputs(r.Out) {
		if o.what == 0 {
			return wrongAt(r.Offset, "a call with malformed outputs")
		}
	}
	conn.Elapsed = time.Duration(at)
	conn.Calls++
	r.At = conn.Elapsed
	return nil
}

// frame reads a frame and returns its body, valid until the next one.
func (c *Reader) frame(most uint64) ([]byte, error) {
	n, size, err := c.uvarint()
	if err != nil {
		return nil, err
	}
	if n == 0 || n > most {
		return nil, c.wrong(fmt.Sprintf("a record of %d bytes", n))
	}
	c.body.Reset()
	if c.body.Cap() > 1<<20 {
		c.body = bytes.Buffer{}
	}
	// The buffer grows with what is there, whatever the length says.
	if _, err := io.CopyN(&c.body, c.r, int64(n)+4); err != nil {
		if err == io.EOF {
			return nil, c.truncated()
		}
		return nil, err
	}
	b := c.body.Bytes()
	body, sum := b[:n:n], binary.LittleEndian.Uint32(b[n:])
	if crc32.Checksum(body, crcTable) != sum {
		return nil, c.wrong("a record with a wrong checksum")
	}
	c.offset += int64(size) + int64(n) + 4
	return body, nil
}

// uvarint reads the length of a frame; io.EOF if there is none.
func (c *Reader) uvarint() (v uint64, size int, err error) {
	for size < binary.MaxVarintLen64 {
		b, err := c.r.ReadByte()
		if err == io.EOF && size > 0 {
			return 0, 0, c.truncated()
		}
		if err != nil {
			return 0, 0, err
		}
		v |= uint64(b&0x7f) << (7 * size)
		size++
		if b < 0x80 {
			return v, size, nil
		}
	}
	return 0, 0, c.wrong("a record without a length")
}

func (c *Reader) wrong(reason string) error { return wrongAt(c.offset, reason) }

func (c *Reader) truncated() error {
	return &FormatError{c.offset, "the capture ends in the middle of a record", io.ErrUnexpectedEOF}
}

func wrongAt(offset int64, reason string) error { return &FormatError{offset, reason, nil} }
