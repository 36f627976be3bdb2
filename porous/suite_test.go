package porous

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// connFiles are the files with the tests of connections. Those of a Listener, which
// proves addresses, limits and dials by itself, are elsewhere: over netcode its own
// Listener does that. So are those of what reads a socket of the system.
var connFiles = []string{"conn_test.go", "conn_end_test.go", "step_test.go", "explain_test.go", "nettest_test.go", "memory_test.go", "netcode_test.go"}

// plainOnly are the tests in these files that do not run over sessions of netcode,
// with why.
var plainOnly = map[string]string{
	"TestConfigErrors":      "nothing is sent",
	"TestIdleConnsAreSmall": "a Listener's",
}

// TestWhatRunsOverNetcode: every test of a connection runs over sessions of netcode
// as over plain datagrams, but for those that say why not.
func TestWhatRunsOverNetcode(t *testing.T) {
	over := 0
	for _, name := range connFiles {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		require.NoError(t, err)
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || !strings.HasPrefix(f.Name.Name, "Test") {
				continue
			}
			sealed := uses(f, "bubbles", "pairs", "sessions", "netcode")
			if plainOnly[f.Name.Name] == "" {
				require.True(t, sealed, "%s runs over netcode, by bubbles or pairs, or is named in plainOnly", f.Name.Name)
				over++
			}
		}
	}
	require.Greater(t, over, 25)
}

// uses reports whether a function mentions one of some names.
func uses(f *ast.FuncDecl, names ...string) (found bool) {
	ast.Inspect(f.Body, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok {
			found = found || slices.Contains(names, id.Name)
		}
		return true
	})
	return found
}
