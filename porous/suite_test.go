package porous

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// plainOnly are the tests that do not run over sessions of netcode, with why.
var plainOnly = map[string]string{
	// A Listener of this package proves addresses, limits and dials by itself;
	// over netcode its Listener does, and NewListener is above it.
	"TestListener": "Listener", "TestListenerFlood": "Listener", "TestListenerFloodBesideAPeer": "Listener",
	"TestR13Sources": "Listener", "TestListenerLimits": "Listener", "TestListenerLimitsAtOnce": "Listener",
	"TestListenerLate": "Listener", "TestListenerClose": "Listener", "TestListenerMemory": "Listener",
	"TestListenersMeet": "Listener", "TestHolePunching": "Listener", "TestDialTakesOver": "Listener",
	"TestListenerDialErrors": "Listener", "TestShutdownWaits": "Listener", "TestShutdownEnds": "Listener",
	"TestShutdownAtOnce": "Listener", "TestSharedPort": "Listener",
	"TestThreatDefaults": "Listener", "TestThreatRequests": "Listener", "TestIdleConnsAreSmall": "Listener",
	"TestFloodSharesFrames": "Listener",
	// Who reads a socket of the system.
	"TestLoneReaderReadsTheSocket": "UDP", "TestReadersOfManyChannels": "UDP", "TestAcksWithoutReader": "UDP",
	// Nothing is sent, or only over Pipe.
	"TestConfigErrors": "errors", "TestDialErrors": "errors", "TestForever": "timers", "TestMain": "",
	"TestWhatRunsOverNetcode": "",
}

// TestWhatRunsOverNetcode: every test of a connection runs over sessions of netcode
// as over plain datagrams, but for those that say why not.
func TestWhatRunsOverNetcode(t *testing.T) {
	files, err := filepath.Glob("*_test.go")
	require.NoError(t, err)
	over := 0
	seen := map[string]bool{}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		require.NoError(t, err)
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || !strings.HasPrefix(f.Name.Name, "Test") {
				continue
			}
			seen[f.Name.Name] = true
			_, plain := plainOnly[f.Name.Name]
			sealed := uses(f, "bubbles", "pairs", "sessions", "netcode")
			require.NotEqual(t, plain, sealed, "%s runs over netcode, by bubbles or pairs, or is named in plainOnly", f.Name.Name)
			if sealed {
				over++
			}
		}
	}
	require.Greater(t, over, 25)
	for name := range plainOnly {
		require.True(t, seen[name], "there is no %s", name)
	}
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
