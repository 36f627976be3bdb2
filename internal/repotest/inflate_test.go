package repotest

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestNobodyElseInflates: of the library only netplay expands what a peer has sent, and the
// dissector takes the same messages apart, each within a limit. The test data are compressed.
func TestNobodyElseInflates(t *testing.T) {
	atRoot(t)
	found := make(map[string]bool)
	err := filepath.WalkDir(".", func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
			return err
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, i := range f.Imports {
			if strings.HasPrefix(i.Path.Value, `"compress/`) {
				found[path.Dir(filepath.ToSlash(file))] = true
			}
		}
		return nil
	})
	require.NoError(t, err)
	require.Equal(t, map[string]bool{"netplay": true, "internal/vectors": true, "internal/dissect": true}, found)
}
