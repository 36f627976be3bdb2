package browsertest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"volley"
	"volley/volleydebug"
)

// patience is how long the browser may take for anything: the machine may be busy.
const patience = 60 * time.Second

// browsers are the names of programs that will do.
var browsers = []string{"chromium", "chromium-browser", "google-chrome", "chrome"}

// chromium returns the path of a browser. Without one the test is skipped, and
// says so. It is skipped, too, where nobody has asked for it, since a browser takes
// its time.
func chromium(t testing.TB) string {
	if os.Getenv("VOLLEY_BROWSER") == "" {
		t.Skip("to test the debug page in a browser set VOLLEY_BROWSER=1")
	}
	for _, name := range browsers {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Skip("NO CHROMIUM: the debug page is NOT tested in a browser; install one, for instance Debian's package chromium")
	return ""
}

// A page is the debug page in a browser.
type page struct {
	ctx context.Context

	mu     sync.Mutex
	errors []string // of scripts, and what the console and the log say
}

// open shows the page of a handler in a window of a size.
func open(t testing.TB, url string, dark bool, width, height int) *page {
	t.Helper()
	opts := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(chromium(t)), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.WindowSize(width, height),
		chromedp.Flag("disable-background-networking", true), chromedp.Flag("disable-component-update", true),
		chromedp.Flag("disable-sync", true), chromedp.Flag("no-first-run", true), chromedp.Flag("disable-dev-shm-usage", true),
		chromedp.WSURLReadTimeout(patience))
	ctx, cancel := context.WithTimeout(context.Background(), 3*patience)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewExecAllocator(ctx, opts...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	p := &page{ctx: ctx}
	chromedp.ListenTarget(ctx, p.hear)
	scheme := "light"
	if dark {
		scheme = "dark"
	}
	p.run(t, log.Enable(), runtime.Enable(),
		emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}),
		chromedp.Navigate(url))
	return p
}

// hear notes what goes wrong on the page.
func (p *page) hear(ev any) {
	var text string
	switch ev := ev.(type) {
	case *runtime.EventExceptionThrown:
		text = "exception: " + ev.ExceptionDetails.Error()
	case *runtime.EventConsoleAPICalled:
		text = "console: " + string(ev.Type)
		for _, a := range ev.Args {
			text += " " + string(a.Value)
		}
	case *log.EventEntryAdded:
		if ev.Entry.Level != log.LevelError && ev.Entry.Level != log.LevelWarning {
			return
		}
		text = fmt.Sprintf("log: %s %s", ev.Entry.Text, ev.Entry.URL)
	default:
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.errors = append(p.errors, text)
}

// clean requires that nothing has gone wrong.
func (p *page) clean(t testing.TB) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	require.Empty(t, p.errors)
}

func (p *page) run(t testing.TB, actions ...chromedp.Action) {
	t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	if p.ctx.Err() == nil {
		// The browser lives with the context of its first Run.
		if c := chromedp.FromContext(p.ctx); c == nil || c.Browser == nil {
			ctx = p.ctx
		}
	}
	require.NoError(t, chromedp.Run(ctx, actions...))
}

// eval returns what an expression comes to on the page.
func eval[T any](t testing.TB, p *page, expression string) (v T) {
	t.Helper()
	p.run(t, chromedp.Evaluate(expression, &v))
	return v
}

// await waits until an expression is true.
func (p *page) await(t testing.TB, expression string) {
	t.Helper()
	for end := time.Now().Add(patience); !eval[bool](t, p, expression); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			p.clean(t)
			require.Fail(t, "the page does not get there", "%s; ticks %s, conns %s", expression,
				eval[string](t, p, "String(document.body.dataset.ticks)"), eval[string](t, p, "String(document.body.dataset.conns)"))
		}
	}
}

// serve serves the page of this process.
func serve(t testing.TB, cfg volleydebug.Config) string {
	srv := httptest.NewServer(cfg.Handler())
	t.Cleanup(srv.CloseClientConnections)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		srv.Config.Shutdown(ctx)
	})
	return srv.URL + "/"
}

// A network is a listener with connections on which messages go to and fro.
type network struct {
	l       *volley.Listener
	dialed  []*volley.Conn
	stop    chan struct{}
	talkers sync.WaitGroup
	writers sync.WaitGroup
}

// newNetwork connects n clients, each of which sends a message in the interval and
// gets it back, once go is called.
func newNetwork(t testing.TB, n int) *network {
	t.Helper()
	l, err := volley.Listen("udp", "127.0.0.1:0")
	require.NoError(t, err)
	w := &network{l: l, stop: make(chan struct{})}
	t.Cleanup(w.close)
	w.writers.Go(func() {
		for {
			c, err := l.AcceptConn(context.Background())
			if err != nil {
				return
			}
			w.writers.Go(func() { echo(c) })
		}
	})
	for range n {
		c, err := volley.Dial("udp", l.Addr().String())
		require.NoError(t, err)
		w.dialed = append(w.dialed, c)
		w.writers.Go(func() { discard(c) })
	}
	return w
}

// echo sends back what comes.
func echo(c *volley.Conn) {
	defer c.Close()
	buf := make([]byte, 2000)
	for {
		n, err := c.Read(buf)
		if err != nil {
			return
		}
		c.Write(buf[:n])
	}
}

func discard(c *volley.Conn) {
	buf := make([]byte, 2000)
	for {
		if _, err := c.Read(buf); err != nil {
			return
		}
	}
}

// talk has all clients send in turn, every is the time between two messages of
// one.
func (w *network) talk(every time.Duration) {
	w.talkers.Go(func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		buf := make([]byte, 300)
		for {
			for _, c := range w.dialed {
				c.Write(buf)
			}
			select {
			case <-tick.C:
			case <-w.stop:
				return
			}
		}
	})
}

// hush ends the talk, and waits until nobody sends any more.
func (w *network) hush() {
	select {
	case <-w.stop:
	default:
		close(w.stop)
	}
	w.talkers.Wait()
}

func (w *network) close() {
	w.hush()
	for _, c := range w.dialed {
		c.Close()
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := w.l.Shutdown(ctx); err != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, net.ErrClosed) {
		fmt.Fprintln(os.Stderr, err)
	}
	w.writers.Wait()
}

// settled waits until all connections are there, at both sides.
func (w *network) settled(t testing.TB) int {
	t.Helper()
	for end := time.Now().Add(patience); w.l.Stats().Conns < len(w.dialed); time.Sleep(time.Millisecond) {
		require.True(t, time.Now().Before(end), "%d of %d connections", w.l.Stats().Conns, len(w.dialed))
	}
	return 2 * len(w.dialed)
}

// screenshot writes a picture where VOLLEY_PICTURES says, if it does.
func (p *page) screenshot(t testing.TB, name string) {
	dir := os.Getenv("VOLLEY_PICTURES")
	if dir == "" {
		return
	}
	var png []byte
	p.run(t, chromedp.CaptureScreenshot(&png))
	require.NoError(t, os.WriteFile(dir+"/"+name+".png", png, 0o644))
}

func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `\'`) + "'" }
