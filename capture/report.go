package capture

import (
	"crypto/sha256"
	"fmt"
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

// Replayed tells how one connection was replayed. One that is Incomplete was not.
type Replayed struct {
	Connection
	Messages int // delivered by the core
	Sent     int // datagrams of the core
	Received int // datagrams

	// Recorded and Digest are SHA-256 digests of all answers of the recorded core
	// and the replayed one, up to the first divergence.
	Recorded, Digest [sha256.Size]byte
	// Divergence is the first call to which they gave different answers; nil: none.
	Divergence *Divergence
}

// Same reports whether the replay gave all the recorded answers.
func (r *Replayed) Same() bool { return !r.Incomplete && r.Divergence == nil }

// A Divergence is the first call whose answers in a replay are not those recorded.
type Divergence struct {
	Offset             int64         // of the record in the capture, in bytes
	Call               int           // number of the call of this connection, from 1
	At                 time.Duration // since the beginning of the connection
	Kind               string        // of the call, such as "receive"
	Recorded, Replayed string        // the first answer that differs
}

func (d *Divergence) String() string {
	return fmt.Sprintf("call %d (%s) after %v, at byte %d: recorded %s; replayed %s",
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
		fmt.Fprintf(&b, "connection %d, %s, %s to %s: %d calls in %v", c.ID, c.Protocol, c.Local, c.Remote, c.Calls, c.Elapsed)
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
