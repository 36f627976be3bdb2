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
	b := appendFields([]byte("{"), "time", stamp(f.state.Time), "program", program(), "pid", os.Getpid(), "total", f.total)
	b = appendList(f.appendListeners(f.appendNodes(b)), "conns", len(f.state.Conns), func(b []byte, i int) []byte {
		return appendConn(b, &f.state.Conns[i], f.row(i))
	})
	return append(f.appendEnds(b), "}\n"...)
}

// appendConn appends a connection, with those figures that are known.
func appendConn(b []byte, c *Conn, values []float64) []byte {
	b = appendIdentity(append(b, '{'), c)
	for k, v := range values {
		if v == v {
			b = appendNumber(appendName(b, columns[k].name), v)
		}
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
	b := appendFields([]byte("{"), "time", stamp(f.state.Time), "conns", f.total)
	b = append(appendName(f.appendListeners(b), "protocols"), '{')
	for _, s := range summaries(f) {
		b = appendFields(append(appendName(b, s.protocol), '{'), "conns", s.conns)
		for k := range columns {
			if columns[k].sums() {
				b = appendNumber(appendName(b, columns[k].name), s.sums[k])
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
