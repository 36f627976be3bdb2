package netplay

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A frame of an impossible length is refused with that length in the words.
func TestFrameLengthRefused(t *testing.T) {
	for n, want := range []string{
		"a frame says that its length is 0, less than 3",
		"a frame says that its length is 1, less than 3",
		"a frame says that its length is 2, less than 3",
	} {
		_, _, err := ParseFrame([]byte{0, byte(n), 0, 0, 0})
		require.ErrorContains(t, err, want)
		require.ErrorAs(t, err, new(*ProtocolError))
	}
	_, err := frameSize([]byte{0, 9}, 10)
	require.ErrorContains(t, err, "a frame of 11 bytes exceeds the maximum of 10")
	size, err := frameSize([]byte{0, 8}, 10)
	require.NoError(t, err)
	require.Equal(t, 10, size)
	_, rest, err := ParseFrame([]byte{0, 3, 0, 0, 0, 7})
	require.NoError(t, err)
	require.Equal(t, []byte{7}, rest)
}
