package netplay

import (
	"encoding/json"
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
	require.Equal(t, uint64(f.Type), d.Uint("message"))
	require.Equal(t, uint64(f.Options), d.Uint("options"))
	require.Equal(t, append([]byte{}, f.Payload...), append([]byte{}, d.Bytes("payload")...))
	problem := len(rest) > 0
	if f.Options&Compressed != 0 {
		body, err := expand(nil, f.Payload, defaultExpanded)
		require.Equal(t, append([]byte{}, body...), append([]byte{}, d.Bytes("body")...))
		problem = problem || err != nil
	}
	require.Equal(t, problem, d.Problem != "", "%s: %x", d.Problem, b)
}

// TestDissectChunks is TestDissect for the dialect V4.
func TestDissectChunks(t *testing.T) {
	files := vectors.Files(t, "netplay")
	var recorded struct {
		Cases []struct {
			Message hexBytes
			Chunks  []hexBytes
		}
	}
	require.NoError(t, json.Unmarshal(files["v4_chunks.json"], &recorded))
	require.NotEmpty(t, recorded.Cases)
	for _, c := range recorded.Cases {
		var b []byte
		for _, chunk := range c.Chunks {
			b = append(b, chunk...)
		}
		d := dissect.Decode(dissect.NetplayV4, b, nil)
		require.Empty(t, d.Problem)
		f, _, err := ParseFrame(c.Message)
		require.NoError(t, err)
		require.Equal(t, f.Payload, d.Bytes("payload"))
	}
	vectors.EachDamaged(t, 50, func(b []byte) {
		d := dissect.Decode(dissect.NetplayV4, b, nil)
		size, err := chunkedFrameSize(b, maxFrame)
		if err != nil || size > len(b) {
			require.NotEmpty(t, d.Problem, "%v: %x", err, b)
			return
		}
		f := frameAt(joinChunks(append([]byte{}, b[:size]...)))
		require.Equal(t, uint64(f.Type), d.Uint("message"), "%x", b)
		require.Equal(t, append([]byte{}, f.Payload...), append([]byte{}, d.Bytes("payload")...), "%x", b)
		next, err := dissect.Next(dissect.NetplayV4, b)
		require.NoError(t, err)
		require.Equal(t, size, next)
	}, "netplay", "chunks", "segments")
}
