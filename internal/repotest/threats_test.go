package repotest

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var threatTest = regexp.MustCompile(`Test[A-Z]\w*`)

// TestThreatsAreTested: the tests that docs/THREATS.md names exist, and each
// package of which it tells has some.
func TestThreatsAreTested(t *testing.T) {
	atRoot(t)
	text, err := os.ReadFile("docs/THREATS.md")
	require.NoError(t, err)
	_, bounds, ok := strings.Cut(string(text), "\n## Bounds and tests\n")
	require.True(t, ok)
	packages := make(map[string]int)
	rows := 0
	for _, line := range strings.Split(bounds, "\n") {
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| bound |") {
			continue
		}
		rows++
		cells := strings.Split(strings.Trim(line, "| "), " | ")
		require.Len(t, cells, 3, line)
		require.NotEmpty(t, threatTest.FindAllString(cells[2], -1), line)
		for _, name := range threatTest.FindAllString(cells[2], -1) {
			packages[strings.Trim(cells[1], "`")]++
			require.True(t, testExists(t, strings.Trim(cells[1], "`"), name), "%s has no %s: %s", cells[1], name, line)
		}
	}
	require.Greater(t, rows, 30)
	for _, dir := range []string{"volley", "reliable", "netcode", "secure", "porous", "riptide"} {
		require.NotZero(t, packages[dir], dir)
	}
	for _, name := range threatTest.FindAllString(string(text), -1) {
		require.Contains(t, bounds, name, "is named outside of the table")
	}
}

// testExists reports whether a folder has a test.
func testExists(t *testing.T, dir, name string) bool {
	if dir == "volley" {
		dir = "."
	}
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	require.NoError(t, err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		if strings.Contains(string(text), "\nfunc "+name+"(t *testing.T) {") {
			return true
		}
	}
	return false
}
