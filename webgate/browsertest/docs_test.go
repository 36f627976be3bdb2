package browsertest

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The page of docs/browser.md has at most 20 lines, and talks to a server that echoes.
func TestDocumentPage(t *testing.T) {
	chromium(t)
	doc, err := os.ReadFile("../../docs/browser.md")
	require.NoError(t, err)
	_, rest, ok := strings.Cut(string(doc), "<!-- page -->\n\n```html\n")
	require.True(t, ok)
	html, _, _ := strings.Cut(rest, "```\n")
	require.LessOrEqual(t, strings.Count(html, "\n"), 20)

	s := newServerOf(t, "*", nil)
	html = strings.Replace(html, "127.0.0.1:7443", s.gate.Addr().String(), 1)
	html = strings.Replace(html, "HASH", s.hash, 1)
	p := open(t, serve(t, html))
	p.await(t, `document.getElementById("log").textContent.split("delivered after").length === 4`)
	text := eval[string](t, p, `document.getElementById("log").textContent`)
	t.Log(text)
	require.Contains(t, text, "connected by webtransport")
	for _, echo := range []string{"echo: hello 1", "echo: hello 2", "echo: hello 3"} {
		require.Contains(t, text, echo)
	}
	p.clean(t)
}
