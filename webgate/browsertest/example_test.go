package browsertest

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// start runs a program until the end of the test. It returns what follows each of some
// words in its output, once all have come.
func start(t testing.TB, path string, args []string, words ...string) (found map[string]string) {
	t.Helper()
	cmd := exec.Command(path, args...)
	out, w, err := os.Pipe()
	require.NoError(t, err)
	cmd.Stdout, cmd.Stderr = w, w
	require.NoError(t, cmd.Start())
	w.Close()
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
		out.Close()
	})
	found = make(map[string]string)
	lines := bufio.NewScanner(out)
	for len(found) < len(words) && lines.Scan() {
		for _, word := range words {
			if _, after, ok := strings.Cut(lines.Text(), word); ok {
				found[word] = strings.TrimSpace(after)
			}
		}
	}
	require.Len(t, found, len(words), "%v", lines.Err())
	go io.Copy(io.Discard, out)
	return found
}

// build builds a program of another module of the repository.
func build(t testing.TB, module, pkg string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "program")
	out, err := exec.Command("go", "-C", module, "build", "-o", path, pkg).CombinedOutput()
	require.NoError(t, err, "%s", out)
	return path
}

// pictures is where pictures go; empty: nowhere.
var pictures = os.Getenv("VOLLEY_PICTURES")

// picture writes what a page of some width shows.
func picture(t testing.TB, p *testPage, name string, width, height int64) {
	if pictures == "" {
		return
	}
	var png []byte
	p.run(t, chromedp.EmulateViewport(width, height), chromedp.Evaluate("new Promise(r => setTimeout(r, 500))", nil), chromedp.CaptureScreenshot(&png))
	require.NoError(t, os.WriteFile(filepath.Join(pictures, name), png, 0o644))
}

// In the room of the example are native players and browsers of both kinds, and a page
// gets and draws one state after the other.
func TestExample(t *testing.T) {
	chromium(t)
	path := build(t, "..", "./examples/browser")
	found := start(t, path, []string{"-listen", "127.0.0.1:0", "-web", "127.0.0.1:0", "-page", "127.0.0.1:0"}, "native players: ", "page: ")
	start(t, path, []string{"-join", found["native players: "]})
	p := open(t, found["page: "])
	other := open(t, "about:blank", "ignore-certificate-errors")
	other.run(t, chromedp.ActionFunc(func(ctx context.Context) error {
		_, err := page.AddScriptToEvaluateOnNewDocument("delete window.WebTransport").Do(ctx)
		return err
	}), chromedp.Navigate(found["page: "]))
	other.await(t, `document.getElementById("figures").textContent.includes("websocket")`)
	p.await(t, `document.getElementById("figures").textContent.startsWith("3 players · webtransport")`)
	p.await(t, fmt.Sprintf("states >= %d", eval[int](t, p, "states")+60))
	for i := 0; i < 4 && pictures != ""; i++ { // more players, each at a place of its own
		time.Sleep(1200 * time.Millisecond)
		start(t, path, []string{"-join", found["native players: "]})
	}
	picture(t, p, "browser.png", 900, 720)
	for _, width := range []int64{390, 1280} {
		picture(t, p, fmt.Sprintf("browser-%d.png", width), width, 800)
	}
	p.clean(t)
	other.clean(t)
}
