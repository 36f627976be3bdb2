package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// A source is a file that is changed.
type source struct {
	name string // its path
	text []byte
	tree *ast.File
}

// A pkg is a package that is type-checked, so that mutants that do not compile are
// known without a compiler.
type pkg struct {
	target
	path   string
	fset   *token.FileSet
	files  []*source
	info   *types.Info
	config types.Config
}

// loadPackages reads the packages of the targets as this platform compiles them.
func loadPackages(ctx context.Context, root string, targets []target) ([]*pkg, error) {
	args := []string{"list", "-export", "-deps", "-json=ImportPath,Dir,GoFiles,Export"}
	for _, t := range targets {
		args = append(args, "./"+t.dir)
	}
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = root
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %v\n%s", err, &stderr)
	}
	exports := make(map[string]string)
	type listed struct {
		ImportPath, Dir, Export string
		GoFiles                 []string
	}
	byDir := make(map[string]listed)
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var l listed
		if err := d.Decode(&l); err == io.EOF {
			break
		} else if err != nil {
			return nil, fmt.Errorf("go list: %v", err)
		}
		exports[l.ImportPath] = l.Export
		byDir[l.Dir] = l
	}
	fset := token.NewFileSet()
	imports := importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
	var loaded []*pkg
	for _, t := range targets {
		l, ok := byDir[filepath.Join(root, filepath.FromSlash(t.dir))]
		if !ok {
			return nil, fmt.Errorf("no package in %s", t.dir)
		}
		p := &pkg{target: t, path: l.ImportPath, fset: fset}
		p.config = types.Config{Importer: imports, Sizes: types.SizesFor("gc", runtime.GOARCH)}
		if err := p.load(l.Dir, l.GoFiles); err != nil {
			return nil, err
		}
		loaded = append(loaded, p)
	}
	return loaded, nil
}

func (p *pkg) load(dir string, names []string) error {
	for _, name := range p.target.files {
		if !slices.Contains(names, name) {
			return fmt.Errorf("%s has no file %s", p.dir, name)
		}
	}
	for _, name := range names {
		name = filepath.Join(dir, name)
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if err := p.add(name, text); err != nil {
			return err
		}
	}
	return p.check()
}

// add adds a file.
func (p *pkg) add(name string, text []byte) error {
	tree, err := parser.ParseFile(p.fset, name, text, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	p.files = append(p.files, &source{name, text, tree})
	return nil
}

// check finds out about types.
func (p *pkg) check() error {
	p.info = &types.Info{Types: make(map[ast.Expr]types.TypeAndValue), Uses: make(map[*ast.Ident]types.Object)}
	var trees []*ast.File
	for _, s := range p.files {
		trees = append(trees, s.tree)
	}
	_, err := p.config.Check(p.path, p.fset, trees, p.info)
	return err
}

// mutants returns those of the files that are to be changed.
func (p *pkg) mutants() (found []*mutant) {
	for _, s := range p.files {
		if p.target.files == nil || slices.Contains(p.target.files, filepath.Base(s.name)) {
			found = append(found, enumerate(p, s)...)
		}
	}
	// Two mutants of a function may look the same. Their order tells them apart.
	seen := make(map[string]int)
	for _, m := range found {
		key := m.key()
		m.nth = seen[key]
		seen[key]++
	}
	return found
}

// compiles reports whether the package can be compiled with the mutant in it.
func (p *pkg) compiles(m *mutant) bool {
	changed, err := parser.ParseFile(p.fset, m.source.name, m.mutated(), parser.SkipObjectResolution)
	if err != nil {
		return false
	}
	var trees []*ast.File
	for _, s := range p.files {
		if s == m.source {
			trees = append(trees, changed)
		} else {
			trees = append(trees, s.tree)
		}
	}
	_, err = p.config.Check(p.path, p.fset, trees, nil)
	return err == nil
}

// functionName returns what a declaration is called in reports, such as
// (*Endpoint).Receive.
func functionName(d *ast.FuncDecl) string {
	if d.Recv == nil || len(d.Recv.List) == 0 {
		return d.Name.Name
	}
	name := types.ExprString(d.Recv.List[0].Type)
	if strings.HasPrefix(name, "*") {
		name = "(" + name + ")"
	}
	return name + "." + d.Name.Name
}
