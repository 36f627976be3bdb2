package dissect_test

import (
	"encoding/hex"
	"testing"

	"volley/internal/dissect"
	"volley/internal/vectors"
)

// FuzzDecode takes any bytes apart as every protocol. Fields lie inside the
// datagram, and what is found does not depend on what was found before.
func FuzzDecode(f *testing.F) {
	for protocol, keys := range map[string][]string{
		"netcode": {"packet"}, "porous": {"hex"}, "riptide": {"wire_hex"}, "netplay": {"wire"},
	} {
		for i, r := range vectors.Recordings(f, protocol, keys...) {
			if i%16 == 0 {
				f.Add(r.Bytes)
			}
		}
	}
	for _, digits := range []string{"3e0000010000000068656c6c6f", "01000000023e0000010000000066726167", "050102030405060708"} {
		b, err := hex.DecodeString(digits)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
		f.Add(b[:3])
	}
	keys := []dissect.Keys{{ProtocolID: 1}}
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, p := range dissect.Protocols {
			for _, stream := range []bool{false, true} {
				d := dissect.Decode(p, b, &dissect.Options{Stream: stream, FragmentSize: 8, MaxFragments: 16, Keys: keys})
				checkPlaces(t, &d, b)
				d.All(func(f dissect.Field, _ int) { _ = f.String() })
			}
			n, err := dissect.Next(p, b)
			if n < 0 || err != nil && n != 0 {
				t.Errorf("Next(%s, %x) = %d, %v", p, b, n, err)
			}
		}
	})
}
