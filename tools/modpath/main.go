// Command modpath gives the library another module path:
//
//	go -C tools run ./modpath -C .. example.com/messages/volley
//
// It rewrites the path in every module, import, document and script below a folder,
// and vets all modules. The package keeps its name. Commit the result, or undo it by
// git checkout.
//
// In Go files it changes imports, and paths of packages in comments and strings. A
// string that is the path alone is changed only on a line that ends in the comment
// "// module path", because it mostly is a name.
package main

import (
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

func main() {
	dir := flag.String("C", ".", "the `folder` of the root module")
	vet := flag.Bool("vet", true, "vet all modules afterwards")
	flag.Parse()
	if flag.NArg() != 1 {
		fmt.Fprintln(os.Stderr, "usage: modpath [-C FOLDER] NEWPATH")
		os.Exit(2)
	}
	modules, err := rename(*dir, flag.Arg(0))
	if err == nil && *vet {
		err = vetAll(modules)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "modpath:", err)
		os.Exit(1)
	}
}

var (
	validPath  = regexp.MustCompile(`^[\w~-]+(\.[\w~-]+)*(/[\w~-]+(\.[\w~-]+)*)*$`)
	modulePath = regexp.MustCompile(`(?m)^module\s+"?([^\s"]+)`)
)

// rename gives the module in dir another path, and returns the folders of all
// modules there.
func rename(dir, to string) (modules []string, err error) {
	if !validPath.MatchString(to) {
		return nil, fmt.Errorf("%q is not a module path", to)
	}
	mod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil {
		return nil, err
	}
	m := modulePath.FindSubmatch(mod)
	if m == nil {
		return nil, errors.New("go.mod has no module path")
	}
	r, err := newRewriter(dir, string(m[1]), to)
	if err != nil {
		return nil, err
	}
	err = filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir():
			if hidden := strings.HasPrefix(d.Name(), ".") && d.Name() != ".ci" && name != dir; hidden || d.Name() == "testdata" {
				return filepath.SkipDir
			}
			return nil
		case d.Name() == "go.mod":
			modules = append(modules, filepath.Dir(name))
		}
		return r.file(name)
	})
	return modules, err
}

// A rewriter replaces one module path by another.
type rewriter struct {
	from, to string
	rules    []rule
}

type rule struct {
	pattern *regexp.Regexp
	with    string
}

// newRewriter returns a rewriter for the module in dir. Only the folders that it
// has make a path of a package of what looks like one.
func newRewriter(dir, from, to string) (*rewriter, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var folders []string
	for _, e := range entries {
		if e.IsDir() {
			folders = append(folders, regexp.QuoteMeta(e.Name()))
		}
	}
	r := &rewriter{from: from, to: to}
	old := regexp.QuoteMeta(from)
	for _, pattern := range []string{
		`(^|[^\w./-])` + old + `(/(?:\.\.\.|(?:` + strings.Join(folders, "|") + `)\b))`, // a package
		`([/\t ]*(?:import )?(?:[\w.]+ )?")` + old + `("[\t ]*)`,                        // an import on a line of its own
		`(.*-require=)` + old + `(@.*)`, `(.*-replace=)` + old + `(=.*)`,                // go mod edit
		`(.*\bgo doc (?:-\w+ )*)` + old + `(\b[^/].*|)`,                       //
		"(.*\\bmodule path is `)" + old + "(`.*)", `(readonly module=)` + old, // prose, scripts
	} {
		if pattern[1] != '^' {
			pattern = "^" + pattern + "$"
		}
		with := "${1}" + strings.ReplaceAll(to, "$", "$$") + "${2}"
		r.rules = append(r.rules, rule{regexp.MustCompile("(?m)" + pattern), with})
	}
	return r, nil
}

// file rewrites a file, if it is of a kind that names packages.
func (r *rewriter) file(name string) error {
	base, change := filepath.Base(name), (func(string) (string, error))(nil)
	switch {
	case filepath.Ext(base) == ".go":
		change = r.source
	case base == "go.mod":
		change = r.mod
	case filepath.Ext(base) == ".md", filepath.Ext(base) == ".sh", filepath.Base(filepath.Dir(name)) == ".ci":
		change = func(s string) (string, error) { return r.text(s), nil }
	default:
		return nil
	}
	old, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	changed, err := change(string(old))
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if changed == string(old) {
		return nil
	}
	return os.WriteFile(name, []byte(changed), 0o666) // an existing file keeps its mode
}

// imports is a comment in documents that lists the imports of the block below it.
var imports = regexp.MustCompile(`<!-- imports: [^\n]* -->`)

// text rewrites prose, with the code in it.
func (r *rewriter) text(s string) string {
	for _, rule := range r.rules {
		s = rule.pattern.ReplaceAllString(s, rule.with)
	}
	return imports.ReplaceAllStringFunc(s, func(list string) string {
		words := strings.Split(list, " ")
		for i, w := range words {
			if w == r.from {
				words[i] = r.to
			}
		}
		return strings.Join(words, " ")
	})
}

// path rewrites the path of a module or package.
func (r *rewriter) path(p string) string {
	if p == r.from || strings.HasPrefix(p, r.from+"/") {
		return r.to + p[len(r.from):]
	}
	return p
}

var (
	modLine  = regexp.MustCompile(`(?m)^(module |require |replace |\t)([^\s()]+)`)
	modBlock = regexp.MustCompile(`(?s)\nrequire \(\n(.*?)\n\)`)
)

// mod rewrites a go.mod, with its requirements in order.
func (r *rewriter) mod(s string) (string, error) {
	s = modLine.ReplaceAllStringFunc(s, func(line string) string {
		m := modLine.FindStringSubmatch(line)
		return m[1] + r.path(m[2])
	})
	return modBlock.ReplaceAllStringFunc(s, func(block string) string {
		lines := strings.Split(modBlock.FindStringSubmatch(block)[1], "\n")
		slices.Sort(lines)
		return "\nrequire (\n" + strings.Join(lines, "\n") + "\n)"
	}), nil
}

// source rewrites a Go file.
func (r *rewriter) source(s string) (string, error) {
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, "", s, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return "", err
	}
	var edits []edit
	replace := func(n ast.Node, with string) {
		edits = append(edits, edit{fset.Position(n.Pos()).Offset, fset.Position(n.End()).Offset, with})
	}
	marked := make(map[int]bool) // lines
	for _, g := range f.Comments {
		for _, c := range g.List {
			replace(c, r.text(c.Text))
			if c.Text == "// module path" {
				marked[fset.Position(c.Pos()).Line] = true
			}
		}
	}
	specs := make(map[ast.Node]bool)
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ImportSpec:
			specs[n.Path] = true
		case *ast.BasicLit:
			if n.Kind != token.STRING {
				break
			}
			value, _ := strconv.Unquote(n.Value)
			switch {
			case specs[n], marked[fset.Position(n.Pos()).Line]:
				if p := r.path(value); p != value {
					replace(n, strconv.Quote(p))
				}
			case value != r.from:
				replace(n, r.text(n.Value))
			}
		}
		return true
	})
	slices.SortFunc(edits, func(a, b edit) int { return a.start - b.start })
	out, last := "", 0
	for _, e := range edits {
		out += s[last:e.start] + e.with
		last = e.end
	}
	out += s[last:]
	if out == s {
		return s, nil
	}
	formatted, err := format.Source([]byte(out)) // the order of imports may be another
	return string(formatted), err
}

// An edit replaces bytes of a file.
type edit struct {
	start, end int
	with       string
}

// vetAll compiles all packages and tests of modules.
func vetAll(modules []string) error {
	for _, dir := range modules {
		fmt.Println("go vet ./... in", dir)
		cmd := exec.Command("go", "vet", "./...")
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w\n%s", dir, err, out)
		}
	}
	return nil
}
