package browsertest

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"volley/internal/vectors"
	"volley/webgate"
)

//go:embed testdata/replay.js
var replayScript []byte

//go:embed testdata/node.mjs
var nodeScript []byte

// A replayed is the outcome of one file of vectors.
type replayed struct {
	Name     string   `json:"name"`
	Checks   int      `json:"checks"`
	Problems []string `json:"problems"`
}

// agree requires that all files were replayed, and nothing differs.
func agree(t *testing.T, all []replayed, files map[string][]byte) {
	t.Helper()
	checks := 0
	for _, r := range all {
		require.Empty(t, r.Problems, r.Name)
		require.NotZero(t, r.Checks, r.Name)
		checks += r.Checks
	}
	require.Len(t, all, len(files))
	t.Logf("%d comparisons in %d files", checks, len(files))
}

// TestVectorsNode gives the golden vectors to volley.js in node.
func TestVectorsNode(t *testing.T) {
	node := program(t, "node", "nodejs")
	files := vectors.Files(t, "reliable")
	dir := t.TempDir()
	write := func(name string, data []byte) {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o777))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), data, 0o666))
	}
	write("package.json", []byte(`{"type":"module"}`))
	write("volley.js", webgate.Script())
	write("replay.js", replayScript)
	write("node.mjs", nodeScript)
	for name, data := range files {
		write("vectors/"+name, data)
	}
	out, err := exec.CommandContext(t.Context(), node, filepath.Join(dir, "node.mjs"), filepath.Join(dir, "vectors")).CombinedOutput()
	require.NoError(t, err, "%s", out)
	var all []replayed
	for line := range strings.Lines(string(out)) {
		var r replayed
		require.NoError(t, json.Unmarshal([]byte(line), &r), "%s", line)
		all = append(all, r)
	}
	agree(t, all, files)
}

// TestVectorsChromium gives them to volley.js in a browser.
func TestVectorsChromium(t *testing.T) {
	chromium(t)
	files := vectors.Files(t, "reliable")
	mux := http.NewServeMux()
	serveScript := func(name string, data []byte) {
		mux.HandleFunc("/"+name, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/javascript")
			w.Write(data)
		})
	}
	serveScript("volley.js", webgate.Script())
	serveScript("replay.js", replayScript)
	for name, data := range files {
		mux.HandleFunc("/vectors/"+name, func(w http.ResponseWriter, _ *http.Request) { w.Write(data) })
	}
	mux.HandleFunc("/{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, `<!doctype html><script type="module">
			import * as volley from "/volley.js"
			import { replay } from "/replay.js"
			window.play = async name => ({ name, ...await replay(volley, name, await (await fetch("/vectors/" + name)).text()) })
		</script>`)
	})
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	p := open(t, srv.URL)
	p.await(t, "window.play !== undefined")
	var all []replayed
	for _, name := range slices.Sorted(maps.Keys(files)) {
		all = append(all, eval[replayed](t, p, fmt.Sprintf("play(%q)", name)))
	}
	agree(t, all, files)
	p.clean(t)
}
