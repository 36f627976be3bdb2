package core

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// How many requirements each section of the protocol's description has: of the
// host, states, the handshake, disconnecting, the transfer layer, the sequencing
// layer, and improvements.
var sections = map[string]int{"H": 6, "S": 4, "C": 13, "D": 7, "T": 16, "Q": 14, "R": 17}

// TestEveryRequirementHasATest: the name of a test, or the comment before it,
// tells which requirements it is about, and none is missing.
func TestEveryRequirementHasATest(t *testing.T) {
	named := map[string][]string{} // tests by requirement
	for _, dir := range []string{".", "../.."} {
		files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
		require.NoError(t, err)
		for _, name := range files {
			file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
			require.NoError(t, err)
			for _, d := range file.Decls {
				if f, ok := d.(*ast.FuncDecl); ok && strings.HasPrefix(f.Name.Name, "Test") {
					for _, r := range requirementsOf(f) {
						named[r] = append(named[r], f.Name.Name)
					}
				}
			}
		}
	}
	for section, n := range sections {
		for i := 1; i <= n; i++ {
			r := fmt.Sprint(section, i)
			require.NotEmpty(t, named[r], "no test names %s", r)
			delete(named, r)
		}
	}
	require.Empty(t, slices.Collect(maps.Keys(named)), "tests name what there is not")
}

var (
	inName    = regexp.MustCompile(`[HSCDTQR]\d+`)
	inComment = regexp.MustCompile(`\b[HSCDTQR]\d+\b`)
)

func requirementsOf(f *ast.FuncDecl) []string {
	name := strings.TrimPrefix(f.Name.Name, "Test")
	return append(inName.FindAllString(name, -1), inComment.FindAllString(f.Doc.Text(), -1)...)
}
