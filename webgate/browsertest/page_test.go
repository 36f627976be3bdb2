package browsertest

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"volley/webgate"
)

// patience is how long the browser may take for anything: the machine may be busy.
const patience = 60 * time.Second

// program returns the path of one of several programs that will do. Without one the test
// is skipped, and says so. It is skipped, too, where nobody has asked for it, since a
// browser takes its time.
func program(t testing.TB, names ...string) string {
	if os.Getenv("VOLLEY_BROWSER") == "" {
		t.Skip("to test with a browser and node set VOLLEY_BROWSER=1")
	}
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Skipf("SKIPPED: THE CLIENT FOR BROWSERS IS NOT TESTED: no %s; install Debian's package of that name", names[0])
	return ""
}

func chromium(t testing.TB) string {
	return program(t, "chromium", "chromium-browser", "google-chrome", "chrome")
}

// A testPage is one in a browser.
type testPage struct {
	ctx context.Context

	mu     sync.Mutex
	errors []string // of scripts, and what the console says
}

// blank is a page that has the client as a global name.
const blank = `<!doctype html><title>volley</title><script type="module">
import * as volley from "/volley.js"
window.volley = volley
</script>`

// serve serves a page, and the client beside it.
func serve(t testing.TB, html string) (url string) {
	mux := http.NewServeMux()
	mux.HandleFunc("/volley.js", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/javascript")
		w.Write(webgate.Script())
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		fmt.Fprint(w, html)
	})
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	return srv.URL
}

// open shows a page in a browser with some more flags.
func open(t testing.TB, url string, flags ...string) *testPage {
	t.Helper()
	opts := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(chromium(t)), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.WindowSize(800, 600),
		chromedp.Flag("disable-background-networking", true), chromedp.Flag("disable-component-update", true),
		chromedp.Flag("disable-sync", true), chromedp.Flag("no-first-run", true), chromedp.Flag("disable-dev-shm-usage", true),
		chromedp.WSURLReadTimeout(patience))
	for _, f := range flags {
		opts = append(opts, chromedp.Flag(f, true))
	}
	ctx, cancel := chromedp.NewExecAllocator(context.Background(), opts...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	p := &testPage{ctx: ctx}
	chromedp.ListenTarget(ctx, p.hear)
	p.run(t, log.Enable(), runtime.Enable(), chromedp.Navigate(url))
	return p
}

// blankPage opens a page that has the client. It is one of origin.
func blankPage(t testing.TB, flags ...string) (p *testPage, origin string) {
	t.Helper()
	chromium(t)
	origin = serve(t, blank)
	p = open(t, origin, flags...)
	p.await(t, "window.volley !== undefined")
	return p, origin
}

// hear notes what goes wrong on the page.
func (p *testPage) hear(ev any) {
	var text string
	switch ev := ev.(type) {
	case *runtime.EventExceptionThrown:
		text = "exception: " + ev.ExceptionDetails.Error()
	case *runtime.EventConsoleAPICalled:
		text = "console: " + string(ev.Type)
		for _, a := range ev.Args {
			text += " " + string(a.Value)
		}
	default:
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.errors = append(p.errors, text)
}

// clean requires that no script has failed.
func (p *testPage) clean(t testing.TB) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	require.Empty(t, p.errors)
}

func (p *testPage) run(t testing.TB, actions ...chromedp.Action) {
	t.Helper()
	ctx := p.ctx
	if c := chromedp.FromContext(p.ctx); c != nil && c.Browser != nil { // it lives with the context of its first Run
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(p.ctx, patience)
		defer cancel()
	}
	require.NoError(t, chromedp.Run(ctx, actions...))
}

// eval returns what an expression comes to on the page, once promises in it are kept.
func eval[T any](t testing.TB, p *testPage, expression string) (v T) {
	t.Helper()
	p.run(t, chromedp.Evaluate(expression, &v, func(e *runtime.EvaluateParams) *runtime.EvaluateParams {
		return e.WithAwaitPromise(true)
	}))
	return v
}

// await waits until an expression is true.
func (p *testPage) await(t testing.TB, expression string) {
	t.Helper()
	for end := time.Now().Add(patience); !eval[bool](t, p, expression); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			p.clean(t)
			require.Fail(t, "the page does not get there", expression)
		}
	}
}
