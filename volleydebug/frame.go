package volleydebug

import (
	"encoding/json"
	"math"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"
)

// A frame is the result of one look, and its encodings.
type frame struct {
	seq       uint64
	next      time.Time // of the next one
	state     State     // its Conns are those that are shown
	total     int       // of all connections
	explained bool      // as far as protocols do
	values    []float64 // of the columns, of one connection after the other
	index     map[uint64]int

	delta []byte        // what has changed since the frame before
	full  func() []byte // everything; made once
	json  func() []byte
}

func newFrame(seq uint64, s State, total int, explained bool, before *frame) *frame {
	f := &frame{seq: seq, state: s, total: total, explained: explained, index: make(map[uint64]int, len(s.Conns))}
	f.values = make([]float64, 0, len(s.Conns)*len(columns))
	for i := range s.Conns {
		f.values = figures(f.values, &s.Conns[i])
		f.index[s.Conns[i].ID] = i
	}
	f.full = sync.OnceValue(f.appendFull)
	f.json = sync.OnceValue(f.appendJSON)
	if before != nil {
		f.delta = f.appendDelta(before)
	}
	return f
}

// since returns what a client needs that knows the frame with a number, 0 for none.
func (f *frame) since(seq uint64) []byte {
	if seq == 0 || f.seq != seq+1 || f.delta == nil {
		return f.full()
	}
	return f.delta
}

func (f *frame) row(i int) []float64 { return f.values[i*len(columns) : (i+1)*len(columns)] }

func (f *frame) appendHead() []byte {
	b := appendFields([]byte("{"), "t", f.state.Time.UnixMilli(), "total", f.total, "explained", f.explained)
	return f.appendListeners(f.appendNodes(b))
}

// appendFull returns an event with everything in it.
func (f *frame) appendFull() []byte {
	b := f.appendEnds(f.appendHead())
	b = appendFields(b, "full", true, "program", program(), "pid", os.Getpid())
	b = appendList(b, "columns", len(columns), func(b []byte, i int) []byte { return appendString(b, columns[i].name) })
	return append(appendList(b, "new", len(f.state.Conns), f.appendNew), '}')
}

// appendDelta returns an event with what has changed.
func (f *frame) appendDelta(before *frame) []byte {
	b := f.appendHead()
	if !slices.Equal(f.state.Ends, before.state.Ends) {
		b = f.appendEnds(b)
	}
	conns, old := f.state.Conns, before.state.Conns
	b = appendList(b, "new", len(conns), func(b []byte, i int) []byte {
		if before.has(conns[i].ID) {
			return b
		}
		return f.appendNew(b, i)
	})
	b = appendList(b, "gone", len(old), func(b []byte, i int) []byte {
		if f.has(old[i].ID) {
			return b
		}
		return strconv.AppendUint(b, old[i].ID, 10)
	})
	b = appendList(b, "d", len(conns), func(b []byte, i int) []byte {
		if j, known := before.index[conns[i].ID]; known && f.changed(i, before, j) {
			return f.appendChange(b, i, before, j)
		}
		return b
	})
	b = appendList(b, "x", len(conns), func(b []byte, i int) []byte {
		c := &conns[i]
		j, known := before.index[c.ID]
		if !known || c.Explain == old[j].Explain && c.OK == old[j].OK {
			return b
		}
		b = strconv.AppendUint(append(b, '['), c.ID, 10)
		b = strconv.AppendBool(append(b, ','), c.OK)
		return append(appendString(append(b, ','), c.Explain), ']')
	})
	return append(b, '}')
}

func (f *frame) has(id uint64) bool {
	_, ok := f.index[id]
	return ok
}

func (f *frame) changed(i int, before *frame, j int) bool {
	old := before.row(j)
	for k, v := range f.row(i) {
		if differ(v, old[k]) {
			return true
		}
	}
	return false
}

// differ reports whether two figures differ; NaN equals NaN.
func differ(a, b float64) bool { return a != b && (a == a || b == b) }

// appendChange appends the ID, and the column and value of each changed figure.
func (f *frame) appendChange(b []byte, i int, before *frame, j int) []byte {
	b = strconv.AppendUint(append(b, '['), f.state.Conns[i].ID, 10)
	old := before.row(j)
	for k, v := range f.row(i) {
		if differ(v, old[k]) {
			b = strconv.AppendInt(append(b, ','), int64(k), 10)
			b = appendNumber(append(b, ','), v)
		}
	}
	return append(b, ']')
}

func (f *frame) appendNew(b []byte, i int) []byte {
	row := f.row(i)
	b = appendIdentity(append(b, '{'), &f.state.Conns[i])
	return append(appendList(b, "v", len(row), func(b []byte, k int) []byte { return appendNumber(b, row[k]) }), '}')
}

// appendIdentity appends the fields of a connection that are not figures.
func appendIdentity(b []byte, c *Conn) []byte {
	return appendFields(b,
		"id", c.ID, "listener", c.Listener, "protocol", c.Protocol, "over", c.Over, "role", c.Role, "label", c.Label,
		"network", c.Network(), "local", address(c.Local), "remote", address(c.Remote), "unit", c.Unit,
		"explain", c.Explain, "ok", c.OK, "born", stamp(c.Born))
}

func (f *frame) appendListeners(b []byte) []byte {
	return appendList(b, "listeners", len(f.state.Listeners), func(b []byte, i int) []byte {
		l := &f.state.Listeners[i]
		return append(appendFields(append(b, '{'),
			"id", l.ID, "protocol", l.Protocol, "kind", l.Kind, "addr", address(l.Addr), "born", stamp(l.Born),
			"conns", l.Conns, "memory_bytes", l.Memory, "max_memory_bytes", l.MaxMemory,
			"accepted", l.Accepted, "refused", l.Refused, "filtered", l.Filtered, "unknown", l.Unknown, "invalid", l.Invalid,
			"read_errors", l.ReadErrors, "write_errors", l.WriteErrors, "socket_drops", l.SocketDrops,
			"read_calls", l.ReadCalls, "send_calls", l.SendCalls,
			"socket_read_buffer_bytes", l.SocketReadBuffer, "socket_write_buffer_bytes", l.SocketWriteBuffer), '}')
	})
}

// appendNodes appends the nodes of fleets. A load without end is null.
func (f *frame) appendNodes(b []byte) []byte {
	return appendList(b, "nodes", len(f.state.Nodes), func(b []byte, i int) []byte {
		n := &f.state.Nodes[i]
		b = appendFields(append(b, '{'),
			"name", n.Name, "sessions", n.Sessions, "load", n.Load, "drains", n.Drains,
			"spared", n.Spared, "came", n.Came, "left", n.Left, "yielded", n.Yielded,
			"given", n.Given, "sealed", n.Sealed, "refused", n.Refused, "bad", n.Bad, "missed", n.Missed)
		return append(appendList(b, "peers", len(n.Peers), func(b []byte, k int) []byte {
			p := &n.Peers[k]
			return append(appendFields(append(b, '{'),
				"name", p.Name, "sessions", p.Sessions, "load", p.Load, "drains", p.Drains,
				"alive", p.Alive, "heard_ms", math.Round(millis(p.Heard))), '}')
		}), '}')
	})
}

func (f *frame) appendEnds(b []byte) []byte {
	return appendList(b, "ended", len(f.state.Ends), func(b []byte, i int) []byte {
		e := &f.state.Ends[i]
		return append(appendFields(append(b, '{'),
			"id", e.ID, "listener", e.Listener, "protocol", e.Protocol, "over", e.Over, "role", e.Role, "label", e.Label,
			"remote", e.Remote, "born", stamp(e.Born), "ended", stamp(e.Time), "reason", e.Reason), '}')
	})
}

// appendName appends the name of a field to an object.
func appendName(b []byte, name string) []byte {
	if b[len(b)-1] != '{' {
		b = append(b, ',')
	}
	return append(append(append(b, '"'), name...), `":`...)
}

// appendFields appends fields to an object: names, each with its value.
func appendFields(b []byte, fields ...any) []byte {
	for i := 0; i < len(fields); i += 2 {
		b = appendName(b, fields[i].(string))
		if v, ok := fields[i+1].(float64); ok {
			b = appendNumber(b, v)
			continue
		}
		j, _ := json.Marshal(fields[i+1])
		b = append(b, j...)
	}
	return b
}

// appendList appends a field to an object: what element appends for 0 to n-1, which may be
// nothing.
func appendList(b []byte, name string, n int, element func(b []byte, i int) []byte) []byte {
	b = append(appendName(b, name), '[')
	first := len(b)
	for i := range n {
		mark := len(b)
		if mark > first {
			b = append(b, ',')
		}
		begin := len(b)
		if b = element(b, i); len(b) == begin {
			b = b[:mark]
		}
	}
	return append(b, ']')
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

func appendString(b []byte, s string) []byte {
	j, _ := json.Marshal(s)
	return append(b, j...)
}

func address(a net.Addr) string {
	if a == nil {
		return ""
	}
	return a.String()
}

func program() string { return filepath.Base(os.Args[0]) }
