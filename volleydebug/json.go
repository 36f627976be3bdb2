package volleydebug

import (
	"math"
	"net/http"
	"os"
	"strconv"
	"sync"

	"volley/internal/registry"
)

// serveJSON answers with everything, or with one connection.
func (h *handler) serveJSON(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query().Get("explain")
	if q == "" {
		h.hub.serveAll(w)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	id, err := strconv.ParseUint(q, 10, 64)
	if err != nil {
		http.Error(w, "volleydebug: explain takes the id of a connection", http.StatusBadRequest)
		return
	}
	if !h.hub.mayExplain() {
		w.Header().Set("Retry-After", "1")
		http.Error(w, "volleydebug: too many requests", http.StatusTooManyRequests)
		return
	}
	c, ok := Explain(id)
	if !ok {
		http.Error(w, "volleydebug: there is no such connection", http.StatusNotFound)
		return
	}
	w.Write(append(appendConn(nil, &c, figures(nil, &c)), '\n'))
}

// serveAll answers with everything, which may be megabytes, within limits.
func (h *hub) serveAll(w http.ResponseWriter) {
	if !h.enter(&h.answers, w) {
		return
	}
	defer h.leave(&h.answers)
	w.Header().Set("Content-Type", "application/json")
	rc := http.NewResponseController(w)
	const piece = 64 << 10
	for b := h.latest().json(); len(b) > 0; {
		n := min(len(b), piece)
		extend(rc)
		if _, err := w.Write(b[:n]); err != nil {
			return
		}
		b = b[n:]
	}
}

// appendJSON returns the frame as the object that docs/observability.md describes.
func (f *frame) appendJSON() []byte {
	b := append([]byte(nil), `{"time":`...)
	b = appendString(b, stamp(f.state.Time))
	b = append(b, `,"program":`...)
	b = appendString(b, program())
	b = append(b, `,"pid":`...)
	b = strconv.AppendInt(b, int64(os.Getpid()), 10)
	b = append(b, `,"total":`...)
	b = strconv.AppendInt(b, int64(f.total), 10)
	b = f.appendNodes(append(b, `,"nodes":`...))
	b = f.appendListeners(append(b, `,"listeners":`...))
	b = append(b, `,"conns":[`...)
	for i := range f.state.Conns {
		b = appendConn(comma(b, i), &f.state.Conns[i], f.row(i))
	}
	return append(f.appendEnds(append(b, `],"ended":`...)), "}\n"...)
}

// appendConn appends a connection, with those figures that are known.
func appendConn(b []byte, c *Conn, values []float64) []byte {
	b = append(b, '{')
	b = appendIdentity(b, c)
	for k, v := range values {
		if v != v {
			continue
		}
		b = append(append(append(b, `,"`...), columns[k].name...), `":`...)
		b = appendNumber(b, v)
	}
	return append(b, '}')
}

// A Variable is an expvar.Var with the listeners, and the number of connections and
// sums of their figures by protocol. This package does not import expvar, which
// adds a page to http.DefaultServeMux:
//
//	expvar.Publish("volley", volleydebug.Variable{})
type Variable struct{}

// summed is the hub of Variables, which look at all connections.
var summed = sync.OnceValue(func() *hub { return newHub(Config{MaxConns: math.MaxInt}) })

// String returns the summary as JSON. It looks at most once a second.
func (Variable) String() string {
	f := summed().latest()
	b := append([]byte(nil), `{"time":`...)
	b = appendString(b, stamp(f.state.Time))
	b = append(b, `,"conns":`...)
	b = strconv.AppendInt(b, int64(f.total), 10)
	b = f.appendListeners(append(b, `,"listeners":`...))
	b = append(b, `,"protocols":{`...)
	for i, s := range summaries(f) {
		b = appendString(comma(b, i), s.protocol)
		b = append(b, `:{"conns":`...)
		b = strconv.AppendInt(b, int64(s.conns), 10)
		for k := range columns {
			if columns[k].sums() {
				b = append(append(append(b, `,"`...), columns[k].name...), `":`...)
				b = appendNumber(b, s.sums[k])
			}
		}
		b = append(b, '}')
	}
	return string(append(b, "}}"...))
}

// A summary sums up the connections of a protocol.
type summary struct {
	protocol string
	conns    int
	sums     []float64
}

func summaries(f *frame) (all []summary) {
	places := make(map[string]int)
	for i := range f.state.Conns {
		p := f.state.Conns[i].Protocol
		at, known := places[p]
		if !known {
			at = len(all)
			places[p] = at
			all = append(all, summary{protocol: p, sums: make([]float64, len(columns))})
		}
		s := &all[at]
		s.conns++
		for k, v := range f.row(i) {
			if v == v {
				s.sums[k] += v
			}
		}
	}
	return all
}

// sums reports whether a column of several connections can be added up.
func (c *column) sums() bool {
	return c.known&(registry.RTT|registry.Jitter|registry.Loss|registry.Window) == 0
}
