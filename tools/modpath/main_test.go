package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// tree is a library of two modules, before and after.
var tree = map[string][2]string{
	"go.mod": {"module lib\n\ngo 1.26\n", "module example.com/x/lib\n\ngo 1.26\n"},
	"lib.go": {
		"// Package lib is lib. See [lib/part.Name].\npackage lib\n\nimport (\n\t\"fmt\"\n\n\t\"lib/part\"\n)\n\n" +
			"const Name = \"lib\"\n\nconst path = \"lib\" // module path\n\nvar _ = fmt.Sprint(part.Name, \"lib/part\", \"lib/else\", \"/lib/part\", path)\n",
		"// Package lib is lib. See [example.com/x/lib/part.Name].\npackage lib\n\nimport (\n\t\"fmt\"\n\n\t\"example.com/x/lib/part\"\n)\n\n" +
			"const Name = \"lib\"\n\nconst path = \"example.com/x/lib\" // module path\n\nvar _ = fmt.Sprint(part.Name, \"example.com/x/lib/part\", \"lib/else\", \"/lib/part\", path)\n",
	},
	"part/part.go":    {"package part\n\nconst Name = \"part\"\n", "package part\n\nconst Name = \"part\"\n"},
	"part/testdata/x": {"lib/part\n", "lib/part\n"},
	"sub/go.mod": {
		"module lib/sub\n\ngo 1.26\n\nrequire (\n\tlib v0.0.0\n\tlib/part/unused v0.0.0 // indirect\n)\n\nreplace lib => ../\n\nreplace lib/part/unused => ../unused\n",
		"module example.com/x/lib/sub\n\ngo 1.26\n\nrequire (\n\texample.com/x/lib v0.0.0\n\texample.com/x/lib/part/unused v0.0.0 // indirect\n)\n\nreplace example.com/x/lib => ../\n\nreplace example.com/x/lib/part/unused => ../unused\n",
	},
	"unused/go.mod": {"module lib/part/unused\n", "module example.com/x/lib/part/unused\n"},
	"sub/sub.go": {
		"package main\n\nimport (\n\t\"lib\"\n\t\"net\"\n)\n\nfunc main() { println(lib.Name, net.FlagUp) }\n",
		"package main\n\nimport (\n\t\"example.com/x/lib\"\n\t\"net\"\n)\n\nfunc main() { println(lib.Name, net.FlagUp) }\n",
	},
	"README.md": {
		"# lib\n\nThe module path is `lib`, a part is `lib/part`, and ../lib/part a folder.\n\n<!-- imports: net lib lib/part -->\n\n" +
			"```go\nimport \"lib\"\n\t\"lib\" // comment\n\t\"lib\"\n```\n\n`go doc -all lib`, `go doc lib/part`: see lib.\n\ngo mod edit -require=lib@v0.0.0 -replace=lib=../lib\n",
		"# lib\n\nThe module path is `example.com/x/lib`, a part is `example.com/x/lib/part`, and ../lib/part a folder.\n\n<!-- imports: net example.com/x/lib example.com/x/lib/part -->\n\n" +
			"```go\nimport \"example.com/x/lib\"\n\t\"lib\" // comment\n\t\"example.com/x/lib\"\n```\n\n`go doc -all example.com/x/lib`, `go doc example.com/x/lib/part`: see lib.\n\ngo mod edit -require=example.com/x/lib@v0.0.0 -replace=example.com/x/lib=../lib\n",
	},
	".ci/run":       {"readonly module=lib\ngo test lib/... lib/part\n", "readonly module=example.com/x/lib\ngo test example.com/x/lib/... example.com/x/lib/part\n"},
	".git/notes.md": {"`lib/part`\n", "`lib/part`\n"},
}

// TestRename gives a small tree another path: all of it builds, and back it is as
// it was.
func TestRename(t *testing.T) {
	t.Setenv("GOWORK", "off")
	t.Setenv("GOFLAGS", "-mod=mod")
	dir := t.TempDir()
	for name, text := range tree {
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text[0]), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	for i, path := range []string{"example.com/x/lib", "lib"} {
		modules, err := rename(dir, path)
		if err != nil || len(modules) != 3 {
			t.Fatalf("rename = %q, %v", modules, err)
		}
		for name, text := range tree {
			if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != text[1-i] {
				t.Errorf("%s: error %v, is\n%s\nwant\n%s", name, err, got, text[1-i])
			}
		}
		if !testing.Short() {
			if err := vetAll([]string{dir, filepath.Join(dir, "sub")}); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestBadPath: what is no module path changes nothing.
func TestBadPath(t *testing.T) {
	for _, path := range []string{"", "a b", "/a", "a/", "a//b", "../a", "a/.b", `a"b`} {
		if _, err := rename(t.TempDir(), path); err == nil || !strings.Contains(err.Error(), "is not a module path") {
			t.Errorf("%q: %v", path, err)
		}
	}
}
