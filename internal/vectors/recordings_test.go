package vectors

import (
	"math/rand/v2"
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

func TestDamaged(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	b := []byte{1, 2, 3, 4, 5, 6, 7, 8}
	shorter, longer, other, same := 0, 0, 0, 0
	damaged(rng, b, 1000, func(c []byte) {
		switch {
		case len(c) < len(b):
			shorter++
		case len(c) > len(b):
			longer++
		case string(c) == string(b):
			same++
		default:
			other++
		}
	})
	if shorter < 100 || longer < 100 || other < 100 || same < 1 || !reflect.DeepEqual(b, []byte{1, 2, 3, 4, 5, 6, 7, 8}) {
		t.Errorf("%d shorter, %d longer, %d other, %d the same, of %v", shorter, longer, other, same, b)
	}
	damaged(rng, nil, 100, func(c []byte) {
		if len(c) != 0 {
			t.Errorf("%v of nothing", c)
		}
	})
}
