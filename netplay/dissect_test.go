package netplay

import (
	"testing"

	"github.com/stretchr/testify/require"

	"volley/internal/dissect"
	"volley/internal/vectors"
)

// TestDissect compares what the tools see in every recorded frame, and in
// damaged copies, with what this package reads.
func TestDissect(t *testing.T) {
	vectors.EachDamaged(t, 20, func(b []byte) { checkDissected(t, b) },
		"netplay", "wire", "reference_wire", "page_hex", "segments", "message")
}

func checkDissected(t *testing.T, b []byte) {
	t.Helper()
	d := dissect.Decode(dissect.Netplay, b, nil)
	n, err := dissect.Next(dissect.Netplay, b)
	f, rest, parseErr := ParseFrame(b)
	if parseErr != nil {
		require.NotEmpty(t, d.Problem, "%x", b)
		require.True(t, err != nil || n == 0 || n > len(b), "%x", b)
		return
	}
	require.NoError(t, err)
	require.Equal(t, len(b)-len(rest), n)
	require.Equal(t, uint64(f.Type), dissected[uint64](&d, "message"))
	require.Equal(t, uint64(f.Options), dissected[uint64](&d, "options"))
	require.Equal(t, append([]byte{}, f.Payload...), append([]byte{}, dissected[[]byte](&d, "payload")...))
	problem := len(rest) > 0
	if f.Options&Compressed != 0 {
		body, err := expand(nil, f.Payload, defaultExpanded)
		require.Equal(t, append([]byte{}, body...), append([]byte{}, dissected[[]byte](&d, "body")...))
		problem = problem || err != nil
	}
	require.Equal(t, problem, d.Problem != "", "%s: %x", d.Problem, b)
}

// dissected returns the value of the first field with a name, zero if there is none.
func dissected[T any](d *dissect.Datagram, name string) (v T) {
	found := false
	d.All(func(f dissect.Field, _ int) {
		if !found && f.Name == "volley.netplay."+name {
			v, found = f.Value.(T)
		}
	})
	return v
}
