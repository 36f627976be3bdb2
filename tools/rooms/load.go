package main

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A pkg is a package whose own types are known. Those of other packages are not: no
// number depends on them.
type pkg struct {
	fset  *token.FileSet
	files []*ast.File
	types *types.Package
	info  types.Info
	lines int
}

// nothing is the importer of a pkg.
type nothing struct{}

func (nothing) Import(string) (*types.Package, error) { return nil, errors.New("not imported") }

// load reads the package in a folder, without its tests.
func load(folder string) (*pkg, error) {
	names, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		return nil, err
	}
	texts := make(map[string][]byte)
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		if texts[filepath.Base(name)], err = os.ReadFile(name); err != nil {
			return nil, err
		}
	}
	if len(texts) == 0 {
		return nil, fmt.Errorf("no package in %s", folder)
	}
	return parse(texts)
}

// parse makes a pkg of the texts of its files.
func parse(texts map[string][]byte) (*pkg, error) {
	p := &pkg{fset: token.NewFileSet()}
	var names []string
	for name := range texts {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		f, err := parser.ParseFile(p.fset, name, texts[name], parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		p.files = append(p.files, f)
		p.lines += bytes.Count(texts[name], []byte("\n"))
	}
	p.info = types.Info{
		Uses:       make(map[*ast.Ident]types.Object),
		Defs:       make(map[*ast.Ident]types.Object),
		Types:      make(map[ast.Expr]types.TypeAndValue),
		Selections: make(map[*ast.SelectorExpr]*types.Selection),
	}
	cfg := types.Config{Importer: nothing{}, Error: func(error) {}}
	p.types, _ = cfg.Check("measured", p.fset, p.files, &p.info)
	return p, nil
}

// file returns the file of a position.
func (p *pkg) file(pos token.Pos) string { return p.fset.Position(pos).Filename }

// named returns the type of the package that t is, or points to.
func (p *pkg) named(t types.Type) *types.Named {
	if t == nil {
		return nil
	}
	if ptr, ok := types.Unalias(t).(*types.Pointer); ok {
		t = ptr.Elem()
	}
	n, ok := types.Unalias(t).(*types.Named)
	if !ok || n.Obj().Pkg() != p.types {
		return nil
	}
	return n
}

// owner returns the type of a name, or the one with most methods.
func (p *pkg) owner(name string) (owner *types.Named) {
	for _, s := range p.types.Scope().Names() {
		o, ok := p.types.Scope().Lookup(s).(*types.TypeName)
		if !ok || o.IsAlias() {
			continue
		}
		n, ok := o.Type().(*types.Named)
		switch {
		case !ok || n.NumMethods() == 0:
		case name == "" && (owner == nil || n.NumMethods() > owner.NumMethods()), name == s:
			owner = n
		}
	}
	return owner
}

// methods counts the methods of a type, and the files that they are in.
func (p *pkg) methods(n *types.Named) (methods, files int) {
	in := make(map[string]bool)
	for i := range n.NumMethods() {
		in[p.file(n.Method(i).Pos())] = true
	}
	return n.NumMethods(), len(in)
}

// functions calls f for all functions and methods that have a body.
func (p *pkg) functions(f func(d *ast.FuncDecl)) {
	for _, file := range p.files {
		for _, d := range file.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Body != nil {
				f(fn)
			}
		}
	}
}

// sizes returns the lines of all functions, in order.
func (p *pkg) sizes() (sizes []int) {
	p.functions(func(d *ast.FuncDecl) {
		sizes = append(sizes, p.fset.Position(d.End()).Line-p.fset.Position(d.Pos()).Line+1)
	})
	slices.Sort(sizes)
	return sizes
}
