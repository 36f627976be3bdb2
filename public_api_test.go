package volley_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// TestPublicNamesOnly checks that no exported function, method, field or
// variable has a type of an internal package, which its users could not name and
// whose documents they would not find. An alias gives such a type a public name.
func TestPublicNamesOnly(t *testing.T) {
	for _, pkg := range publicPackages {
		dir := "." + strings.TrimPrefix(pkg, "volley")
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: no files, error %v", pkg, err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			fset := token.NewFileSet()
			f, err := parser.ParseFile(fset, file, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			for _, x := range internalTypes(f) {
				t.Errorf("%s: %s is in the public API", fset.Position(x.Pos()), x.X.(*ast.Ident).Name+"."+x.Sel.Name)
			}
		}
	}
}

// internalTypes returns where what a file exports speaks of internal packages.
func internalTypes(f *ast.File) (found []*ast.SelectorExpr) {
	internal := make(map[string]bool)
	for _, im := range f.Imports {
		if p, _ := strconv.Unquote(im.Path.Value); strings.Contains(p, "/internal/") {
			internal[path.Base(p)] = true
		}
	}
	look := func(n ast.Node) {
		ast.Inspect(n, func(n ast.Node) bool {
			if x, ok := n.(*ast.SelectorExpr); ok {
				if id, ok := x.X.(*ast.Ident); ok && internal[id.Name] {
					found = append(found, x)
				}
			}
			return true
		})
	}
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Name.IsExported() && exportedReceiver(d) {
				look(d.Type)
			}
		case *ast.GenDecl:
			for _, s := range d.Specs {
				switch s := s.(type) {
				case *ast.TypeSpec:
					if s.Name.IsExported() && !s.Assign.IsValid() {
						lookInType(s.Type, look)
					}
				case *ast.ValueSpec:
					if s.Names[0].IsExported() && s.Type != nil {
						look(s.Type)
					}
				}
			}
		}
	}
	return found
}

func exportedReceiver(d *ast.FuncDecl) bool {
	if d.Recv == nil {
		return true
	}
	t := d.Recv.List[0].Type
	if p, ok := t.(*ast.StarExpr); ok {
		t = p.X
	}
	if i, ok := t.(*ast.IndexExpr); ok {
		t = i.X
	}
	id, ok := t.(*ast.Ident)
	return !ok || id.IsExported()
}

// lookInType looks at what users see of a type: of a struct its exported fields,
// and those that are embedded.
func lookInType(t ast.Expr, look func(ast.Node)) {
	s, ok := t.(*ast.StructType)
	if !ok {
		look(t)
		return
	}
	for _, field := range s.Fields.List {
		if len(field.Names) == 0 || field.Names[0].IsExported() {
			look(field.Type)
		}
	}
}
