package core

import (
	"bytes"
	"encoding/hex"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestDocumentHex parses every frame that docs/porous.md shows.
func TestDocumentHex(t *testing.T) {
	text, err := os.ReadFile("../../../docs/porous.md")
	require.NoError(t, err)
	seen := map[FrameType]bool{}
	for _, block := range regexp.MustCompile("(?s)```hex\n(.*?)```").FindAllSubmatch(text, -1) {
		for line := range bytes.Lines(block[1]) {
			b, err := hex.DecodeString(strings.Join(strings.Fields(string(line)), ""))
			require.NoError(t, err)
			again, ok := parseFrame(b)
			require.True(t, ok, "%s", line)
			require.Equal(t, b, again)
			seen[FrameType(b[0])] = true
		}
	}
	require.Len(t, seen, 8, "types of frames")
	c, _ := ParseConnect([]byte{0, 0, 1, 255, 255, 255, 255, 0x12, 0x34, 0x56, 0x78})
	require.Equal(t, Connect{0, 2, NoBandwidthLimit, 0x12345678}, c)
}
