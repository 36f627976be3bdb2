package repotest

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestReadmeExample runs the program in README.md and compares its output with
// the one that follows it.
func TestReadmeExample(t *testing.T) {
	atRoot(t)
	if testing.Short() {
		t.Skip("runs the go command")
	}
	gocmd, err := exec.LookPath("go")
	if err != nil {
		t.Skip("no go command")
	}
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile("(?s)<!-- file: main.go -->\n\n```go\n(.*?)```\n\n```\n(.*?)```\n").FindSubmatch(readme)
	if m == nil {
		t.Fatal("README.md has no Go program followed by its output")
	}
	file := filepath.Join(t.TempDir(), "main.go")
	if err := os.WriteFile(file, m[1], 0o666); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), gocmd, "run", file).CombinedOutput()
	if got, want := string(out), string(m[2]); err != nil || got != want {
		t.Errorf("the program prints %q, error %v, want %q", got, err, want)
	}
}

// TestDocumentLinks checks that the files which the documents point to exist.
func TestDocumentLinks(t *testing.T) {
	atRoot(t)
	docs, err := filepath.Glob("*.md")
	if err != nil {
		t.Fatal(err)
	}
	more, err := filepath.Glob("docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	link := regexp.MustCompile(`\]\(([^)\s]+)\)`)
	for _, doc := range append(docs, more...) {
		text, err := os.ReadFile(doc)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllStringSubmatch(string(text), -1) {
			target, _, _ := strings.Cut(m[1], "#")
			if target == "" || strings.Contains(target, "://") {
				continue
			}
			if _, err := os.Stat(filepath.Join(filepath.Dir(doc), target)); err != nil {
				t.Errorf("%s links to %s, which is not there", doc, m[1])
			}
		}
	}
}
