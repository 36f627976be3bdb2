package vectors

import (
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"
)

func compress(t *testing.T, s string) []byte {
	t.Helper()
	var b bytes.Buffer
	zw := gzip.NewWriter(&b)
	if _, err := zw.Write([]byte(s)); err != nil {
		t.Fatal(err)
	}
	if err := zw.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestLoad(t *testing.T) {
	root := fstest.MapFS{
		"p/a.json":        {Data: []byte("plain")},
		"p/sub/b.json.gz": {Data: compress(t, "packed")},
		"p/README.md":     {Data: []byte("text")},
		"q/a.json":        {Data: []byte("other")},
		"empty/README.md": {Data: []byte("text")},
		"bad/a.json.gz":   {Data: []byte("not gzip")},
		"both/a.json.gz":  {Data: compress(t, "1")},
		"both/a.json":     {Data: []byte("2")},
	}
	files, err := load(root, "p")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"a.json": "plain", "sub/b.json": "packed"}
	if len(files) != len(want) {
		t.Errorf("load(p) = %d files, want %d", len(files), len(want))
	}
	for name, content := range want {
		if string(files[name]) != content {
			t.Errorf("load(p)[%s] = %q, want %q", name, files[name], content)
		}
	}
	for _, protocol := range []string{"empty", "missing", "bad", "both"} {
		if _, err := load(root, protocol); err == nil {
			t.Errorf("load(%s) succeeded, want an error", protocol)
		}
	}
}

func TestFilesOfAnotherFolder(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "p"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "p", "x.json"), []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Setenv(EnvDir, dir)
	if got := Files(t, "p"); len(got) != 1 || string(got["x.json"]) != "x" {
		t.Errorf("Files(p) = %v, want x.json alone", got)
	}
}
