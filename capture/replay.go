package capture

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"
	"io"
	"slices"
	"strings"
	"time"
)

// A Report tells how a capture was replayed.
type Report struct {
	Header      Header
	Connections []*Replayed // of the protocol, in the order of their beginnings
	Others      int         // connections of other protocols
	End         *End        // nil if the capture has none
}

// Replayed tells how one connection was replayed.
type Replayed struct {
	ID       uint64
	Info     Info
	Calls    int           // of its core
	Messages int           // delivered by the core
	Sent     int           // datagrams of the core
	Received int           // datagrams
	Elapsed  time.Duration // between its beginning and the last call

	// Incomplete says that calls are missing, so that there was no replay.
	Incomplete bool
	// Recorded and Digest are SHA-256 digests of all that the recorded core and
	// the replayed one have answered, up to the first divergence.
	Recorded, Digest [sha256.Size]byte
	// Divergence is the first call to which they gave different answers; nil: none.
	Divergence *Divergence
}

// Same reports whether the replay gave all the recorded answers.
func (r *Replayed) Same() bool { return !r.Incomplete && r.Divergence == nil }

// A Divergence is where a replay departs from what was recorded.
type Divergence struct {
	Offset             int64         // of the record in the capture, in bytes
	Call               int           // number of the call of this connection, from 1
	At                 time.Duration // since the beginning of the connection
	Kind               Kind
	Recorded, Replayed string // the first answer that differs
}

func (d *Divergence) String() string {
	return fmt.Sprintf("call %d (%v) after %v, at byte %d: recorded %s; replayed %s",
		d.Call, d.Kind, d.At, d.Offset, d.Recorded, d.Replayed)
}

// Same reports whether all connections were replayed with the recorded answers,
// and there were any.
func (r *Report) Same() bool {
	return len(r.Connections) > 0 && !slices.ContainsFunc(r.Connections, func(c *Replayed) bool { return !c.Same() })
}

// String describes the report, a line for each connection.
func (r *Report) String() string {
	var b strings.Builder
	for _, c := range r.Connections {
		fmt.Fprintf(&b, "connection %d, %s, %s to %s: %d calls in %v", c.ID, c.Info.Protocol,
			c.Info.Local, c.Info.Remote, c.Calls, c.Elapsed)
		switch {
		case c.Incomplete:
			b.WriteString(", its beginning is missing: not replayed\n")
		case c.Divergence != nil:
			fmt.Fprintf(&b, "\n  diverges at %v\n", c.Divergence)
		default:
			fmt.Fprintf(&b, ", the same, digest %x\n", c.Digest[:8])
		}
	}
	return b.String()
}

// A Core is a core of a protocol that is replayed, for implementations of
// protocols.
type Core interface {
	// Call makes the call that r tells of, and adds all that the core answers to
	// out. An error says that a capture cannot tell that; it ends the replay.
	Call(r *Record, out *Outputs) error
	// Memory returns how many bytes the core holds, about.
	Memory() int
}

// MaxMemory is how much memory the cores of one replay may hold at a time, in
// bytes, whatever the capture says.
const MaxMemory = 1 << 30

// Replay replays the connections of one protocol in a capture, for implementations
// of protocols: open makes a fresh core of an Info, whose error ends the replay, as
// does a *FormatError, and cores that hold more than memory bytes after a call. The
// Report is then of what came before.
func Replay(r io.Reader, protocol string, memory int, open func(*Info) (Core, error)) (*Report, error) {
	c, err := NewReader(r)
	if err != nil {
		return nil, err
	}
	p := &player{protocol: protocol, left: memory, open: open, report: &Report{Header: c.Header()}, cores: make(map[uint64]*playing)}
	p.out.omit = c.header.Omitted
	for {
		record, err := c.Next()
		if err == nil {
			err = p.play(record)
		}
		if err != nil {
			p.finish()
			p.report.End = c.End()
			if err == io.EOF {
				err = nil
			}
			return p.report, err
		}
	}
}

// A player replays a capture.
type player struct {
	protocol string
	left     int // bytes of memory that cores may take
	open     func(*Info) (Core, error)
	report   *Report
	cores    map[uint64]*playing
	out      Outputs
}

// A playing is a connection that is replayed.
type playing struct {
	*Replayed
	core               Core // nil if there is nothing to replay, or no more
	held               int  // bytes of memory, by the core
	recorded, replayed hash.Hash
}

func (p *player) play(r *Record) error {
	switch {
	case r.Conn.Info.Protocol != p.protocol:
		if r.Op == Opened || r.Op == Joined {
			p.report.Others++
		}
		return nil
	case r.Op == Opened, r.Op == Joined:
		return p.meet(r)
	}
	c := p.cores[r.Conn.ID]
	if r.Conn.Incomplete {
		c.Incomplete = true
		p.drop(c)
	}
	if r.Op == Closed {
		delete(p.cores, r.Conn.ID)
		p.drop(c)
		c.finish()
		return nil
	}
	c.Calls, c.Elapsed = r.Conn.Calls, r.At
	c.count(r)
	if c.core == nil {
		return nil
	}
	return p.call(c, r)
}

// meet begins to replay a connection.
func (p *player) meet(r *Record) error {
	c := &playing{Replayed: &Replayed{ID: r.Conn.ID, Info: r.Conn.Info, Incomplete: r.Op == Joined}}
	p.report.Connections = append(p.report.Connections, c.Replayed)
	p.cores[r.Conn.ID] = c
	if c.Incomplete {
		return nil
	}
	core, err := p.open(&c.Info)
	if err != nil {
		return &FormatError{r.Offset, err.Error(), err}
	}
	c.core, c.recorded, c.replayed = core, sha256.New(), sha256.New()
	return p.account(c, r)
}

// account refuses to hold more memory than the replay may.
func (p *player) account(c *playing, r *Record) error {
	held := c.core.Memory()
	p.left -= held - c.held
	c.held = held
	if p.left < 0 {
		return &FormatError{r.Offset, "more memory is needed than replays may take", nil}
	}
	return nil
}

// drop lets go of a core.
func (p *player) drop(c *playing) {
	p.left += c.held
	c.core, c.held = nil, 0
}

func (p *player) call(c *playing, r *Record) error {
	p.out.buf = p.out.buf[:0]
	if r.Kind == Aside {
		p.out.buf = append(p.out.buf, r.out...)
	} else if err := c.core.Call(r, &p.out); err != nil {
		return &FormatError{r.Offset, err.Error(), err}
	}
	digest(c.recorded, r.out)
	digest(c.replayed, p.out.buf)
	if bytes.Equal(r.out, p.out.buf) && len(r.answers) == 0 {
		return p.account(c, r)
	}
	d := &Divergence{Offset: r.Offset, Call: c.Calls, At: r.At, Kind: r.Kind}
	d.Recorded, d.Replayed = difference(r.out, p.out.buf)
	c.Divergence = d
	p.drop(c)
	return nil
}

func digest(h hash.Hash, b []byte) {
	var n [8]byte
	binary.LittleEndian.PutUint64(n[:], uint64(len(b)))
	h.Write(n[:])
	h.Write(b)
}

// count counts what a call tells of.
func (r *Replayed) count(record *Record) {
	if record.Kind == Receive {
		r.Received++
	}
	for o := range outputs(record.out) {
		switch o.what {
		case outDatagram:
			r.Sent++
		case outDelivered:
			r.Messages++
		}
	}
}

// finish sums up the connections that had not ended.
func (p *player) finish() {
	for _, c := range p.cores {
		c.finish()
	}
}

func (c *playing) finish() {
	if c.recorded != nil {
		c.recorded.Sum(c.Recorded[:0])
		c.replayed.Sum(c.Digest[:0])
	}
}
