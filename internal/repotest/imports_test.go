package repotest

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// An importRule says what a package may import beside the standard library.
// A path that ends in /... stands for all below it, too.
type importRule struct {
	modules []string // other modules
	allow   []string // packages of this module
	test    []string // and more of them in internal tests; external ones are free
	// core packages are told the time and have no effect on the world: they
	// import nothing of coreDenied, call no clock and start no goroutine.
	core bool
	// coreFiles are the files of a package that are a core, where not all are.
	coreFiles []string
}

const module = "volley" // module path

// importRules holds the table of docs/ARCHITECTURE.md. A package that is not
// listed has the rule of the longest listed path it lies below.
var importRules = map[string]importRule{
	module: {
		allow: []string{"volley/capture", "volley/reliable", "volley/internal/..."},
		test:  []string{"volley/simnet"},
	},
	"volley/reliable":         {core: true, allow: []string{"volley/internal/inner", "volley/internal/seq", "volley/internal/wire"}, test: []string{"volley/internal/vectors", "volley/internal/tape"}},
	"volley/internal/seq":     {core: true},
	"volley/internal/wire":    {core: true},
	"volley/internal/vectors": {},
	"volley/internal/inner":   {core: true, allow: []string{"volley/internal/wire"}},
	"volley/capture":          {allow: []string{"volley/internal/recording"}},
	"volley/simnet":           {allow: []string{"volley/internal/deadline"}, test: []string{"volley/internal/loopback"}},
	"volley/internal": {
		allow: []string{"volley/internal/..."},
		test:  []string{"volley/simnet"},
	},
	"volley/internal/replay": {allow: []string{"volley/capture", "volley/internal/recording"}},
	"volley/internal/dissect": {
		modules: []string{"golang.org/x/crypto"},
		test:    []string{"volley/internal/vectors"},
		core:    true,
	},
	"volley/internal/stacktest": {allow: []string{"volley/..."}},
	"volley/netcode": {
		modules: []string{"golang.org/x/crypto"},
		allow:   []string{"volley/internal/..."},
		test:    []string{"volley/simnet"},
		coreFiles: []string{
			"client.go", "server.go", "server_handshake.go", "handshakes.go", "history.go", "slots.go",
			"session.go", "halves.go", "replay.go", "cipher.go", "challenge.go", "private.go", "request.go", "constants.go",
		},
	},
	"volley/secure": {allow: []string{"volley/netcode", "volley/internal/..."}, test: []string{"volley/simnet"}},
	"volley/porous/internal/core": {
		core: true, allow: []string{"volley/internal/wire"},
		test: []string{"volley/internal/vectors", "volley/internal/dissect", "volley/internal/tape"},
	},
	"volley/porous": {allow: []string{"volley/capture", "volley/internal/...", "volley/porous/internal/..."}, test: []string{"volley/simnet"}},
	"volley/riptide": {
		allow: []string{"volley/internal/..."},
		test:  []string{"volley/simnet"},
		coreFiles: []string{
			"layout.go", "message.go", "values.go", "slices.go", "reasons.go", "stats.go",
			"packet.go", "layouts.go", "history.go", "rtt.go", "sender.go", "notify.go", "quality.go",
			"connection.go", "receive.go", "recent.go", "lobby.go",
		},
	},
	"volley/volleydebug":             {allow: []string{"volley/internal/registry"}, test: []string{"volley/internal/leaktest", "volley/internal/loopback"}},
	"volley/netplay":                 {test: []string{"volley/internal/vectors", "volley/internal/dissect", "volley/internal/tape"}},
	"volley/examples":                {allow: publicPackages},
	"volley/volleydebug/browsertest": {modules: []string{anyModule}, allow: publicPackages},
	"volley/webgate": {
		modules: []string{"github.com/quic-go", "github.com/coder/websocket"},
		allow:   []string{module}, // in examples
		test:    []string{"volley/internal/leaktest"},
	},
	"volley/webgate/examples":    {allow: []string{module, "volley/webgate"}},
	"volley/webgate/browsertest": {modules: []string{anyModule}, allow: append([]string{"volley/webgate"}, publicPackages...), test: []string{"volley/internal/vectors"}},
	"volley/fleet": {
		modules: []string{"github.com/nats-io"},
		allow:   []string{"volley/secure", "volley/internal/handover", "volley/internal/registry", "volley/fleet/internal/hook"},
		test:    []string{"volley/internal/leaktest", "volley/simnet", "volley/volleydebug"},
	},
	"volley/fleet/internal": {},
	"volley/fleet/drill": {
		modules: []string{"github.com/nats-io"},
		allow:   []string{"volley/fleet", "volley/fleet/internal/hook", "volley/secure", "volley/netcode", "volley/internal/handover"},
		test:    []string{"volley/internal/leaktest", "volley/internal/netnstest"},
	},
	"volley/fleet/examples":     {modules: []string{"github.com/nats-io"}, allow: []string{module, "volley/fleet", "volley/secure", "volley/porous"}, test: []string{"volley/internal/leaktest"}},
	"volley/exporters/internal": {allow: []string{"volley/volleydebug"}},
	"volley/exporters": {
		modules: []string{"github.com/prometheus", "go.opentelemetry.io/otel"},
		allow:   append([]string{"volley/exporters/internal/..."}, publicPackages...),
	},
	"volley/cmd/volley": {
		modules: []string{anyModule},
		allow:   append([]string{"volley/cmd/volley/...", "volley/internal/dissect", "volley/webgate"}, publicPackages...),
		test:    []string{"volley/internal/loopback", "volley/internal/netnstest", "volley/internal/recording", "volley/internal/vectors"},
	},
	"volley/bench":   {modules: []string{anyModule}, allow: append([]string{"volley/bench/...", "volley/exporters/volleyprom"}, publicPackages...), test: []string{"volley/internal/sideband"}},
	"volley/interop": {modules: []string{anyModule}, allow: publicPackages},
	"volley/tools":   {},
}

// publicPackages are what programs use.
var publicPackages = []string{module, "volley/capture", "volley/reliable", "volley/netcode", "volley/secure", "volley/porous", "volley/riptide", "volley/netplay", "volley/simnet", "volley/volleydebug"}

const anyModule = "..."

// testModules and testPackages may be imported by every test.
var (
	testModules  = []string{"golang.org/x/net", "github.com/stretchr/testify/require"}
	testPackages = []string{"volley/internal/testenv"}
)

// coreDenied are families of the standard library that a core has no use for.
var coreDenied = []string{"net/...", "sync/...", "log/...", "os/...", "runtime/...", "syscall/...", "context/...", "math/rand/..."}

// deniedToFile reports whether a file that is a core must not import p. The
// addresses of net/netip are plain values, which handshakes are about.
func deniedToFile(p string) bool { return p != "net/netip" && matches(coreDenied, p) }

// clocks are the functions of package time that a core must not use.
var clocks = []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker"}

// ruleOf returns the rule for a package of this module.
func ruleOf(pkg string) (rule importRule, ok bool) {
	for p := pkg; p != "."; p = path.Dir(p) {
		if rule, ok = importRules[p]; ok {
			return rule, p != module || pkg == module
		}
	}
	return rule, false
}

// matches reports whether one of the patterns stands for the path.
func matches(patterns []string, p string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		if pattern == p {
			return true
		}
		dir, below := strings.CutSuffix(pattern, "/...")
		return below && (p == dir || strings.HasPrefix(p, dir+"/"))
	})
}

// A fileKind tells the files of a package apart.
type fileKind int

const (
	source       fileKind = iota
	internalTest          // a test in the package itself
	externalTest          // a test in the package's _test package
)

// checkImport returns what is wrong with an import in a file of pkg, or "".
func checkImport(pkg, imported string, kind fileKind) string {
	rule, ok := ruleOf(pkg)
	if !ok {
		return "has no import rule: add it to importRules and to docs/ARCHITECTURE.md"
	}
	first, _, _ := strings.Cut(imported, "/")
	switch {
	case imported == module || strings.HasPrefix(imported, module+"/"):
		if matches(rule.allow, imported) || kind == externalTest || kind == internalTest && matches(slices.Concat(rule.test, testPackages), imported) {
			return ""
		}
	case strings.Contains(first, "."):
		if inModules(rule.modules, imported) || kind != source && inModules(testModules, imported) {
			return ""
		}
	case !rule.core || kind != source || !matches(coreDenied, imported):
		return ""
	}
	return fmt.Sprintf("must not import %s", imported)
}

func inModules(modules []string, p string) bool {
	return slices.ContainsFunc(modules, func(m string) bool {
		return m == anyModule || matches([]string{m + "/..."}, p)
	})
}

// checkCore returns what a file of a core does that it must not: use a clock,
// or start a goroutine.
func checkCore(f *ast.File) (found []string) {
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			found = append(found, "must not start a goroutine")
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok && x.Name == "time" && slices.Contains(clocks, n.Sel.Name) {
				found = append(found, "must not use time."+n.Sel.Name)
			}
		}
		return true
	})
	return found
}

// TestImports checks every Go file of the module, and of the modules inside
// it, for all platforms and build tags.
func TestImports(t *testing.T) {
	atRoot(t)
	files := 0
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") && name != "."):
			return filepath.SkipDir
		case d.IsDir() || path.Ext(name) != ".go":
			return nil
		}
		files++
		checkFile(t, name)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 20 {
		t.Errorf("saw %d Go files, want the whole module", files)
	}
}

func checkFile(t *testing.T, name string) {
	f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Error(err)
		return
	}
	name = filepath.ToSlash(name)
	pkg, kind := path.Join(module, path.Dir(name)), source
	if strings.HasSuffix(name, "_test.go") {
		kind = internalTest
		if strings.HasSuffix(f.Name.Name, "_test") {
			kind = externalTest
		}
	}
	for _, spec := range f.Imports {
		imported, _ := strconv.Unquote(spec.Path.Value)
		if problem := checkImport(pkg, imported, kind); problem != "" {
			t.Errorf("%s: %s %s", name, pkg, problem)
		}
	}
	rule, _ := ruleOf(pkg)
	part := slices.Contains(rule.coreFiles, path.Base(name))
	if kind != source || !rule.core && !part {
		return
	}
	problems := checkCore(f)
	if part {
		problems = append(problems, deniedImports(f)...)
	}
	for _, problem := range problems {
		t.Errorf("%s: a core %s", name, problem)
	}
}

// deniedImports returns what a file that is a core imports and must not.
func deniedImports(f *ast.File) (problems []string) {
	for _, spec := range f.Imports {
		if imported, _ := strconv.Unquote(spec.Path.Value); deniedToFile(imported) {
			problems = append(problems, "must not import "+imported)
		}
	}
	return problems
}

// TestImportCoreFiles checks that the files marked as a core are there.
func TestImportCoreFiles(t *testing.T) {
	atRoot(t)
	for pkg, rule := range importRules {
		for _, name := range rule.coreFiles {
			if _, err := os.Stat(filepath.Join(strings.TrimPrefix(pkg, module+"/"), name)); err != nil {
				t.Errorf("%s: %v", pkg, err)
			}
		}
	}
}

// TestImportsPublic checks that what a package exports shows no type of an
// internal one, which its users could neither name nor look up.
func TestImportsPublic(t *testing.T) {
	atRoot(t)
	for _, pkg := range publicPackages {
		dir := path.Join(".", strings.TrimPrefix(strings.TrimPrefix(pkg, module), "/"))
		files, err := filepath.Glob(path.Join(dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range files {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			for _, shown := range internalShown(f) {
				t.Errorf("%s: %s", name, shown)
			}
		}
	}
}

// internalShown returns the exported declarations of a file that show a type of
// an internal package.
func internalShown(f *ast.File) (found []string) {
	internal := make(map[string]bool)
	for _, spec := range f.Imports {
		if p, _ := strconv.Unquote(spec.Path.Value); strings.Contains(p, "/internal/") {
			internal[path.Base(p)] = true
		}
	}
	var look func(name string, n ast.Node)
	look = func(name string, n ast.Node) {
		ast.Inspect(n, func(n ast.Node) bool {
			if s, ok := n.(*ast.StructType); ok {
				for _, field := range s.Fields.List {
					if len(field.Names) == 0 || slices.ContainsFunc(field.Names, (*ast.Ident).IsExported) {
						look(name, field.Type)
					}
				}
				return false
			}
			if sel, ok := n.(*ast.SelectorExpr); ok {
				if x, ok := sel.X.(*ast.Ident); ok && internal[x.Name] {
					found = append(found, fmt.Sprintf("%s shows %s.%s", name, x.Name, sel.Sel.Name))
				}
			}
			return true
		})
	}
	for _, decl := range f.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			if d.Name.IsExported() && receiverExported(d) {
				for _, list := range []*ast.FieldList{d.Type.Params, d.Type.Results} {
					if list == nil {
						continue
					}
					for _, field := range list.List {
						look(d.Name.Name, field.Type)
					}
				}
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch s := spec.(type) {
				case *ast.TypeSpec:
					if s.Name.IsExported() && !s.Assign.IsValid() { // an alias gives it a public name
						look(s.Name.Name, s.Type)
					}
				case *ast.ValueSpec:
					if s.Type != nil && slices.ContainsFunc(s.Names, (*ast.Ident).IsExported) {
						look(s.Names[0].Name, s.Type)
					}
				}
			}
		}
	}
	return found
}

// receiverExported reports whether a function has no receiver, or one of an
// exported type.
func receiverExported(d *ast.FuncDecl) bool {
	if d.Recv == nil {
		return true
	}
	t := d.Recv.List[0].Type
	for {
		switch x := t.(type) {
		case *ast.StarExpr:
			t = x.X
		case *ast.IndexExpr:
			t = x.X
		case *ast.Ident:
			return x.IsExported()
		default:
			return true
		}
	}
}

// TestImportsModules checks what a user of the library downloads: the modules
// that its packages depend on, directly or not.
func TestImportsModules(t *testing.T) {
	atRoot(t)
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("no go command")
	}
	cmd := exec.Command("go", "list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", "./...")
	cmd.Env = append(os.Environ(), "GOWORK=off")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v\n%s", cmd, err, &stderr)
	}
	modules := strings.Fields(string(out))
	if !slices.Contains(modules, module) {
		t.Fatalf("%v does not list this module", cmd)
	}
	slices.Sort(modules)
	for _, m := range slices.Compact(modules) {
		switch m {
		case module, "golang.org/x/crypto", "golang.org/x/sys":
		default:
			t.Errorf("the library depends on module %s", m)
		}
	}
}

// TestImportRules checks the checks.
func TestImportRules(t *testing.T) {
	atRoot(t)
	for _, test := range []struct {
		pkg, imported string
		kind          fileKind
		ok            bool
	}{
		{module, "net", source, true},
		{module, "volley/reliable", source, true},
		{module, "volley/simnet", source, false},
		{module, "volley/simnet", internalTest, true},
		{module, "volley/internal/datagram", source, true},
		{module, "golang.org/x/net/nettest", internalTest, true},
		{module, "github.com/someone/else", internalTest, false},
		{module, "github.com/stretchr/testify/require", internalTest, true},
		{module, "github.com/stretchr/testify/require", source, false},
		{module, "github.com/stretchr/testify/assert", internalTest, false},
		{"volley/netplay", "volley/internal/vectors", source, false},
		{module, "golang.org/x/crypto/chacha20poly1305", source, false},
		{module, "volley/netcode", source, false},
		{module, "volley/netcode", internalTest, false},
		{module, "volley/netcode", externalTest, true},
		{module, "volley/porous", source, false},
		{"volley/reliable", "time", source, true},
		{"volley/reliable", "volley/internal/seq", source, true},
		{"volley/reliable", "volley/internal/datagram", source, false},
		{"volley/reliable", module, source, false},
		{"volley/reliable", "net/netip", source, false},
		{"volley/reliable", "net/netip", internalTest, true},
		{"volley/reliable", "sync/atomic", source, false},
		{"volley/reliable", "log/slog", source, false},
		{"volley/reliable", "golang.org/x/net/ipv4", source, false},
		{"volley/internal/wire", "sync", source, false},
		{"volley/internal/seq", "volley/reliable", source, false},
		{"volley/internal/inbox", "volley/internal/deadline", source, true},
		{"volley/internal/inbox", "volley/reliable", source, false},
		{"volley/internal/inbox", module, internalTest, false},
		{"volley/internal/stacktest", "volley/netcode", source, true},
		{"volley/netcode", "golang.org/x/crypto/chacha20poly1305", source, true},
		{"volley/netcode", "volley/simnet", internalTest, true},
		{"volley/netcode", "volley/simnet", source, false},
		{"volley/netcode", module, internalTest, false},
		{"volley/netcode", "volley/reliable", source, false},
		{"volley/porous", "volley/netcode", internalTest, false},
		{"volley/porous", "volley/porous/internal/core", source, true},
		{"volley/porous/internal/core", "volley/internal/wire", source, true},
		{"volley/porous/internal/core", "volley/internal/datagram", source, false},
		{"volley/porous/internal/core", "sync", source, false},
		{"volley/porous", "volley/netcode", externalTest, true},
		{"volley/porous", "github.com/someone/else", externalTest, false},
		{"volley/porous", "golang.org/x/crypto/chacha20", source, false},
		{"volley/riptide", "volley/porous", source, false},
		{"volley/secure", "volley/netcode", source, true},
		{"volley/secure", module, source, false},
		{"volley/secure", "golang.org/x/crypto/chacha20poly1305", source, false},
		{"volley/netplay", "encoding/binary", source, true},
		{"volley/netplay", "volley/internal/wire", source, false},
		{"volley/simnet", "volley/internal/wire", source, false},
		{"volley/simnet", "volley/internal/testenv", internalTest, true},
		{"volley/simnet", "volley/internal/testenv", source, false},
		{"volley/examples/echo", module, source, true},
		{"volley/examples/echo", "volley/internal/wire", source, false},
		{"volley/examples/echo", "github.com/spf13/cobra", source, false},
		{"volley/cmd/volley", "github.com/spf13/cobra", source, true},
		{"volley/cmd/volley/internal/demo", "volley/simnet", source, true},
		{"volley/cmd/volley", "volley/internal/wire", source, false},
		{"volley/bench", "github.com/quic-go/quic-go", source, true},
		{"volley/webgate", "github.com/quic-go/webtransport-go", source, true},
		{"volley/webgate", "volley/internal/wire", source, false},
		{"volley/examples/echo", "volley/webgate", source, false},
		{"volley/newcomer", "net", source, false},
	} {
		problem := checkImport(test.pkg, test.imported, test.kind)
		if (problem == "") != test.ok {
			t.Errorf("checkImport(%s, %s, %d) = %q, want ok: %v", test.pkg, test.imported, test.kind, problem, test.ok)
		}
	}
	for src, want := range map[string]int{
		"type T struct { a wire.Batch; b func(wire.Batch) }":                                              0,
		"type T struct { A wire.Batch; B func(wire.Batch) }":                                              2,
		"type t struct { A wire.Batch }\nfunc (t) F() wire.Batch { return nil }":                          0,
		"func F(a int) (b int, c *wire.Batch) { var d wire.Batch; return 0, &d }":                         1,
		"type T int\nfunc (*T) F(f func([]wire.Batch)) {}\nfunc (T) g(wire.Batch) {}":                     1,
		"type T[X any] struct { *wire.Batch }\nfunc (*T[X]) F(m map[int]wire.Batch) {}\nvar V wire.Batch": 3,
	} {
		f, err := parser.ParseFile(token.NewFileSet(), "", "package p\nimport \"volley/internal/wire\"\n"+src, 0)
		if err != nil {
			t.Fatal(err)
		}
		if found := internalShown(f); len(found) != want {
			t.Errorf("internalShown(%s) = %q, want %d", src, found, want)
		}
	}
	for src, want := range map[string]int{
		"func f(t time.Time) time.Duration { return t.Sub(t) + time.Second }": 0,
		"func f() { time.Sleep(time.Until(time.Now())) }":                     3,
		"var clock = time.Now": 1,
		"func f() { go f() }":  1,
	} {
		f, err := parser.ParseFile(token.NewFileSet(), "", "package p\n"+src, 0)
		if err != nil {
			t.Fatal(err)
		}
		if found := checkCore(f); len(found) != want {
			t.Errorf("checkCore(%s) = %q, want %d problems", src, found, want)
		}
	}
}
