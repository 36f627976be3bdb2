package main

import (
	"bytes"
	"flag"
	"fmt"
	"html"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The picture is made of what script(1) has recorded of a terminal:
//
//	go build -o /tmp/volley ./cmd/volley
//	script -qec 'stty cols 116 rows 50; LC_ALL=C.UTF-8 /tmp/volley demo --script "3s loss=30% for 2s; 6s blackout for 500ms; 7500ms latency=60ms"' /tmp/demo
//	go test ./cmd/volley -run TestPicture -picture /tmp/demo
var pictured = flag.String("picture", "", "write docs/demo.svg anew, of the terminal's `recording` of a demo")

const picture = "../../docs/demo.svg"

// TestPicture checks that the picture in the README shows what the demo prints:
// the graph, the summary of the messages, and that of the link.
func TestPicture(t *testing.T) {
	if *pictured != "" {
		output, err := os.ReadFile(*pictured)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(picture, []byte(drawPicture(screen(string(output)))), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	svg, err := os.ReadFile(picture)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"volley demo --script", "messages", "round trip", "lost", "answered", "blackout", "datagrams", "by chance"} {
		if !bytes.Contains(svg, []byte(name)) {
			t.Errorf("%s does not show %q", picture, name)
		}
	}
}

// screen returns the lines that stand on a terminal at the end: the last frame of
// the graph, and what follows, under the command that script(1) notes at the top.
func screen(output string) []string {
	lines := []string{"$ volley demo"}
	if m := regexp.MustCompile(`demo (--script "[^"]*")`).FindStringSubmatch(output); m != nil {
		lines[0] += " " + m[1]
	}
	frames := regexp.MustCompile(`\x1b\[\d+A`).Split(output, -1)
	last := regexp.MustCompile(`\x1b\[\d*[A-Z]|\r`).ReplaceAllString(frames[len(frames)-1], "")
	last, _, _ = strings.Cut(last, "\nScript done")
	return append(append(lines, ""), strings.Split(strings.TrimSpace(last), "\n")...)
}

// Sizes of the picture, in its own units.
const (
	cellWidth, cellHeight = 8, 18
	margin                = 16
)

// drawPicture draws lines of a terminal. The bars of the graph are drawn as such,
// for not all fonts have them in one width.
func drawPicture(lines []string) string {
	width := 0
	for _, l := range lines {
		width = max(width, len([]rune(l)))
	}
	w, h := 2*margin+width*cellWidth, 2*margin+len(lines)*cellHeight
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d">`+"\n", w, h, w, h)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" rx="8" fill="#16181d"/>`+"\n", w, h)
	b.WriteString(`<g font-family="ui-monospace, Menlo, Consolas, monospace" font-size="13" fill="#d8dbe2">` + "\n")
	levels := []rune("▁▂▃▄▅▆▇█")
	for i, l := range lines {
		bottom := margin + (i+1)*cellHeight
		text := []rune(strings.TrimRight(l, " "))
		for j, r := range text {
			if level := slices.Index(levels, r); level >= 0 {
				height := (level + 1) * cellHeight / len(levels)
				fmt.Fprintf(&b, `<rect x="%d" y="%d" width="%d" height="%d" fill="#5fb3d4"/>`+"\n",
					margin+j*cellWidth, bottom-height, cellWidth-1, height)
				text[j] = ' '
			}
		}
		if s := strings.TrimRight(string(text), " "); s != "" {
			fmt.Fprintf(&b, `<text x="%d" y="%d" textLength="%d" xml:space="preserve">%s</text>`+"\n",
				margin, bottom-5, len([]rune(s))*cellWidth, html.EscapeString(s))
		}
	}
	b.WriteString("</g>\n</svg>\n")
	return b.String()
}
