package repotest

import (
	"fmt"
	"go/ast"
	"go/token"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// A decls is the declarations of a package by name.
type decls struct {
	types   map[string]*ast.TypeSpec
	methods map[string][]*ast.FuncDecl // exported ones, by the type of the receiver
	imports map[string]string          // name to path
	funcs   []*ast.FuncDecl            // exported ones without a receiver
}

func declsOf(t *testing.T, pkg string) *decls {
	t.Helper()
	d := &decls{map[string]*ast.TypeSpec{}, map[string][]*ast.FuncDecl{}, map[string]string{}, nil}
	_, files := parseFiles(t, pkg)
	for _, f := range files {
		for _, i := range f.Imports {
			p, _ := strconv.Unquote(i.Path.Value)
			d.imports[path.Base(p)] = p
		}
		for _, decl := range f.Decls {
			switch decl := decl.(type) {
			case *ast.GenDecl:
				for _, s := range decl.Specs {
					if s, ok := s.(*ast.TypeSpec); ok && decl.Tok == token.TYPE {
						d.types[s.Name.Name] = s
					}
				}
			case *ast.FuncDecl:
				switch {
				case !decl.Name.IsExported():
				case decl.Recv == nil:
					d.funcs = append(d.funcs, decl)
				default:
					on := receiver(decl)
					d.methods[on] = append(d.methods[on], decl)
				}
			}
		}
	}
	return d
}

// receiver returns the name of the type that a method belongs to.
func receiver(f *ast.FuncDecl) (name string) {
	ast.Inspect(f.Recv.List[0].Type, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok && name == "" {
			name = id.Name
		}
		return name == ""
	})
	return name
}

// hiddenMethods returns lines for the methods that a user can call although no
// exported name of the package shows them. A type is reached if an exported function,
// method, field or alias mentions it.
func hiddenMethods(t *testing.T, pkg string) (lines []string) {
	t.Helper()
	packages := map[string]*decls{}
	seen := map[string]bool{}
	var reach func(pkg, name string)
	// follow reaches the types that are mentioned in a node.
	follow := func(pkg string, n ast.Node) {
		ast.Inspect(n, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.SelectorExpr:
				if x, ok := n.X.(*ast.Ident); ok {
					if p := packages[pkg].imports[x.Name]; strings.HasPrefix(p, module+"/") && strings.Contains(p, "internal/") {
						reach(p, n.Sel.Name)
					}
				}
				return false
			case *ast.Ident:
				if packages[pkg].types[n.Name] != nil && !n.IsExported() {
					reach(pkg, n.Name)
				}
			}
			return true
		})
	}
	load := func(pkg string) *decls {
		if packages[pkg] == nil {
			packages[pkg] = declsOf(t, pkg)
		}
		return packages[pkg]
	}
	visit := func(pkg, name string) {
		d := load(pkg)
		for _, m := range d.methods[name] {
			follow(pkg, m.Type)
		}
		if s := d.types[name]; s != nil {
			followType(s, func(n ast.Node) { follow(pkg, n) })
		}
	}
	reach = func(from, name string) {
		if key := from + "." + name; seen[key] {
			return
		} else {
			seen[key] = true
		}
		for _, m := range load(from).methods[name] {
			shown := name
			if from != pkg {
				shown = path.Base(from) + "." + name
			}
			lines = append(lines, fmt.Sprintf("method (%s) %s%s", shown, m.Name, strings.TrimPrefix(oneLine(m.Type), "func")))
		}
		visit(from, name)
	}
	d := load(pkg)
	for _, f := range d.funcs {
		follow(pkg, f.Type)
	}
	for name := range d.types {
		if ast.IsExported(name) {
			visit(pkg, name)
		}
	}
	return lines
}

// followType calls f for what a user sees of a type: exported fields and methods.
func followType(s *ast.TypeSpec, f func(ast.Node)) {
	switch x := s.Type.(type) {
	case *ast.StructType:
		for _, field := range x.Fields.List {
			// Package go/doc shows the methods that come from an embedded type of the package.
			if _, ok := field.Type.(*ast.Ident); len(field.Names) == 0 && !ok || len(field.Names) > 0 && field.Names[0].IsExported() {
				f(field.Type)
			}
		}
	case *ast.InterfaceType:
		for _, m := range x.Methods.List {
			if len(m.Names) == 0 || m.Names[0].IsExported() {
				f(m.Type)
			}
		}
	case *ast.Ident, *ast.SelectorExpr: // a defined type inherits no methods, an alias has them
		if s.Assign.IsValid() {
			f(x)
		}
	default:
		f(x)
	}
}

func TestHiddenMethods(t *testing.T) {
	atRoot(t)
	lines := hiddenMethods(t, module+"/internal/repotest/testdata/hidden")
	slices.Sort(lines)
	lines = slices.DeleteFunc(lines, func(line string) bool {
		return strings.HasPrefix(line, "method (wire.Batch)") && !strings.Contains(line, "Append")
	})
	want := []string{
		"method (twice) E()", "method (viaAlias) C()", "method (viaField) A()", "method (viaFunc) D()",
		"method (viaMethod) B() map[int]twice", "method (wire.Batch) Append(p []byte)",
	}
	if !slices.Equal(lines, want) {
		t.Errorf("hidden methods %q, want %q", lines, want)
	}
}
