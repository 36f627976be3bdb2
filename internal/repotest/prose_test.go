package repotest

import (
	"fmt"
	"go/ast"
	"go/doc/comment"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// maxWords is the length of the longest sentence that passes.
const maxWords = 35

// proseAllowed are beginnings of sentences that may stay as they are. There are
// at most 20, and each is needed.
var proseAllowed = []string{}

// proseBaseline holds how many findings there still are in a document, or in the
// comments of a package. The numbers only go down.
const proseBaseline = "internal/repotest/testdata/prose.txt"

// TestProse finds sentences that must be read twice, in all documents, in the comments
// of packages and exported names, and in the texts of programs.
func TestProse(t *testing.T) {
	atRoot(t)
	found := make(map[string][]string) // by document or folder
	allowed := make(map[string]bool)
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") && name != ".") {
			return filepath.SkipDir
		}
		key, blocks := proseOf(t, filepath.ToSlash(name), d)
		for _, b := range blocks {
			for _, s := range sentences(b) {
				i := slices.IndexFunc(proseAllowed, func(a string) bool { return strings.HasPrefix(s, a) })
				if problem := checkSentence(s); problem == "" {
					continue
				} else if i >= 0 {
					allowed[proseAllowed[i]] = true
				} else {
					found[key] = append(found[key], fmt.Sprintf("%s: %s: %s", name, problem, s))
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(proseAllowed) > 20 || len(allowed) < len(proseAllowed) {
		t.Errorf("%d sentences are allowed, of which %d are there, want at most 20, all there", len(proseAllowed), len(allowed))
	}

	baseline := readBaseline(t)
	if *update {
		lines := ""
		for _, key := range slices.Sorted(mapKeys(found)) {
			if n := min(len(found[key]), baseline[key]); n > 0 {
				lines += fmt.Sprintf("%d %s\n", n, key)
			}
		}
		write(t, proseBaseline, lines)
	}
	for _, key := range slices.Sorted(mapKeys(found)) {
		if n := len(found[key]); n > baseline[key] {
			t.Errorf("%s has %d sentences that must be read twice, want at most %d; mend any of them:\n%s",
				key, n, baseline[key], strings.Join(found[key], "\n"))
		} else if testing.Verbose() {
			t.Logf("%s: %d, at most %d:\n%s", key, n, baseline[key], strings.Join(found[key], "\n"))
		}
	}
}

func mapKeys[V any](m map[string]V) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

func readBaseline(t *testing.T) map[string]int {
	t.Helper()
	text, err := os.ReadFile(proseBaseline)
	if err != nil {
		t.Fatal(err)
	}
	baseline := make(map[string]int)
	for line := range strings.Lines(string(text)) {
		var n int
		var key string
		if _, err := fmt.Sscan(line, &n, &key); err != nil {
			t.Fatalf("%s: %q: %v", proseBaseline, line, err)
		}
		baseline[key] = n
	}
	return baseline
}

// proseOf returns the paragraphs of a file that are prose, and under which key
// its findings count.
func proseOf(t *testing.T, name string, d fs.DirEntry) (key string, blocks []string) {
	t.Helper()
	switch {
	case d.IsDir():
	case path.Ext(name) == ".md":
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return name, markdownBlocks(string(text))
	case path.Ext(name) == ".go" && !strings.HasSuffix(name, "_test.go"):
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range exportedComments(f) {
			blocks = append(blocks, commentBlocks(text)...)
		}
		blocks = append(blocks, textsOf(f)...)
	}
	return path.Dir(name), blocks
}

// indented finds lines of examples and of lists.
var indented = regexp.MustCompile(`(^|\n)  .*`)

// textsOf returns the paragraphs of the string literals of a file: errors, log lines,
// help and findings.
func textsOf(f *ast.File) (blocks []string) {
	ast.Inspect(f, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			text, err := strconv.Unquote(lit.Value)
			if err == nil && strings.Count(text, " ") > 2 && strings.Count(text, "%") < 5 { // else a line of figures
				blocks = append(blocks, strings.Split(indented.ReplaceAllString(text, "\n"), "\n\n")...)
			}
		}
		return true
	})
	return blocks
}

// exportedComments returns the comments that show in the documentation of a
// package.
func exportedComments(f *ast.File) (texts []string) {
	add := func(groups ...*ast.CommentGroup) {
		for _, g := range groups {
			if g != nil {
				texts = append(texts, g.Text())
			}
		}
	}
	add(f.Doc)
	for _, decl := range f.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			if d.Name.IsExported() && receiverExported(d) {
				add(d.Doc)
			}
		case *ast.GenDecl:
			exported := false
			for _, spec := range d.Specs {
				switch s := spec.(type) {
				case *ast.TypeSpec:
					if s.Name.IsExported() {
						exported = true
						add(s.Doc, s.Comment)
						ast.Inspect(s.Type, func(n ast.Node) bool {
							if f, ok := n.(*ast.Field); ok && slices.ContainsFunc(f.Names, (*ast.Ident).IsExported) {
								add(f.Doc, f.Comment)
							}
							return true
						})
					}
				case *ast.ValueSpec:
					if slices.ContainsFunc(s.Names, (*ast.Ident).IsExported) {
						exported = true
						add(s.Doc, s.Comment)
					}
				}
			}
			if exported {
				add(d.Doc)
			}
		}
	}
	return texts
}

// commentBlocks returns the paragraphs and list items of a comment, without its
// code and headings.
func commentBlocks(text string) (blocks []string) {
	var walk func([]comment.Block)
	walk = func(list []comment.Block) {
		for _, b := range list {
			switch b := b.(type) {
			case *comment.Paragraph:
				p := comment.Printer{TextWidth: -1}
				blocks = append(blocks, string(p.Text(&comment.Doc{Content: []comment.Block{b}})))
			case *comment.List:
				for _, item := range b.Items {
					walk(item.Content)
				}
			}
		}
	}
	walk(new(comment.Parser).Parse(text).Content)
	return blocks
}

var (
	notProse   = regexp.MustCompile("(?s)```.*?```|<!--.*?-->|!\\[[^]]*\\]\\([^)]*\\)|(?m:^- \\[[^]]*\\]\\(#[^)]*\\)$)")
	listItem   = regexp.MustCompile(`^\s*([-*]|\d+\.)\s`)
	linkTarget = regexp.MustCompile(`\]\([^)]*\)`)
	inlineCode = regexp.MustCompile("``[^`]+``|`[^`]+`")
)

// markdownBlocks returns the paragraphs and list items of a document, without its
// code, tables and headings.
func markdownBlocks(text string) (blocks []string) {
	text = notProse.ReplaceAllString(text, "\n")
	block := ""
	flush := func() {
		if block != "" {
			blocks = append(blocks, linkTarget.ReplaceAllString(inlineCode.ReplaceAllString(block, "CODE"), "]"))
		}
		block = ""
	}
	for line := range strings.Lines(text) {
		trimmed := strings.TrimSpace(line)
		switch {
		case trimmed == "" || trimmed[0] == '|' || trimmed[0] == '#' || trimmed[0] == '<':
			flush()
		case listItem.MatchString(line):
			flush()
			block = listItem.ReplaceAllString(line, "")
		default:
			block += " " + trimmed
		}
	}
	flush()
	return blocks
}

var (
	sentenceEnd = regexp.MustCompile(`[.!?]['")\]*_]*\s+`)
	abbreviated = regexp.MustCompile(`(^|[\s(])(e\.g|i\.e|etc|vs|cf|[A-Z])\.\s+$`)
	lowerWord   = regexp.MustCompile(`^[a-z]+[,.;:]?$`) // not io.Copy
	emphasis    = regexp.MustCompile(`[*_\[\]]+`)
)

// sentences returns the sentences of a paragraph, each in one line.
func sentences(block string) (all []string) {
	block = strings.Join(strings.Fields(block), " ")
	start := 0
	for _, m := range sentenceEnd.FindAllStringIndex(block, -1) {
		next, _, _ := strings.Cut(block[m[1]:], " ")
		if abbreviated.MatchString(block[start:m[1]]) || lowerWord.MatchString(next) {
			continue
		}
		all = append(all, strings.TrimSpace(block[start:m[1]]))
		start = m[1]
	}
	if rest := strings.TrimSpace(block[start:]); rest != "" {
		all = append(all, rest)
	}
	for i, s := range all {
		all[i] = emphasis.ReplaceAllString(s, "")
	}
	return all
}

var (
	badStart = regexp.MustCompile(`^(Who|Whoever|What|But for) `)
	// because matches "for" before a clause of its own.
	because = regexp.MustCompile(`[,;:] for (it|they|he|we|you|there|nobody|` +
		`(a|an|the|its|their|our|no|each|others|most|both|such|this|that|these|those)( \w+){0,3}? (is|are|was|were|has|have|may|can|could|would|will|does|do|must|needs?|takes?|makes?|comes?|goes|knows?)) `)
	relative = regexp.MustCompile(`\b(that|which|who|whose|where|when|if) `)
)

// checkSentence returns what makes a sentence hard to read, or "".
func checkSentence(s string) string {
	words := 0
	for _, w := range strings.Fields(s) {
		if strings.ContainsFunc(w, func(r rune) bool { return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' }) {
			words++
		}
	}
	if words > maxWords {
		return fmt.Sprintf("%d words", words)
	}
	if m := badStart.FindString(s); m != "" && !strings.HasSuffix(s, "?") {
		return fmt.Sprintf("begins with %q", m)
	}
	if m := because.FindString(s); m != "" && !relative.MatchString(m[len(", for "):]) {
		return fmt.Sprintf("%q means because", m)
	}
	return ""
}

// TestProseRules checks the checks.
func TestProseRules(t *testing.T) {
	atRoot(t)
	long := strings.Repeat("word ", maxWords) + "end."
	for s, ok := range map[string]bool{
		long:                                                false,
		strings.TrimPrefix(long, "word"):                    true,
		"Who calls it waits.":                               false,
		"Who calls it?":                                     true,
		"Whoever calls it waits.":                           false,
		"What it returns is new.":                           false,
		"Whatever it returns is new.":                       true,
		"But for this it is new.":                           false,
		"Call it twice, for it may fail.":                   false,
		"Call it twice, for a call may fail.":               false,
		"Call it twice, for the first two calls may fail.":  false,
		"Call it twice, for reasons of safety.":             true,
		"It takes a list, for a call of several.":           true,
		"It takes a list, for the peers that are gone.":     true,
		"It waits for it to end, or for a time that it is.": true,
	} {
		if problem := checkSentence(s); (problem == "") != ok {
			t.Errorf("checkSentence(%q) = %q, want ok: %v", s, problem, ok)
		}
	}
	for block, want := range map[string]int{
		"One. Two? Three!":                        3,
		"One, e.g. this. \"Two.\" Three":          3,
		"Call (1.5 s) x.Close. Then\nwait; done.": 2,
		"In doc.go are more. *Two.* `three` four": 3,
	} {
		if all := sentences(block); len(all) != want {
			t.Errorf("sentences(%q) = %q, want %d", block, all, want)
		}
	}
	doc := "# What it is\n\nOne\ntwo [three](x.md).\n- `a b`: four\n  five\n1. six\n\n| What | x |\n\n```go\nWhat x\n```\n<!-- x -->\n\nlast\n"
	if got, want := markdownBlocks(doc), []string{" One two [three].", "CODE: four\n five", "six\n", " last"}; !slices.Equal(got, want) {
		t.Errorf("markdownBlocks = %q, want %q", got, want)
	}
	if got := commentBlocks("F is.\nMore\n\n\tcode\n\n# What\n\n  - one\n    two\n  - three\n"); len(got) != 3 {
		t.Errorf("commentBlocks = %q", got)
	}
}
