package vectors

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
)

// A Recording is a byte string of a vector file.
type Recording struct {
	File  string // where it was found, as in the keys of Files
	Key   string // under which name
	Bytes []byte
}

// Recordings returns a protocol's byte strings under some names. Each must have one.
func Recordings(tb testing.TB, protocol string, keys ...string) (found []Recording) {
	tb.Helper()
	files := Files(tb, protocol)
	type once struct{ file, key, bytes string }
	seen := make(map[once]bool)
	under := make(map[string]int)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		err := walkFile(files[name], func(key, text string) {
			if !slices.Contains(keys, key) {
				return
			}
			b, err := hex.DecodeString(text)
			if err != nil || seen[once{name, key, text}] {
				return // a name may stand for words elsewhere
			}
			seen[once{name, key, text}] = true
			under[key]++
			found = append(found, Recording{name, key, b})
		})
		if err != nil {
			tb.Fatalf("vectors: %s: %v", name, err)
		}
	}
	for _, key := range keys {
		if under[key] == 0 {
			tb.Fatalf("vectors: no byte strings under %q for %s", key, protocol)
		}
	}
	return found
}

// walkFile calls f for the strings in a file of JSON values, with their names.
func walkFile(data []byte, f func(key, text string)) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	for {
		var value any
		if err := dec.Decode(&value); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		walk("", value, f)
	}
}

func walk(key string, value any, f func(key, text string)) {
	switch v := value.(type) {
	case string:
		f(key, v)
	case []any:
		for _, element := range v {
			walk(key, element, f)
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			walk(name, v[name], f)
		}
	}
}

// EachDamaged calls f with Recordings, and with n damaged copies of each.
func EachDamaged(tb testing.TB, n int, f func([]byte), protocol string, keys ...string) {
	tb.Helper()
	rng := rand.New(rand.NewPCG(1, 1))
	for _, r := range Recordings(tb, protocol, keys...) {
		damaged(rng, r.Bytes, n, f)
	}
}

func damaged(rng *rand.Rand, b []byte, n int, f func([]byte)) {
	f(b)
	for range n {
		c := slices.Clone(b)
		at := rng.IntN(len(c) + 1)
		switch kind := rng.IntN(4); {
		case kind == 0 || at == len(c):
			c = c[:at]
		case kind == 1:
			c[at] ^= 1 << rng.IntN(8)
		case kind == 2:
			c[at] = byte(rng.Uint32())
		default:
			for range 1 + rng.IntN(4) {
				c = slices.Insert(c, at, byte(rng.Uint32()))
			}
		}
		f(c)
	}
}
