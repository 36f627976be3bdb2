package volleydebug_test

import (
	"bufio"
	"context"
	"encoding/json"
	"expvar"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"volley"
	"volley/volleydebug"
)

// get asks a handler as a browser on this machine does, but for what edit changes.
func get(h http.Handler, path string, edit func(*http.Request)) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, "http://localhost:6060"+path, nil)
	r.RemoteAddr = "127.0.0.1:50000"
	if edit != nil {
		edit(r)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// Only requests from this machine, for this machine, and of the page's own making
// are answered.
func TestHandlerAccess(t *testing.T) {
	header := func(key, value string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set(key, value) }
	}
	from := func(addr string) func(*http.Request) { return func(r *http.Request) { r.RemoteAddr = addr } }
	host := func(name string) func(*http.Request) { return func(r *http.Request) { r.Host = name } }
	for name, test := range map[string]struct {
		edit   func(*http.Request)
		status int
	}{
		"plain":             {nil, 200},
		"IPv6":              {from("[::1]:50000"), 200},
		"mapped":            {from("[::ffff:127.0.0.1]:50000"), 200},
		"by number":         {host("127.0.0.1:6060"), 200},
		"by IPv6":           {host("[::1]:6060"), 200},
		"by IPv6, no port":  {host("[::1]"), 200},
		"any case":          {host("LocalHost"), 200},
		"head":              {func(r *http.Request) { r.Method = http.MethodHead }, 200},
		"own origin":        {header("Origin", "http://localhost:6060"), 200},
		"same origin":       {header("Sec-Fetch-Site", "same-origin"), 200},
		"from elsewhere":    {from("192.0.2.1:50000"), 403},
		"no address":        {from(""), 403},
		"rebound name":      {host("evil.example:6060"), 403},
		"name like ours":    {host("localhost.evil.example"), 403},
		"other address":     {host("192.0.2.1:6060"), 403},
		"no host":           {host(""), 403},
		"through a proxy":   {header("X-Forwarded-For", "192.0.2.1"), 403},
		"through another":   {header("Forwarded", "for=192.0.2.1"), 403},
		"other origin":      {header("Origin", "http://evil.example"), 403},
		"opaque origin":     {header("Origin", "null"), 403},
		"other site":        {header("Sec-Fetch-Site", "cross-site"), 403},
		"other port's page": {header("Sec-Fetch-Site", "same-site"), 403},
		"post":              {func(r *http.Request) { r.Method = http.MethodPost }, 405},
		"delete":            {func(r *http.Request) { r.Method = http.MethodDelete }, 405},
	} {
		for _, path := range []string{"/", "/json"} {
			w := get(volleydebug.Handler(), path, test.edit)
			require.Equal(t, test.status, w.Code, "%s: %s", name, path)
			require.Contains(t, w.Header().Get("Content-Security-Policy"), "default-src 'none'")
			require.Equal(t, "DENY", w.Header().Get("X-Frame-Options"))
			require.Equal(t, "nosniff", w.Header().Get("X-Content-Type-Options"))
			require.Empty(t, w.Header().Get("Access-Control-Allow-Origin"))
			if test.status == 403 {
				require.NotContains(t, w.Body.String(), "conns", name)
			}
		}
	}
	// A link to the page may be followed, and nothing else of another site's.
	for _, site := range []string{"cross-site", "same-site"} {
		for _, test := range []struct {
			path, mode, dest string
			status           int
		}{
			{"/", "navigate", "document", 200},
			{"/debug/volley/", "navigate", "document", 200},
			{"/", "navigate", "", 200}, // a browser that does not tell
			{"/", "navigate", "iframe", 403},
			{"/", "navigate", "object", 403},
			{"/", "no-cors", "document", 403},
			{"/events", "navigate", "document", 403},
			{"/events", "navigate", "iframe", 403},
			{"/events", "no-cors", "image", 403},
			{"/json", "navigate", "document", 403},
			{"/json", "navigate", "iframe", 403},
			{"/app.js", "navigate", "document", 403},
		} {
			h := (&volleydebug.Config{MaxStreams: 1}).Handler()
			w := get(h, test.path, func(r *http.Request) {
				r.Header.Set("Sec-Fetch-Site", site)
				r.Header.Set("Sec-Fetch-Mode", test.mode)
				r.Header.Set("Sec-Fetch-Dest", test.dest)
				ctx, cancel := context.WithTimeout(r.Context(), 10*time.Second) // the events have no end
				t.Cleanup(cancel)
				*r = *r.WithContext(ctx)
			})
			require.Equal(t, test.status, w.Code, "%s: %v", site, test)
		}
	}
	allowed := (&volleydebug.Config{Allow: func(r *http.Request) bool { return r.Header.Get("Authorization") == "secret" }}).Handler()
	elsewhere := func(key string) func(*http.Request) {
		return func(r *http.Request) {
			r.RemoteAddr, r.Host = "192.0.2.1:5", "debug.example"
			r.Header.Set("Authorization", key)
		}
	}
	require.Equal(t, 200, get(allowed, "/", elsewhere("secret")).Code)
	require.Equal(t, 403, get(allowed, "/", elsewhere("guessed")).Code)
	require.Equal(t, 403, get(allowed, "/", nil).Code, "the loopback is nothing special then")
	require.Equal(t, 403, get(allowed, "/json", func(r *http.Request) {
		elsewhere("secret")(r)
		r.Header.Set("Sec-Fetch-Site", "cross-site")
	}).Code)
}

// A server on a Unix socket has no remote address to look at.
func TestHandlerUnixSocket(t *testing.T) {
	l, err := net.Listen("unix", t.TempDir()+"/s")
	if err != nil {
		t.Skip(err)
	}
	srv := &http.Server{Handler: volleydebug.Handler()}
	go srv.Serve(l)
	defer srv.Close()
	c := &http.Client{Transport: &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
		return net.Dial("unix", l.Addr().String())
	}}}
	defer c.CloseIdleConnections()
	r, err := c.Get("http://localhost/json")
	require.NoError(t, err)
	r.Body.Close()
	require.Equal(t, 200, r.StatusCode)
}

// The page and what it consists of are served at any path.
func TestHandlerFiles(t *testing.T) {
	for _, prefix := range []string{"/", "/debug/volley/"} {
		for name, want := range map[string]string{
			"": "<!doctype html>", "app.js": "EventSource", "table.js": "class Table", "charts.js": "class Charts",
			"app.css": "prefers-color-scheme", "uplot.js": "uPlot", "uplot.css": ".uplot", "uplot.LICENSE": "MIT License",
		} {
			w := get(volleydebug.Handler(), prefix+name, nil)
			require.Equal(t, 200, w.Code, name)
			require.Contains(t, w.Body.String(), want)
			require.NotContains(t, strings.ReplaceAll(w.Body.String(), "https://github.com/leeoniya/uPlot", ""), "https://", "%s loads something from elsewhere", name)
		}
		require.Equal(t, 404, get(volleydebug.Handler(), prefix+"index.html.bak", nil).Code)
		require.Equal(t, 404, get(volleydebug.Handler(), prefix+"page", nil).Code)
	}
}

// A conn is what JSON tells of a connection.
type conn map[string]any

type document struct {
	Program   string
	Pid       int
	Total     int
	Listeners []map[string]any
	Conns     []conn
}

// ask returns the JSON document.
func ask(t *testing.T, h http.Handler) (d document) {
	t.Helper()
	w := get(h, "/json", nil)
	require.Equal(t, 200, w.Code)
	require.Equal(t, "application/json", w.Header().Get("Content-Type"))
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &d), w.Body.String())
	return d
}

// JSON tells what Stats tells, and nothing of what is not known.
func TestHandlerJSON(t *testing.T) {
	l := listen(t)
	a, b := pair(t, l)
	exchange(t, a, b)
	h := (&volleydebug.Config{}).Handler() // whose first look is now
	d := ask(t, h)
	require.Equal(t, d.Total, len(d.Conns))
	found := map[string]conn{}
	for _, c := range d.Conns {
		found[c["remote"].(string)] = c
	}
	for _, end := range []*volley.Conn{a, b} {
		c := found[end.RemoteAddr().String()]
		s := end.Stats()
		require.Equal(t, "volley", c["protocol"])
		require.Equal(t, "udp", c["network"])
		require.Equal(t, float64(s.MessagesSent), c["messages_sent"])
		require.Equal(t, float64(s.MessagesReceived), c["messages_received"])
		require.Equal(t, float64(s.Missed.Inbox), c["missed_inbox"])
		require.NotContains(t, c, "bytes_sent")
		require.NotEmpty(t, c["explain"])
		born, err := time.Parse(time.RFC3339, c["born"].(string))
		require.NoError(t, err)
		require.WithinDuration(t, time.Now(), born, time.Minute)
	}
	var lv map[string]any
	for _, x := range d.Listeners {
		if x["addr"] == l.Addr().String() {
			lv = x
		}
	}
	require.NotNil(t, lv)
	require.Equal(t, 1.0, lv["conns"])
	require.Equal(t, lv["id"], found[a.LocalAddr().String()]["listener"])

	id := strconv.FormatFloat(found[a.LocalAddr().String()]["id"].(float64), 'f', 0, 64)
	w := get(h, "/json?explain="+id, nil)
	require.Equal(t, 200, w.Code)
	var one conn
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &one))
	require.Equal(t, a.LocalAddr().String(), one["remote"])
	for end := time.Now().Add(30 * time.Second); get(h, "/json?explain="+id, nil).Code != 429; {
		require.True(t, time.Now().Before(end), "one walk over all connections in a tenth of a second")
	}
	require.Equal(t, 400, get(h, "/json?explain=x", nil).Code)
	for w = get(h, "/json?explain=1", nil); w.Code == 429; w = get(h, "/json?explain=1", nil) {
		time.Sleep(time.Millisecond)
	}
	require.Equal(t, 404, w.Code)

	var v expvar.Var = volleydebug.Variable{}
	var sum struct {
		Conns     int
		Protocols map[string]map[string]float64
	}
	for end := time.Now().Add(30 * time.Second); sum.Protocols["volley"]["conns"] < 2; time.Sleep(time.Millisecond) {
		require.True(t, time.Now().Before(end), "the look of a test before is long past")
		require.NoError(t, json.Unmarshal([]byte(v.String()), &sum))
	}
	require.Contains(t, sum.Protocols["volley"], "messages_sent")
	require.NotContains(t, sum.Protocols["volley"], "rtt_ms")
}

// Who asks often shares a look with others.
func TestHandlerShares(t *testing.T) {
	h := (&volleydebug.Config{Interval: time.Hour}).Handler()
	before := get(h, "/json", nil).Body.String()
	l := listen(t)
	pair(t, l)
	require.Equal(t, before, get(h, "/json", nil).Body.String())
	w := get(h, "/json", func(r *http.Request) { r.RemoteAddr = "[::1]:1" })
	require.Equal(t, before, w.Body.String())
}

// More connections than MaxConns are counted, and the worst are shown.
func TestHandlerMaxConns(t *testing.T) {
	l := listen(t)
	for range 5 {
		a, b := pair(t, l)
		exchange(t, a, b)
	}
	d := ask(t, (&volleydebug.Config{MaxConns: 3}).Handler())
	require.Len(t, d.Conns, 3)
	require.GreaterOrEqual(t, d.Total, 10)
	worst := 1e9
	for _, c := range d.Conns {
		rtt, _ := c["rtt_ms"].(float64)
		require.LessOrEqual(t, rtt, worst)
		worst = rtt
	}
}

// An event is one of the page's.
type event struct {
	Full    bool
	Total   int
	Columns []string
	New     []conn
	Gone    []float64
	D       [][]*float64
	Nodes   json.RawMessage
}

// stream begins to hear the events of a server.
func stream(t *testing.T, url string) (next func() event, status int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	t.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"events", nil)
	require.NoError(t, err)
	c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := c.Do(r)
	require.NoError(t, err)
	t.Cleanup(func() { resp.Body.Close() })
	in := bufio.NewScanner(resp.Body)
	in.Buffer(nil, 16<<20)
	return func() (e event) {
		for in.Scan() {
			if data, ok := strings.CutPrefix(in.Text(), "data: "); ok {
				require.NoError(t, json.Unmarshal([]byte(data), &e))
				return e
			}
		}
		require.NoError(t, in.Err())
		require.Fail(t, "the stream has ended")
		return e
	}, resp.StatusCode
}

// A stream tells everything, and then what comes, changes and goes.
func TestHandlerEvents(t *testing.T) {
	l := listen(t)
	srv := httptest.NewServer((&volleydebug.Config{Interval: minInterval}).Handler())
	t.Cleanup(srv.Close)
	heard := false
	for tries := 1; !heard; tries++ {
		require.Less(t, tries, 20, "all is told again and again")
		t.Run(strconv.Itoa(tries), func(t *testing.T) { heard = hearEvents(t, l, srv.URL+"/") })
		require.False(t, t.Failed())
	}
}

// hearEvents has connections come, change and go, and hears of each. It returns false
// if all was told once more meanwhile, as after a standstill in which the frame
// before was forgotten.
func hearEvents(t *testing.T, l *volley.Listener, url string) bool {
	t.Helper()
	a, b := pair(t, l)
	next, status := stream(t, url)
	require.Equal(t, 200, status)
	first := next()
	require.True(t, first.Full)
	require.Equal(t, first.Total, len(first.New))
	id := func(list []conn, remote net.Addr) float64 {
		for _, c := range list {
			if c["remote"] == remote.String() {
				return c["id"].(float64)
			}
		}
		return 0
	}
	known := id(first.New, a.LocalAddr())
	if known == 0 {
		return false // of a look just before
	}
	column := float64(slices.Index(first.Columns, "messages_received"))
	exchange(t, a, b)
	x, y := pair(t, l)
	var fresh float64
	changed := false
	for i := 0; fresh == 0 || !changed; i++ {
		require.Less(t, i, 100)
		e := next()
		if e.Full {
			return false
		}
		fresh = max(fresh, id(e.New, x.LocalAddr()))
		for _, d := range e.D {
			for k := 1; *d[0] == known && k < len(d); k += 2 {
				changed = changed || *d[k] == column && *d[k+1] == 1
			}
		}
	}
	x.Close()
	y.Close()
	for gone := false; !gone; { // the other end may be gone one look earlier
		e := next()
		if e.Full {
			return false
		}
		gone = slices.Contains(e.Gone, fresh)
	}
	return true
}

const minInterval = 100 * time.Millisecond

// There are as many streams as Config allows; and a server that shuts down does
// not wait for them.
func TestHandlerStreams(t *testing.T) {
	srv := httptest.NewServer((&volleydebug.Config{MaxStreams: 2, Interval: minInterval}).Handler())
	for range 2 {
		next, status := stream(t, srv.URL+"/")
		require.Equal(t, 200, status)
		next()
	}
	_, status := stream(t, srv.URL+"/")
	require.Equal(t, 503, status)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	require.NoError(t, srv.Config.Shutdown(ctx))
	srv.Close()
}

// A place that is left is free again.
func TestHandlerStreamPlaces(t *testing.T) {
	srv := httptest.NewServer((&volleydebug.Config{MaxStreams: 1}).Handler())
	defer srv.Close()
	for range 3 {
		ctx, cancel := context.WithCancel(t.Context())
		for {
			r, err := http.NewRequestWithContext(ctx, http.MethodGet, srv.URL+"/events", nil)
			require.NoError(t, err)
			resp, err := srv.Client().Do(r)
			require.NoError(t, err)
			if resp.StatusCode == 200 {
				break
			}
			require.Equal(t, 503, resp.StatusCode)
			io.Copy(io.Discard, resp.Body) // the place is about to be left
			resp.Body.Close()
		}
		cancel()
	}
}
