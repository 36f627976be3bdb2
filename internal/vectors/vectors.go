// Package vectors is test support: it reads the golden vectors, the recorded
// behaviour of the reference implementations that volley's protocols are
// tested against.
//
// The committed set is compressed and built into the test binary. The
// environment variable VOLLEY_VECTORS names a folder that is used in its
// place: one sub-folder per protocol, in the same layout, uncompressed.
package vectors

import (
	"bytes"
	"compress/gzip"
	"embed"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"testing"
)

// EnvDir is the environment variable that names a folder of vectors to use in
// place of the committed set.
const EnvDir = "VOLLEY_VECTORS"

//go:embed all:testdata
var committed embed.FS

// Files returns the vector files of a protocol ("reliable", "netcode", ...) with
// sub-folders, by path without ".gz". Explanations (*.md) and hidden files are left out. A
// missing, empty or unreadable file or folder ends the test.
func Files(tb testing.TB, protocol string) map[string][]byte {
	tb.Helper()
	files, err := load(root(), protocol)
	if err != nil {
		tb.Fatalf("vectors: %v", err)
	}
	return files
}

// root returns the folder that holds one sub-folder per protocol.
func root() fs.FS {
	if dir := os.Getenv(EnvDir); dir != "" {
		return os.DirFS(dir)
	}
	sub, err := fs.Sub(committed, "testdata")
	if err != nil {
		panic("BUG: " + err.Error())
	}
	return sub
}

// load reads the files of one protocol below root.
func load(root fs.FS, protocol string) (map[string][]byte, error) {
	files := make(map[string][]byte)
	err := fs.WalkDir(root, protocol, func(name string, d fs.DirEntry, err error) error {
		hidden := strings.HasPrefix(path.Base(name), ".")
		if err != nil || d.IsDir() || hidden || path.Ext(name) == ".md" {
			return err
		}
		key := strings.TrimSuffix(strings.TrimPrefix(name, protocol+"/"), ".gz")
		if _, twice := files[key]; twice {
			return fmt.Errorf("%s is there twice, compressed and not", key)
		}
		files[key], err = read(root, name)
		return err
	})
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("no vectors for %s", protocol)
	}
	return files, nil
}

// read returns the content of a file, decompressed if its name ends in ".gz".
func read(root fs.FS, name string) ([]byte, error) {
	data, err := fs.ReadFile(root, name)
	if err != nil || path.Ext(name) != ".gz" {
		return data, err
	}
	zr, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if data, err = io.ReadAll(zr); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return data, nil
}
