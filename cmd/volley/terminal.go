package main

import (
	"io"
	"os"
	"runtime"
	"strings"

	"golang.org/x/term"
)

// headEvery is how many lines of a table follow one head.
const headEvery = 30

// isTerminal reports whether f is a terminal that can move its cursor.
func isTerminal(f *os.File) bool {
	t := os.Getenv("TERM")
	return term.IsTerminal(int(f.Fd())) && t != "dumb" && (t != "" || runtime.GOOS != "windows")
}

func terminalWidth(f *os.File) int {
	width, _ := terminalSize(f)
	return width
}

// terminalSize returns the columns and lines of a terminal.
func terminalSize(f *os.File) (width, height int) {
	width, height, err := term.GetSize(int(f.Fd()))
	if err != nil || width <= 0 || height <= 0 {
		return 80, 24
	}
	return width, height
}

// textWidth returns the length of lines: 80, or less on a narrower terminal.
func textWidth(w io.Writer) int {
	if f, ok := w.(*os.File); ok && isTerminal(f) {
		return min(80, terminalWidth(f))
	}
	return 80
}

// utf8Locale reports whether the terminal is likely to show more than ASCII.
func utf8Locale() bool {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if v := strings.ToLower(os.Getenv(name)); v != "" {
			return strings.Contains(v, "utf-8") || strings.Contains(v, "utf8")
		}
	}
	return runtime.GOOS == "darwin"
}

// liveTerminal returns the terminal that w is, if pictures can be drawn on it.
func liveTerminal(w any) (*os.File, bool) {
	f, ok := w.(*os.File)
	return f, ok && isTerminal(f)
}
