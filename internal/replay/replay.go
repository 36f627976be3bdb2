// Package replay gives what was recorded of connections to fresh cores of their
// protocol, and compares the answers.
package replay

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"hash"
	"io"

	"volley/capture"
	"volley/internal/recording"
)

// A Core is a core of a protocol that is replayed.
type Core interface {
	// Call makes the call of a record, and adds the core's answers to out. An
	// error says that no core can be called so; it ends the replay.
	Call(r *recording.Record, out *recording.Outputs) error
	// Memory returns how many bytes the core holds, about.
	Memory() int
}

// MaxMemory is how much memory the cores of one replay may hold at a time, in
// bytes, whatever the capture says.
const MaxMemory = 1 << 30

var errMemory = errors.New("more memory is needed than replays may take")

// Replay replays one protocol's connections in a capture. Open makes the fresh core of each.
// Its error, a malformed record, or more than memory bytes in cores end the replay; the
// Report is of what came before.
func Replay(r io.Reader, protocol string, memory int, open func(*recording.Connection) (Core, error)) (*capture.Report, error) {
	c, err := recording.NewReader(r)
	if err != nil {
		return nil, public(err)
	}
	p := &player{protocol: protocol, left: memory, open: open, cores: make(map[uint64]*playing)}
	p.report = &capture.Report{Header: capture.Header(c.Header())}
	for err == nil {
		var record *recording.Record
		if record, err = c.Next(); err == nil {
			err = p.play(record)
		}
	}
	for _, c := range p.cores {
		c.finish() // those that had not ended
	}
	p.report.End = (*capture.End)(c.End())
	if err == io.EOF {
		return p.report, nil
	}
	return p.report, public(err)
}

// public returns an error as programs know it.
func public(err error) error {
	if e, ok := errors.AsType[*recording.FormatError](err); ok {
		return (*capture.FormatError)(e)
	}
	return err
}

// A player replays a capture.
type player struct {
	protocol string
	left     int // bytes of memory that cores may take
	open     func(*recording.Connection) (Core, error)
	report   *capture.Report
	cores    map[uint64]*playing
	out      recording.Outputs
}

// A playing is a connection that is replayed.
type playing struct {
	*capture.Replayed
	core               Core // nil if there is nothing to replay, or no more
	held               int  // bytes of memory, by the core
	recorded, replayed hash.Hash
}

func (p *player) play(r *recording.Record) error {
	switch {
	case r.Conn.Protocol != p.protocol:
		if r.Kind == recording.Opened || r.Kind == recording.Joined {
			p.report.Others++
		}
		return nil
	case r.Kind == recording.Opened, r.Kind == recording.Joined:
		return p.meet(r)
	}
	c := p.cores[r.Conn.ID]
	if r.Conn.Incomplete {
		c.Incomplete = true
		p.drop(c)
	}
	if r.Kind == recording.Closed {
		delete(p.cores, r.Conn.ID)
		p.drop(c)
		c.finish()
		return nil
	}
	c.Calls, c.Elapsed = r.Conn.Calls, r.At
	if r.Kind == recording.Receive {
		c.Received++
	}
	sent, delivered := recording.Count(r.Out)
	c.Sent, c.Messages = c.Sent+sent, c.Messages+delivered
	if c.core == nil {
		return nil
	}
	return p.call(c, r)
}

// meet begins to replay a connection.
func (p *player) meet(r *recording.Record) error {
	c := &playing{Replayed: &capture.Replayed{Connection: capture.Connection(*r.Conn)}}
	p.report.Connections = append(p.report.Connections, c.Replayed)
	p.cores[r.Conn.ID] = c
	if c.Incomplete {
		return nil
	}
	core, err := p.open(r.Conn)
	if err != nil {
		return wrong(r, err)
	}
	c.core, c.recorded, c.replayed = core, sha256.New(), sha256.New()
	return p.account(c, r)
}

// account refuses to hold more memory than the replay may.
func (p *player) account(c *playing, r *recording.Record) error {
	held := c.core.Memory()
	p.left -= held - c.held
	c.held = held
	if p.left < 0 {
		return wrong(r, errMemory)
	}
	return nil
}

// drop lets go of a core.
func (p *player) drop(c *playing) {
	p.left += c.held
	c.core, c.held = nil, 0
}

func (p *player) call(c *playing, r *recording.Record) error {
	replayed := r.Out
	if r.Kind != recording.Aside {
		p.out.Reset(p.report.Header.Omitted)
		if err := c.core.Call(r, &p.out); err != nil {
			return wrong(r, err)
		}
		replayed = p.out.Bytes()
	}
	digest(c.recorded, r.Out)
	digest(c.replayed, replayed)
	if bytes.Equal(r.Out, replayed) && r.Answered() {
		return p.account(c, r)
	}
	d := &capture.Divergence{Offset: r.Offset, Call: c.Calls, At: r.At, Kind: r.Kind.String()}
	d.Recorded, d.Replayed = recording.Difference(r.Out, replayed)
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

// wrong returns the error of a record that cannot be replayed.
func wrong(r *recording.Record, err error) error {
	return &capture.FormatError{Offset: r.Offset, Reason: err.Error(), Err: err}
}

func (c *playing) finish() {
	if c.recorded != nil {
		c.recorded.Sum(c.Recorded[:0])
		c.replayed.Sum(c.Digest[:0])
	}
}
