package vectors

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"
)

func TestRecordings(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "p"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"a.json":  `{"cases":[{"hex":"01ff","other":"02"},{"hex":"01ff"},{"wire":["03",{"hex":"04"}]}],"wire":"words"}`,
		"b.jsonl": "{\"hex\":\"05\"}\n{\"hex\":\"\"}\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, "p", name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv(EnvDir, dir)
	want := []Recording{
		{"a.json", "hex", []byte{1, 0xff}}, {"a.json", "wire", []byte{3}}, {"a.json", "hex", []byte{4}},
		{"b.jsonl", "hex", []byte{5}}, {"b.jsonl", "hex", []byte{}},
	}
	if got := Recordings(t, "p", "hex", "wire"); !reflect.DeepEqual(got, want) {
		t.Errorf("Recordings = %v, want %v", got, want)
	}
}
