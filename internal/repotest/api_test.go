package repotest

import (
	"bytes"
	"flag"
	"fmt"
	"go/ast"
	"go/doc"
	"go/format"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the lists and baselines in testdata anew")

// maxNames bounds the exported names of all public packages. Fields and methods
// of interfaces do not count.
const maxNames = 650

// modules are public packages in modules of their own.
var modules = []string{"volley/fleet", "volley/webgate"}

// apart are packages that few programs need. Each exports at most maxApart names, which do
// not count for maxNames.
var apart = append([]string{"volley/secure"}, modules...)

const maxApart = 46

// TestAPI compares the exported names of each public package with the list in
// testdata/api, so that a change of the API shows as a change of that file.
func TestAPI(t *testing.T) {
	atRoot(t)
	for _, pkg := range slices.Concat(modules, publicPackages) {
		name := strings.TrimPrefix(pkg, module+"/")
		if pkg == module {
			name = "volley"
		}
		t.Run(name, func(t *testing.T) {
			file := filepath.Join("internal/repotest/testdata/api", name+".txt")
			have := apiOf(t, pkg)
			if *update {
				write(t, file, strings.Join(have, "\n")+"\n")
				return
			}
			text, err := os.ReadFile(file)
			if err != nil && !os.IsNotExist(err) {
				t.Fatal(err)
			}
			want := strings.Split(strings.TrimSpace(string(text)), "\n")
			var diff []string
			for _, line := range want {
				if !slices.Contains(have, line) {
					diff = append(diff, "- "+line)
				}
			}
			for _, line := range have {
				if !slices.Contains(want, line) {
					diff = append(diff, "+ "+line)
				}
			}
			if len(diff) > 0 {
				t.Errorf("the API of %s differs from %s:\n%s\nIf that is meant, run: go test ./internal/repotest -run API -update",
					pkg, file, strings.Join(diff, "\n"))
			}
		})
	}
}

// TestAPISize bounds how many names the public packages export together.
func TestAPISize(t *testing.T) {
	atRoot(t)
	total, each := 0, ""
	for _, pkg := range publicPackages {
		if slices.Contains(apart, pkg) {
			continue
		}
		n := names(t, pkg)
		each += fmt.Sprintf("\n%4d %s", n, pkg)
		total += n
	}
	t.Logf("%d exported names:%s", total, each)
	if total > maxNames {
		t.Errorf("the public packages export %d names, want at most %d", total, maxNames)
	}
	for _, pkg := range apart {
		n := names(t, pkg)
		t.Logf("%4d %s", n, pkg)
		if n > maxApart {
			t.Errorf("%s exports %d names, want at most %d", pkg, n, maxApart)
		}
	}
}

// names counts what a package exports.
func names(t *testing.T, pkg string) (n int) {
	for _, line := range apiOf(t, pkg) {
		if !strings.HasPrefix(line, "field ") && !strings.HasPrefix(line, "imethod ") {
			n++
		}
	}
	return n
}

// apiOf returns a sorted line for each exported const, var, func, type, method,
// struct field and interface method of a package. The methods of a type without an
// exported name count too if exported ones lead to it: as a result, a parameter, a
// field, or by an alias, and so do those of types of internal packages.
func apiOf(t *testing.T, pkg string) (lines []string) {
	t.Helper()
	p := parsePackage(t, pkg)
	add := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	values := func(kind string, list []*doc.Value) {
		for _, v := range list {
			typ := ""
			for _, s := range v.Decl.Specs {
				s := s.(*ast.ValueSpec)
				if s.Type != nil {
					typ = " " + oneLine(s.Type)
				} else if len(s.Values) > 0 {
					typ = ""
				}
				for _, name := range s.Names {
					if name.IsExported() {
						add("%s %s%s", kind, name.Name, typ)
					}
				}
			}
		}
	}
	funcs := func(list []*doc.Func) {
		for _, f := range list {
			signature := strings.TrimPrefix(oneLine(f.Decl.Type), "func")
			if f.Recv != "" {
				add("method (%s) %s%s", f.Recv, f.Name, signature)
			} else {
				add("func %s%s", f.Name, signature)
			}
		}
	}
	values("const", p.Consts)
	values("var", p.Vars)
	funcs(p.Funcs)
	for _, typ := range p.Types {
		values("const", typ.Consts)
		values("var", typ.Vars)
		funcs(typ.Funcs)
		funcs(typ.Methods)
		for _, s := range typ.Decl.Specs {
			lines = append(lines, typeLines(s.(*ast.TypeSpec))...)
		}
	}
	lines = append(lines, hiddenMethods(t, pkg)...)
	slices.Sort(lines)
	return slices.Compact(lines)
}

// typeLines returns the lines for a type and its fields, or methods if it is an
// interface.
func typeLines(s *ast.TypeSpec) (lines []string) {
	name := s.Name.Name
	members := func(kind string, list *ast.FieldList) {
		for _, f := range list.List {
			typ := oneLine(f.Type)
			for _, n := range f.Names {
				if n.IsExported() {
					lines = append(lines, fmt.Sprintf("%s %s.%s %s", kind, name, n.Name, typ))
				}
			}
			if len(f.Names) == 0 {
				lines = append(lines, fmt.Sprintf("%s %s embeds %s", kind, name, typ))
			}
		}
	}
	switch x := s.Type.(type) {
	case *ast.StructType:
		lines = append(lines, "type "+name+params(s)+" struct")
		members("field", x.Fields)
	case *ast.InterfaceType:
		lines = append(lines, "type "+name+params(s)+" interface")
		members("imethod", x.Methods)
	default:
		equals := " "
		if s.Assign.IsValid() {
			equals = " = "
		}
		lines = append(lines, "type "+name+params(s)+equals+oneLine(s.Type))
	}
	return lines
}

// params returns the type parameters of a type, or "".
func params(s *ast.TypeSpec) string {
	if s.TypeParams == nil {
		return ""
	}
	var all []string
	for _, f := range s.TypeParams.List {
		for _, n := range f.Names {
			all = append(all, n.Name+" "+oneLine(f.Type))
		}
	}
	return "[" + strings.Join(all, ", ") + "]"
}

// oneLine returns the source text of a type in one line.
func oneLine(n ast.Node) string {
	var b bytes.Buffer
	if err := format.Node(&b, token.NewFileSet(), n); err != nil {
		return err.Error()
	}
	return strings.Join(strings.Fields(b.String()), " ")
}

// parsePackage returns the documentation of a package of the module, of all
// platforms together.
func parsePackage(t *testing.T, pkg string) *doc.Package {
	t.Helper()
	fset, files := parseFiles(t, pkg)
	p, err := doc.NewFromFiles(fset, files, pkg)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// parseFiles returns the files of a package beside its tests.
func parseFiles(t *testing.T, pkg string) (*token.FileSet, []*ast.File) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(".", strings.TrimPrefix(pkg, module), "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	fset := token.NewFileSet()
	var files []*ast.File
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(fset, name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	return fset, files
}
