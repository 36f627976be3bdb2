package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"volley"
	"volley/internal/loopback"
	"volley/volleydebug"
)

// debugged serves the debug page of this process, in which there is a connection
// on which something waits to be read.
func debugged(t *testing.T) (url string, c *volley.Conn) {
	t.Helper()
	mux := http.NewServeMux()
	mux.Handle("/debug/volley/", (&volleydebug.Config{Interval: 100 * time.Millisecond}).Handler())
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	l, err := volley.Listen("udp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	for range 3 {
		c, err = volley.Dial("udp", l.Addr().String())
		require.NoError(t, err)
		t.Cleanup(func() { c.Close() })
		s, err := l.AcceptConn(context.Background())
		require.NoError(t, err)
		t.Cleanup(func() { s.Close() })
	}
	_, err = c.Write(make([]byte, 5000))
	require.NoError(t, err)
	for end := time.Now().Add(longest); ; time.Sleep(time.Millisecond) {
		require.True(t, time.Now().Before(end))
		for s := range l.Conns() {
			if s.Stats().ReadQueue > 0 {
				return srv.URL + "/debug/volley/", c
			}
		}
	}
}

// TestTop: the worst connections of a process, as lines.
func TestTop(t *testing.T) {
	url, c := debugged(t)
	o := program(t, "top", "--sort", "queue", url)
	require.Equal(t, exitOK, o.status, o.stderr)
	lines := strings.Split(strings.TrimSpace(o.stdout), "\n")
	require.GreaterOrEqual(t, len(lines), 8, "a title, a head, and six connections: %s", o.stdout)
	require.Contains(t, lines[0], "the worst by queue")
	require.Contains(t, lines[1], "loss %")
	require.Contains(t, lines[2], c.LocalAddr().String(), "the one that has something in its queue comes first")
	require.Contains(t, lines[2], "accepted")
	require.Regexp(t, ` 5\d\d\d  `, lines[2])

	o = program(t, "top", "-c", "2", "-i", "0.2", "-s", "queue", "-n", "3", strings.TrimSuffix(url, "/"))
	require.Equal(t, exitOK, o.status, o.stderr)
	lines = strings.Split(strings.TrimSpace(o.stdout), "\n")
	require.Len(t, lines, 2*5, "a title, a head, and three connections, twice")
	host, _, _ := strings.Cut(strings.TrimPrefix(url, "http://"), "/")
	o = program(t, "top", host)
	require.Equal(t, exitOK, o.status, o.stderr)
	require.Contains(t, o.stdout, "the worst by loss", "the usual path is found")

	o = program(t, "top", "--filter", c.LocalAddr().String(), url)
	require.Equal(t, exitOK, o.status, o.stderr)
	require.Len(t, strings.Split(strings.TrimSpace(o.stdout), "\n"), 4, "both ends: %s", o.stdout)
}

// TestTopFleet: several processes are one list, with a line for each node. A process that does
// not answer is named, unless none does.
func TestTopFleet(t *testing.T) {
	serve := func(node, conn string) string {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprintf(w, `{"program":"game","nodes":[%s],"conns":[%s]}`, node, conn)
		}))
		t.Cleanup(srv.Close)
		return srv.URL
	}
	a := serve(`{"name":"eu-1","sessions":7,"load":7,"drains":false,"came":3,"left":2,"yielded":1,"peers":[
		{"name":"eu-2\u001b[2J","sessions":5,"load":9,"drains":false,"alive":true,"heard_ms":20},{"name":"eu-3","alive":false,"heard_ms":12000},
		{"name":"eu-4","sessions":1,"load":null,"alive":true},{"name":"eu-5","sessions":2,"load":2,"drains":true,"alive":true}]}`, `{"id":1,"remote":"192.0.2.1:5","loss":0.1}`)
	b := serve(`{"name":"eu-2","sessions":5,"load":5}`, `{"id":1,"remote":"192.0.2.2:5","loss":0.2}`)
	o := program(t, "top", a, "127.0.0.1:1", b)
	require.Equal(t, exitOK, o.status, o.stderr)
	lines := strings.Split(strings.TrimSpace(o.stdout), "\n")
	require.Len(t, lines, 8, o.stdout)
	require.Equal(t, `node eu-1 7 sessions, 3 came, 2 left; "eu-2\x1b[2J" 5 sessions and a load of 9; eu-3 silent for 12 s; `+
		"eu-4 1 sessions and wants no more; eu-5 2 sessions that it sends away", lines[1])
	require.Contains(t, lines[2], "127.0.0.1:1: no answer: ")
	require.Equal(t, "node eu-2 5 sessions, 0 came, 0 left", lines[4])
	require.Contains(t, lines[6], "192.0.2.2:5", "the worst of all")
	require.Contains(t, lines[7], "192.0.2.1:5")
	require.NotContains(t, o.stdout, "\x1b")
	o = program(t, "top", "127.0.0.1:1", "127.0.0.1:2")
	require.Equal(t, exitFailure, o.status)
	require.Contains(t, o.stderr, "127.0.0.1:1")
}

// TestTopInterrupt: Ctrl-C ends it in order.
func TestTopInterrupt(t *testing.T) {
	url, _ := debugged(t)
	p := start(t, "top", "-c", "1000000", "-i", "100ms", url)
	p.line("the worst by loss")
	o := p.interrupt()
	require.Equal(t, exitOK, o.status, o.stderr)
}

// TestTopFails: each mistake is told.
func TestTopFails(t *testing.T) {
	refused, err := net.Listen("tcp", loopback.Addr()) // where the port stays free
	require.NoError(t, err)
	address := refused.Addr().String()
	require.NoError(t, refused.Close())
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("{}")) }))
	defer other.Close()
	null := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte(`{"conns":[null]}`)) }))
	defer null.Close()
	forbidden := httptest.NewServer((&volleydebug.Config{Allow: func(*http.Request) bool { return false }}).Handler())
	defer forbidden.Close()
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{address}, "does the process serve volleydebug.Handler() there?"},
		{[]string{other.URL}, "not the debug page"},
		{[]string{null.URL}, "not the debug page"},
		{[]string{forbidden.URL}, "403 Forbidden"},
		{[]string{"--sort", "color", address}, "--sort must be loss, rtt or queue"},
		{[]string{"-i", "1ms", address}, "--interval"},
		{[]string{"-n", "-1", address}, "not be negative"},
		{[]string{"ftp://x/"}, "not a URL"},
	} {
		o := program(t, append([]string{"top"}, test.args...)...)
		require.Equal(t, exitFailure, o.status, "%v", test.args)
		require.Contains(t, o.stderr, test.want, "%v", test.args)
	}
	elsewhere := httptest.NewServer(http.NotFoundHandler())
	defer elsewhere.Close()
	o := program(t, "top", strings.TrimPrefix(elsewhere.URL, "http://"))
	require.Equal(t, exitFailure, o.status)
	require.Contains(t, o.stderr, "404 Not Found; at which path does the process serve volleydebug.Handler()?")
	for address, want := range map[string]string{
		"6060": "http://localhost:6060/json", ":80": "http://localhost:80/json", "[::1]:5": "http://[::1]:5/json",
		"localhost": "http://localhost:6060/json", "a:": "http://a:6060/json", "[::1]": "http://[::1]:6060/json",
		"a/debug/volley/": "http://a:6060/debug/volley/json", "http://a": "http://a/json",
		"http://a/ajson":          "http://a/ajson/json",
		"https://a/debug/volley/": "https://a/debug/volley/json", "http://a/debug/volley/json": "http://a/debug/volley/json",
	} {
		got, err := topURL(address)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
}

// TestTopControls: a process, or the address of a Unix socket that a peer has chosen,
// cannot control the terminal.
func TestTopControls(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/json" {
			http.Error(w, "\x1b[2Jgone", http.StatusTeapot)
			return
		}
		w.Write([]byte(`{"program":"a\u001b[2Jb","conns":[{"remote":"x\n\u009b2Jy","label":"\r\u0007z","network":"` + "\u009b2J\x7f\U0001F600\U000E0001" + `","explain":"é\u001b]0;t\u0007\nmore"}]}`))
	}))
	defer srv.Close()
	o := program(t, "top", srv.URL)
	require.Equal(t, exitOK, o.status, o.stderr)
	require.False(t, strings.ContainsFunc(strings.ReplaceAll(o.stdout, "\n", ""), unicode.IsControl), "%q", o.stdout)
	require.Len(t, strings.Split(strings.TrimSpace(o.stdout), "\n"), 3, "%q", o.stdout)
	require.Contains(t, o.stdout, "é")
	o = program(t, "top", srv.URL+"/elsewhere")
	require.Contains(t, o.stderr, "gone")
	require.False(t, strings.ContainsFunc(strings.ReplaceAll(o.stderr, "\n", ""), unicode.IsControl), "%q", o.stderr)
}

// topConns are connections of which the last is well.
func topConns(n int) (list []*topConn) {
	figure := 12345.678
	for i := range n {
		list = append(list, &topConn{
			ID: uint64(i), Protocol: "volley", Over: "netcode", Remote: "203.0.113.9:50218", Role: "accepted", OK: i == n-1,
			Explain: fmt.Sprintf("Reason %d is that the network loses some of the messages on the way there. And more.\nMore.", i),
			RTT:     &figure, Jitter: &figure, Loss: &figure, Send: &figure, Receive: &figure,
		})
	}
	return list
}

// TestTopScreen: a terminal of any size shows why the worst are so, and no line is
// longer than it is wide.
func TestTopScreen(t *testing.T) {
	list := topConns(4)
	list[1].Remote = strings.Repeat("é", 500)
	for _, test := range []struct {
		width     int
		beside    bool
		head, not string
	}{
		{40, false, "remote", "rtt ms"}, {79, false, "loss %", "sent B/s"}, {99, false, "queued B", "sent B/s"},
		{139, false, "recv B/s", "explain"}, {199, true, "explain", "\x00"},
	} {
		screen := topScreen(list, test.width, 100)
		require.Contains(t, screen[0], test.head, test.width)
		require.NotContains(t, screen[0], test.not, test.width)
		for _, line := range screen {
			require.LessOrEqual(t, utf8.RuneCountInString(line), test.width)
		}
		text := strings.Join(screen, "\n")
		for i := range 3 {
			require.Contains(t, text, fmt.Sprintf("Reason %d is that", i), test.width)
		}
		if test.beside {
			require.Len(t, screen, 5)
			require.Contains(t, screen[4], "Reason 3")
		} else {
			require.Len(t, screen, 8, "what is well needs no reason: %s", text)
			require.Regexp(t, "^    Reason 0", screen[2])
		}
	}
	require.Len(t, topScreen(topConns(50), 79, 22), 21, "with a reason each, 10 connections fit below the head")
	require.Len(t, topScreen(topConns(50), 199, 22), 22)
	require.Len(t, topTable(topConns(50)), 51)
	require.Contains(t, topTable(list)[2], list[1].Remote, "a pipe gets all")
}
