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

func (f *frame) appendHead(b []byte) []byte {
	b = append(b, `{"t":`...)
	b = strconv.AppendInt(b, f.state.Time.UnixMilli(), 10)
	b = append(b, `,"total":`...)
	b = strconv.AppendInt(b, int64(f.total), 10)
	b = append(b, `,"explained":`...)
	b = strconv.AppendBool(b, f.explained)
	b = f.appendNodes(append(b, `,"nodes":`...))
	return append(b, `,"listeners":`...)
}

// appendFull returns an event with everything in it.
func (f *frame) appendFull() []byte {
	b := f.appendEnds(append(f.appendListeners(f.appendHead(nil)), `,"ended":`...))
	b = append(b, `,"full":true,"program":`...)
	b = appendString(b, program())
	b = append(b, `,"pid":`...)
	b = strconv.AppendInt(b, int64(os.Getpid()), 10)
	b = append(b, `,"columns":[`...)
	for i := range columns {
		b = appendString(comma(b, i), columns[i].name)
	}
	b = append(b, `],"new":[`...)
	for i := range f.state.Conns {
		b = f.appendNew(comma(b, i), i)
	}
	return append(b, "]}"...)
}

// appendDelta returns an event with what has changed.
func (f *frame) appendDelta(before *frame) []byte {
	b := f.appendListeners(f.appendHead(nil))
	if !slices.Equal(f.state.Ends, before.state.Ends) {
		b = f.appendEnds(append(b, `,"ended":`...))
	}
	b = append(b, `,"new":[`...)
	n := 0
	for i := range f.state.Conns {
		if _, known := before.index[f.state.Conns[i].ID]; !known {
			b = f.appendNew(comma(b, n), i)
			n++
		}
	}
	b, n = append(b, `],"gone":[`...), 0
	for i := range before.state.Conns {
		if id := before.state.Conns[i].ID; !f.has(id) {
			b = strconv.AppendUint(comma(b, n), id, 10)
			n++
		}
	}
	b, n = append(b, `],"d":[`...), 0
	for i := range f.state.Conns {
		if j, known := before.index[f.state.Conns[i].ID]; known {
			if mark := len(b); f.changed(i, before, j) {
				b = f.appendChange(comma(b, n), i, before, j)
				n++
			} else {
				b = b[:mark]
			}
		}
	}
	b, n = append(b, `],"x":[`...), 0
	for i := range f.state.Conns {
		c := &f.state.Conns[i]
		j, known := before.index[c.ID]
		if known && (c.Explain != before.state.Conns[j].Explain || c.OK != before.state.Conns[j].OK) {
			b = append(comma(b, n), '[')
			b = strconv.AppendUint(b, c.ID, 10)
			b = strconv.AppendBool(append(b, ','), c.OK)
			b = appendString(append(b, ','), c.Explain)
			b = append(b, ']')
			n++
		}
	}
	return append(b, "]}"...)
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
	c := &f.state.Conns[i]
	b = append(b, '{')
	b = appendIdentity(b, c)
	b = append(b, `,"v":[`...)
	for k, v := range f.row(i) {
		b = appendNumber(comma(b, k), v)
	}
	return append(b, "]}"...)
}

// appendIdentity appends the fields of a connection that are not figures.
func appendIdentity(b []byte, c *Conn) []byte {
	b = append(b, `"id":`...)
	b = strconv.AppendUint(b, c.ID, 10)
	b = append(b, `,"listener":`...)
	b = strconv.AppendUint(b, c.Listener, 10)
	b = appendTexts(b, [][2]string{
		{"protocol", c.Protocol}, {"over", c.Over}, {"role", c.Role}, {"label", c.Label}, {"network", c.Network()},
		{"local", address(c.Local)}, {"remote", address(c.Remote)}, {"unit", c.Unit}, {"explain", c.Explain},
	})
	b = append(b, `,"ok":`...)
	b = strconv.AppendBool(b, c.OK)
	b = append(b, `,"born":`...)
	return appendString(b, stamp(c.Born))
}

func (f *frame) appendListeners(b []byte) []byte {
	b = append(b, '[')
	for i := range f.state.Listeners {
		l := &f.state.Listeners[i]
		b = append(comma(b, i), `{"id":`...)
		b = strconv.AppendUint(b, l.ID, 10)
		b = appendTexts(b, [][2]string{{"protocol", l.Protocol}, {"kind", l.Kind}, {"addr", address(l.Addr)}, {"born", stamp(l.Born)}})
		b = appendCounts(b, []count{
			{"conns", uint64(l.Conns)}, {"memory_bytes", uint64(l.Memory)}, {"max_memory_bytes", uint64(l.MaxMemory)},
			{"accepted", l.Accepted}, {"refused", l.Refused}, {"filtered", l.Filtered}, {"unknown", l.Unknown}, {"invalid", l.Invalid},
			{"read_errors", l.ReadErrors}, {"write_errors", l.WriteErrors}, {"socket_drops", l.SocketDrops},
			{"read_calls", l.ReadCalls}, {"send_calls", l.SendCalls},
			{"socket_read_buffer_bytes", uint64(l.SocketReadBuffer)}, {"socket_write_buffer_bytes", uint64(l.SocketWriteBuffer)},
		})
		b = append(b, '}')
	}
	return append(b, ']')
}

func (f *frame) appendNodes(b []byte) []byte {
	b = append(b, '[')
	for i := range f.state.Nodes {
		n := &f.state.Nodes[i]
		b = append(comma(b, i), `{"name":`...)
		b = appendString(b, n.Name)
		b = appendStanding(b, n.Sessions, n.Load, n.Drains)
		b = appendCounts(b, []count{
			{"spared", uint64(n.Spared)}, {"came", n.Came}, {"left", n.Left}, {"yielded", n.Yielded},
			{"given", n.Given}, {"sealed", n.Sealed}, {"refused", n.Refused}, {"bad", n.Bad}, {"missed", n.Missed},
		})
		b = append(b, `,"peers":[`...)
		for k, p := range n.Peers {
			b = append(comma(b, k), `{"name":`...)
			b = appendString(b, p.Name)
			b = appendStanding(b, p.Sessions, p.Load, p.Drains)
			b = strconv.AppendBool(append(b, `,"alive":`...), p.Alive)
			b = appendNumber(append(b, `,"heard_ms":`...), math.Round(millis(p.Heard)))
			b = append(b, '}')
		}
		b = append(b, "]}"...)
	}
	return append(b, ']')
}

// appendStanding appends what nodes and their peers have in common. A load without end is null.
func appendStanding(b []byte, sessions int, load float64, drains bool) []byte {
	b = strconv.AppendInt(append(b, `,"sessions":`...), int64(sessions), 10)
	b = appendNumber(append(b, `,"load":`...), load)
	return strconv.AppendBool(append(b, `,"drains":`...), drains)
}

// A count is a field of an object with a whole number.
type count struct {
	name  string
	value uint64
}

// appendCounts appends fields to an object that has some.
func appendCounts(b []byte, counts []count) []byte {
	for _, n := range counts {
		b = append(append(append(b, `,"`...), n.name...), `":`...)
		b = strconv.AppendUint(b, n.value, 10)
	}
	return b
}

func (f *frame) appendEnds(b []byte) []byte {
	b = append(b, '[')
	for i := range f.state.Ends {
		e := &f.state.Ends[i]
		b = append(comma(b, i), `{"id":`...)
		b = strconv.AppendUint(b, e.ID, 10)
		b = append(b, `,"listener":`...)
		b = strconv.AppendUint(b, e.Listener, 10)
		b = appendTexts(b, [][2]string{
			{"protocol", e.Protocol}, {"over", e.Over}, {"role", e.Role}, {"label", e.Label}, {"remote", e.Remote},
			{"born", stamp(e.Born)}, {"ended", stamp(e.Time)}, {"reason", e.Reason},
		})
		b = append(b, '}')
	}
	return append(b, ']')
}

// appendTexts appends fields to an object that has some.
func appendTexts(b []byte, fields [][2]string) []byte {
	for _, f := range fields {
		b = append(append(append(b, `,"`...), f[0]...), `":`...)
		b = appendString(b, f[1])
	}
	return b
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// comma appends a comma before all elements of a list but the first.
func comma(b []byte, n int) []byte {
	if n > 0 {
		b = append(b, ',')
	}
	return b
}

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
