// Package recording writes and reads captures, for the packages whose connections
// are recorded. Package capture has what programs need of it.
package recording

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"runtime"
	"runtime/debug"
	"time"
)

// A capture is a magic number, a frame with a Header in JSON, and frames with
// records. A frame is the length of its body (uvarint), the body, and the CRC-32C
// of the body (4 bytes, little-endian). The first byte of a record's body says
// what it is:
//
//	opened     id, Connection in JSON
//	continued  id, calls so far, their time, Connection in JSON
//	call       id, kind, time since the call before (varint), arguments, data,
//	           answers, outputs
//	closed     id
//	end        calls that were not recorded, why
//
// Numbers are uvarints where nothing else is said. Arguments and answers are a
// length and that many bytes; data are a length, the number of bytes of them that
// are there, and these; outputs go to the end of the body, see Outputs. Times are
// nanoseconds since the connection began.
const (
	magic      = "vlycap\r\n" // a transfer as text would change it
	version    = 1
	maxFrame   = 64 << 20        // bytes of a body
	maxHeader  = 64 << 10        // bytes of the header's
	maxElapsed = int64(1) << 61  // nanoseconds, 73 years
	endSize    = 1 + 5 + 4 + 2*5 // at most, of the frame that ends a capture

	// A call's data may lack omitted bytes, or omittedShare times the rest of its record. A
	// replay puts zeros there, so that its work is in proportion to the file.
	omitted      = 64 << 10
	omittedShare = 4096
)

// Kinds of records.
const (
	recordOpened = 1 + iota
	recordContinued
	recordCall
	recordClosed
	recordEnd
)

var crcTable = crc32.MakeTable(crc32.Castagnoli)

// A Header is a capture.Header.
type Header struct {
	Version  int       `json:"version"`
	Library  string    `json:"library"`
	Go       string    `json:"go"`
	Platform string    `json:"platform"`
	Created  time.Time `json:"created"`
	Omitted  bool      `json:"omitted,omitzero"`
	Ring     bool      `json:"ring,omitzero"`
}

func newHeader(cfg *Config) Header {
	return Header{
		Version: version, Library: library(), Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
		Created: time.Now(), Omitted: cfg.OmitPayload, Ring: cfg.Ring,
	}
}

// library returns the version of this module in the running program.
func library() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	const path = "volley" // module path
	m := &info.Main
	for _, d := range info.Deps {
		if d.Path == path {
			m = d
		}
	}
	if m.Path != path || m.Version == "" {
		return "(devel)"
	}
	return m.Version
}

func appendStart(dst []byte, h *Header) []byte {
	body, err := json.Marshal(h)
	if err != nil {
		panic(err) // the fields are plain
	}
	return appendFrame(append(dst, magic...), body)
}

func appendFrame(dst, body []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(body)))
	dst = append(dst, body...)
	return binary.LittleEndian.AppendUint32(dst, crc32.Checksum(body, crcTable))
}

// frameSize returns the size of the frame of a body of n bytes.
func frameSize(n int) int { return uvarintSize(uint64(n)) + n + 4 }

func uvarintSize(v uint64) (n int) {
	for n = 1; v >= 0x80; n++ {
		v >>= 7
	}
	return n
}

// A Connection is a capture.Connection.
type Connection struct {
	ID         uint64          `json:"-"`
	Protocol   string          `json:"protocol"`
	Local      string          `json:"local,omitzero"`
	Remote     string          `json:"remote,omitzero"`
	Start      time.Time       `json:"start"`
	Config     json.RawMessage `json:"config,omitzero"`
	Calls      int             `json:"-"`
	Elapsed    time.Duration   `json:"-"`
	Incomplete bool            `json:"-"`
}

// DecodeConfig decodes Config into cfg. A field that cfg does not have is an error.
func (c *Connection) DecodeConfig(cfg any) error {
	d := json.NewDecoder(bytes.NewReader(c.Config))
	d.DisallowUnknownFields()
	if err := d.Decode(cfg); err != nil {
		return fmt.Errorf("configuration: %w", err)
	}
	return nil
}

// A Kind is what a Record tells of: the kind of a call of a core, or one of those
// from Opened on.
type Kind uint16

// The kinds of calls, which a capture has in a byte. Not all cores have all.
const (
	Receive    Kind = 1 + iota // Data is a datagram that was received
	Send                       // Data is a message of the application
	Tick                       // the time that the core had asked for has come
	Close                      // the core is at its end
	Update                     // figures are brought up to date
	Control                    // an acknowledgement, or another packet without a message, is sent
	Expire                     // messages that lack fragments for too long are given up
	Compact                    // memory is given back
	InquiryDue                 // the core is asked whether to inquire, ...
	Inquire                    // ... and does so
	Renew                      // the other side has started again
	EndBatch                   // the datagrams that were received together are at an end
	Transmit                   // what may leave now does
	Priority                   // that of a channel is set
	Disconnect                 // the end is asked for, in order
	Abort                      // the end, at once
	Aside                      // what the connection sent by itself, without the core: nothing to replay
	Move                       // the other side is reached by another way
)

// Kinds of records that are no calls.
const (
	Opened Kind = 1<<8 + iota // a connection has begun
	Joined                    // the beginning of a connection is missing: here it goes on
	Closed                    // a connection has ended
)

var kindNames = map[Kind]string{
	Receive: "receive", Send: "send", Tick: "tick", Close: "close", Update: "update", Control: "control",
	Expire: "expire", Compact: "compact", InquiryDue: "inquiry due", Inquire: "inquire", Renew: "renew",
	EndBatch: "end of batch", Transmit: "transmit", Priority: "priority", Disconnect: "disconnect", Abort: "abort", Aside: "aside", Move: "move",
	Opened: "opened", Joined: "joined", Closed: "closed",
}

// String returns the name of the kind.
func (k Kind) String() string {
	if name := kindNames[k]; name != "" {
		return name
	}
	return fmt.Sprintf("call %d", uint16(k))
}

func appendBlob(dst, b []byte) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(b))), b...)
}

// appendData appends data of which the bytes behind keep are left out.
func appendData(dst, b []byte, keep int) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(b)))
	return appendBlob(dst, b[:min(keep, len(b))])
}

// mayLack reports whether a call's data may lack n bytes; rest is its record from the kind on.
func mayLack(n, rest int) bool { return n <= max(omitted, omittedShare*rest) }

// A fields takes a body apart. After an error it returns zeros.
type fields struct {
	b   []byte
	bad bool
}

func (f *fields) uvarint() uint64 {
	v, n := binary.Uvarint(f.b)
	if n <= 0 {
		f.fail()
		return 0
	}
	f.b = f.b[n:]
	return v
}

func (f *fields) varint() int64 {
	u := f.uvarint()
	return int64(u>>1) ^ -int64(u&1)
}

func (f *fields) byte() byte {
	if len(f.b) == 0 {
		f.fail()
		return 0
	}
	v := f.b[0]
	f.b = f.b[1:]
	return v
}

func (f *fields) blob() []byte {
	n := f.uvarint()
	if n > uint64(len(f.b)) {
		f.fail()
		return nil
	}
	b := f.b[:n:n]
	f.b = f.b[n:]
	return b
}

// data takes data; n is how long they were.
func (f *fields) data() (b []byte, n int) {
	total := f.uvarint()
	b = f.blob()
	if total > maxFrame || uint64(len(b)) > total {
		f.fail()
		return nil, 0
	}
	return b, int(total)
}

func (f *fields) fail() { f.b, f.bad = nil, true }
