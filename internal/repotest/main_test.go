package repotest

import (
	"io/fs"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// atRoot makes the root of the repository the working directory of a test, and looks at
// all its folders. So the go command knows that the result depends on all files, and runs
// the test again when one has changed. In a TestMain it would not notice.
func atRoot(t *testing.T) {
	t.Helper()
	t.Chdir("../..")
	require.NoError(t, filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Name() == ".git" && d.IsDir() {
			return fs.SkipDir
		}
		return err
	}))
}
