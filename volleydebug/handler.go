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
	// Allow, if not nil, is asked who may see the page, in place of the rule that
	// requests come from this machine. It should then check who asks: the page
	// shows the addresses of all peers.
	Allow func(*http.Request) bool
	// Interval is how often the connections are looked at while somebody watches,
	// for all who watch at once. Default 1 s, at least 100 ms. With so many
	// connections that a look takes more than a tenth of that, it is less often, so
	// that the page never takes more than a tenth of a processor.
	Interval time.Duration
	// MaxStreams limits how many watch at one time, and beside them how many JSON
	// answers are on their way; others get status 503. Default 16.
	MaxStreams int
	// MaxConns limits how many connections the page and its JSON show: of more,
	// those with the most loss, the longest round trip and the longest queue.
	// Default 10,000.
	MaxConns int
}

const (
	defaultInterval   = time.Second
	minInterval       = 100 * time.Millisecond
	defaultMaxStreams = 16
	defaultMaxConns   = 10_000
	// maxExplained is how many connections are explained with each look. Each
	// that is explained keeps some 1.5 KB.
	maxExplained = 2000
	// share is how many times as long as a look nothing is looked at after it.
	share = 10
)

// Handler returns the debug page with the defaults of [Config]: to requests from
// this machine, and no others, it shows the connections of this process, live. It
// serves at any path that ends in a slash, for instance
//
//	http.Handle("/debug/volley/", volleydebug.Handler())
//
// or as the only handler of a server. All Handlers share one look at the
// connections, which is taken while somebody watches.
//
// Beside the page there are, relative to that path,
//
//   - json: listeners and connections as a JSON object, see docs/observability.md,
//     and json?explain=ID for one connection, with what [Explain] says;
//   - events: the same as server-sent events, which are the page's own affair and
//     may change.
func Handler() http.Handler { return defaultHandler() }

var defaultHandler = sync.OnceValue(func() http.Handler { return (&Config{}).Handler() })

// Handler returns the debug page, as the function [Handler] does, with options.
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

// contentPolicy has the browser load and run nothing but the page's own files.
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
