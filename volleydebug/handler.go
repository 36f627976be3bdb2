package volleydebug

import (
	"embed"
	"fmt"
	"net/http"
	"path"
	"sync"
	"time"
)

// A Config has options for the debug page. The zero value is that of the function
// [Handler].
type Config struct {
	// Allow decides which requests may see the page, which shows the addresses of
	// all peers. Nil: requests from this machine.
	Allow func(*http.Request) bool
	// Interval is how often to look at the connections while the page is watched.
	// All watchers share a look. Default 1 s, at least 100 ms. It becomes longer if
	// looks would take more than a tenth of a processor.
	Interval time.Duration
	// MaxStreams limits the watchers at a time, and separately the JSON answers
	// under way; others get status 503. Default 16.
	MaxStreams int
	// MaxConns limits how many connections the page and its JSON show: those with
	// the most loss, the longest round trip and the longest queue. Default 10,000.
	MaxConns int
}

const (
	defaultInterval   = time.Second
	minInterval       = 100 * time.Millisecond
	defaultMaxStreams = 16
	defaultMaxConns   = 10_000
	// maxExplained is how many connections a look explains, at about 1.5 KB each.
	maxExplained = 2000
	// share is the least ratio of the interval to the time of a look.
	share = 10
)

// Handler returns the debug page with the defaults of [Config]. It serves at any
// path that ends in a slash, for instance
//
//	http.Handle("/debug/volley/", volleydebug.Handler())
//
// or as the only handler of a server. Relative to that path there are also
//
//   - json: listeners and connections as a JSON object, see docs/observability.md;
//   - json?explain=ID: one connection, as [Explain] returns it;
//   - events: server-sent events for the page, which may change.
func Handler() http.Handler { return defaultHandler() }

var defaultHandler = sync.OnceValue(func() http.Handler { return (&Config{}).Handler() })

// Handler is the function [Handler] with options.
func (c *Config) Handler() http.Handler {
	cfg := *c
	return &handler{allow: cfg.Allow, hub: newHub(cfg)}
}

// A handler serves the page.
type handler struct {
	allow func(*http.Request) bool
	hub   *hub
}

//go:embed page
var files embed.FS

// assets are the files of the page by their name in its path.
var assets = map[string]struct{ file, kind string }{
	"":              {"index.html", "text/html; charset=utf-8"},
	"app.js":        {"app.js", "text/javascript; charset=utf-8"},
	"table.js":      {"table.js", "text/javascript; charset=utf-8"},
	"charts.js":     {"charts.js", "text/javascript; charset=utf-8"},
	"app.css":       {"app.css", "text/css; charset=utf-8"},
	"uplot.js":      {"uplot.js", "text/javascript; charset=utf-8"},
	"uplot.css":     {"uplot.css", "text/css; charset=utf-8"},
	"uplot.LICENSE": {"uplot.LICENSE", "text/plain; charset=utf-8"},
}

// contentPolicy restricts the browser to the page's own files.
const contentPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// ServeHTTP implements http.Handler.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	extend(http.NewResponseController(w))
	head := w.Header()
	head.Set("Content-Security-Policy", contentPolicy)
	head.Set("X-Content-Type-Options", "nosniff")
	head.Set("X-Frame-Options", "DENY")
	head.Set("Referrer-Policy", "no-referrer")
	head.Set("Cross-Origin-Resource-Policy", "same-origin")
	head.Set("Cross-Origin-Opener-Policy", "same-origin")
	head.Set("Cache-Control", "no-store")
	if reason := h.refuses(r); reason != "" {
		http.Error(w, "volleydebug: "+reason, http.StatusForbidden)
		return
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		head.Set("Allow", "GET, HEAD")
		http.Error(w, "volleydebug: only GET", http.StatusMethodNotAllowed)
		return
	}
	_, name := path.Split(r.URL.Path)
	switch name {
	case "json":
		h.serveJSON(w, r)
	case "events":
		h.hub.serveEvents(w, r)
	default:
		a, ok := assets[name]
		if !ok {
			http.NotFound(w, r)
			return
		}
		b, err := files.ReadFile("page/" + a.file)
		if err != nil {
			panic(fmt.Sprintf("BUG: %v", err))
		}
		head.Set("Content-Type", a.kind)
		w.Write(b)
	}
}
