package riptide

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A figure that is at its limit is not poor, and one above it is when that has
// been so for 64 messages in a row.
func TestQualityLimits(t *testing.T) {
	var q quality
	for range 1000 {
		require.False(t, q.delivered(5, 5))
	}
	for i := range qualityWindow {
		require.Equal(t, i == qualityWindow-1, q.delivered(6, 5), "mean %v", q.meanSends())
	}

	q = quality{}
	for range 1000 {
		require.False(t, q.notified(false, 1))
	}
	q = quality{}
	for i := range qualityWindow {
		require.Equal(t, i == qualityWindow-1, q.notified(false, 0))
	}
}
