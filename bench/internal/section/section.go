// Package section replaces a section of docs/BENCHMARKS.md, for commands that each
// write one of their own.
package section

import (
	"os"
	"strings"
)

// last is the title of the section before which new ones go.
const last = "\n## Where others win\n"

// Replace puts text, which begins with its line "## title", into a file in place of
// the section of that title, or before the last section.
func Replace(file, title, text string) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	return os.WriteFile(file, []byte(replace(string(data), title, text)), 0o644)
}

func replace(document, title, text string) string {
	if start := strings.Index(document, "\n## "+title+"\n"); start >= 0 {
		end := len(document)
		if n := strings.Index(document[start+1:], "\n## "); n >= 0 {
			end = start + 1 + n
		}
		document = document[:start] + document[end:]
	}
	head, tail, found := strings.Cut(document, last)
	if found {
		tail = last + tail
	}
	return strings.TrimRight(head, "\n") + "\n\n" + strings.TrimRight(text, "\n") + "\n" + tail
}
