package volleydebug

import (
	"cmp"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"
	"weak"
)

// A hub looks at the connections for all watchers, within its share of a processor.
// It has no goroutine: a watcher asks for the latest frame.
type hub struct {
	interval             time.Duration
	maxStreams, maxConns int

	mu      sync.Mutex
	last    *frame // nil if nobody has looked for a while
	seq     uint64
	forget  *time.Timer // of last
	explain time.Time   // before which no single connection is explained
	streams int
	answers int                                         // of JSON, that are being written
	ending  map[weak.Pointer[http.Server]]chan struct{} // closed when the server shuts down
}

func newHub(cfg Config) *hub {
	h := &hub{
		interval:   max(minInterval, cmp.Or(max(0, cfg.Interval), defaultInterval)),
		maxStreams: cmp.Or(max(0, cfg.MaxStreams), defaultMaxStreams),
		maxConns:   cmp.Or(max(0, cfg.MaxConns), defaultMaxConns),
		ending:     make(map[weak.Pointer[http.Server]]chan struct{}),
	}
	return h
}

// latest returns a frame that is not older than the present interval.
func (h *hub) latest() *frame {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.last != nil && time.Until(h.last.next) > 0 {
		return h.last
	}
	begin := time.Now()
	s, explained := snapshot(maxExplained)
	total := len(s.Conns)
	s.Conns = worst(s.Conns, h.maxConns)
	h.seq++
	f := newFrame(h.seq, s, total, explained, h.last)
	took := time.Since(begin)
	pause := max(h.interval, share*took)
	f.next = begin.Add(pause)
	h.last = f
	if h.forget == nil {
		h.forget = time.AfterFunc(2*pause, h.drop)
	} else {
		h.forget.Reset(2 * pause)
	}
	return f
}

// drop forgets the last frame if it was not asked for again.
func (h *hub) drop() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.last != nil && time.Since(h.last.next) >= 0 {
		h.last = nil
	}
}

// worst returns the n connections that are worst off.
func worst(cs []Conn, n int) []Conn {
	if len(cs) <= n {
		return cs
	}
	slices.SortFunc(cs, func(a, b Conn) int {
		return cmp.Or(cmp.Compare(b.Loss, a.Loss), cmp.Compare(b.RTT, a.RTT),
			cmp.Compare(b.ReadQueue+b.SendQueue, a.ReadQueue+a.SendQueue), cmp.Compare(a.ID, b.ID))
	})
	return slices.Clone(cs[:n]) // the rest may be large
}

// mayExplain reports whether to look for a single connection now, among all.
func (h *hub) mayExplain() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	if now.Before(h.explain) {
		return false
	}
	h.explain = now.Add(minInterval)
	return true
}

// enter counts a stream or an answer in n, or tells the client that there is no room.
func (h *hub) enter(n *int, w http.ResponseWriter) bool {
	h.mu.Lock()
	full := *n >= h.maxStreams
	if !full {
		*n++
	}
	h.mu.Unlock()
	if full {
		w.Header().Set("Retry-After", "5")
		http.Error(w, "volleydebug: as many as Config.MaxStreams are watching", http.StatusServiceUnavailable)
	}
	return !full
}

func (h *hub) leave(n *int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	*n--
}

// ended returns a channel that closes when the request's server shuts down.
func (h *hub) ended(r *http.Request) <-chan struct{} {
	srv, ok := r.Context().Value(http.ServerContextKey).(*http.Server)
	if !ok {
		return nil
	}
	key := weak.Make(srv)
	h.mu.Lock()
	defer h.mu.Unlock()
	end, known := h.ending[key]
	if !known {
		maps.DeleteFunc(h.ending, func(k weak.Pointer[http.Server], _ chan struct{}) bool { return k.Value() == nil })
		end = make(chan struct{})
		h.ending[key] = end
		srv.RegisterOnShutdown(sync.OnceFunc(func() { close(end) }))
	}
	return end
}

// writeTimeout is how long a frame of a stream, or a piece of an answer, may take.
const writeTimeout = 10 * time.Second

func extend(rc *http.ResponseController) { rc.SetWriteDeadline(time.Now().Add(writeTimeout)) }

// serveEvents sends the first frame whole, and the changes of later ones.
func (h *hub) serveEvents(w http.ResponseWriter, r *http.Request) {
	if !h.enter(&h.streams, w) {
		return
	}
	defer h.leave(&h.streams)
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no")
	if r.Method == http.MethodHead {
		return
	}
	rc := http.NewResponseController(w)
	ended := h.ended(r)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for seq := uint64(0); ; {
		select {
		case <-timer.C:
		case <-ended:
			return
		case <-r.Context().Done():
			return
		}
		f := h.latest()
		next := f.next // so that a slow client keeps no frame
		if f.seq != seq {
			data := f.since(seq)
			seq = f.seq
			extend(rc)
			if !writeEvent(w, data) || rc.Flush() != nil {
				return
			}
		}
		timer.Reset(time.Until(next))
	}
}

func writeEvent(w http.ResponseWriter, data []byte) bool {
	for _, part := range [][]byte{[]byte("data: "), data, []byte("\n\n")} {
		if _, err := w.Write(part); err != nil {
			return false
		}
	}
	return true
}
