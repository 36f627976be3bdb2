package capture

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

// A capture is a magic number, a frame with the Header in JSON, and frames with
// records. A frame is the length of its body (uvarint), the body, and the CRC-32C
// of the body (4 bytes, little-endian). The first byte of a record's body says
// what it is:
//
//	opened     id, Info in JSON
//	continued  id, calls so far, their time, Info in JSON
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

	// The data of a call may lack omitted bytes, or omittedShare times the size of
	// the rest of its record if that is more. So a replay, which puts zeros in their
	// place, does no more than in proportion to the file. Data that would lack more
	// are kept up to there, as zeros.
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

// A Header says where a capture was made.
type Header struct {
	Version  int       `json:"version"`          // of the format
	Library  string    `json:"library"`          // version of this module, as far as the program knows it
	Go       string    `json:"go"`               // version of Go
	Platform string    `json:"platform"`         // GOOS/GOARCH
	Created  time.Time `json:"created"`          // when recording began
	Omitted  bool      `json:"omitted,omitzero"` // Config.OmitPayload
	Ring     bool      `json:"ring,omitzero"`    // Config.Ring
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
	const path = "volley"
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

// appendStart appends what a capture begins with.
func appendStart(dst []byte, h *Header) []byte {
	body, err := json.Marshal(h)
	if err != nil {
		panic(err) // the fields are plain
	}
	return appendFrame(append(dst, magic...), body)
}

// appendFrame appends a frame.
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

// An Info says what connection a core is of, and what it takes to make a fresh
// one.
type Info struct {
	Protocol string    `json:"protocol"`        // such as "reliable"
	Role     string    `json:"role,omitzero"`   // of this side, where the protocol has roles
	Local    string    `json:"local,omitzero"`  // address of this side
	Remote   string    `json:"remote,omitzero"` // address of the other side
	Start    time.Time `json:"start"`           // time 0 of the core
	// Config is what the protocol makes a fresh core of.
	Config json.RawMessage `json:"config,omitzero"`
}

// DecodeConfig decodes Config into what cfg points to, for implementations of
// protocols. A field that it does not know is an error, since it would matter.
func (i *Info) DecodeConfig(cfg any) error {
	d := json.NewDecoder(bytes.NewReader(i.Config))
	d.DisallowUnknownFields()
	if err := d.Decode(cfg); err != nil {
		return fmt.Errorf("configuration: %w", err)
	}
	return nil
}

// A Kind is a kind of call into a core.
type Kind uint8

// The kinds of calls. Not all cores have all of them.
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
	kinds
)

var kindNames = [kinds]string{
	Receive: "receive", Send: "send", Tick: "tick", Close: "close", Update: "update", Control: "control",
	Expire: "expire", Compact: "compact", InquiryDue: "inquiry due", Inquire: "inquire", Renew: "renew",
	EndBatch: "end of batch", Transmit: "transmit", Priority: "priority", Disconnect: "disconnect", Abort: "abort", Aside: "aside",
}

// String returns the name of the kind.
func (k Kind) String() string {
	if k < kinds && kindNames[k] != "" {
		return kindNames[k]
	}
	return fmt.Sprintf("call %d", uint8(k))
}

// appendBlob appends a length and the bytes.
func appendBlob(dst, b []byte) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(b))), b...)
}

// appendData appends data of which the bytes behind keep are left out.
func appendData(dst, b []byte, keep int) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(b)))
	return appendBlob(dst, b[:min(keep, len(b))])
}

// mayLack reports whether the data of a call may lack n bytes; rest is the size of
// its record from the kind on.
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
	v, n := binary.Varint(f.b)
	if n <= 0 {
		f.fail()
		return 0
	}
	f.b = f.b[n:]
	return v
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

// blob takes bytes that follow their length.
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
