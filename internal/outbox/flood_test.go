package outbox

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// times returns n gaps of one length.
func times(n int, gap time.Duration) []time.Duration {
	gaps := make([]time.Duration, n)
	for i := range gaps {
		gaps[i] = gap
	}
	return gaps
}

func TestFlood(t *testing.T) {
	const far = 10 * time.Microsecond
	const near = far - 1
	for _, test := range []struct {
		name  string
		gaps  [][]time.Duration
		there bool
	}{
		{"nothing", nil, false},
		{"15 close Writes", [][]time.Duration{times(15, near)}, false},
		{"16 close Writes", [][]time.Duration{times(16, near)}, true},
		{"many at the limit", [][]time.Duration{times(1000, far)}, false},
		{"one at a distance among them", [][]time.Duration{times(15, near), times(1, far), times(1, near)}, false},
		{"and two more", [][]time.Duration{times(15, near), times(1, far), times(2, near)}, true},
		{"a long one ends after 16 at a distance", [][]time.Duration{times(1000, near), times(16, far)}, true},
		{"and one more", [][]time.Duration{times(1000, near), times(17, far)}, false},
		{"a pause of nearly 1.6 ms", [][]time.Duration{times(1000, near), times(1, 1600*time.Microsecond-1)}, true},
		{"a pause of 1.6 ms", [][]time.Duration{times(1000, near), times(1, 1600*time.Microsecond)}, false},
		{"a pause of a year", [][]time.Duration{times(1000, near), times(1, 365*24*time.Hour), times(15, near)}, false},
		{"a clock set back", [][]time.Duration{times(16, -time.Hour)}, true},
	} {
		var f Flood
		for _, gaps := range test.gaps {
			for _, gap := range gaps {
				require.Equal(t, f.Note(gap), f.There(), test.name)
			}
		}
		require.Equal(t, test.there, f.There(), test.name)
	}
}

// In a flood three of four Writes need not look at the clock; they count when
// the fourth does, and against four times the distance.
func TestFloodSkips(t *testing.T) {
	var f Flood
	for range floodAfter - 1 {
		f.Note(0)
		require.False(t, f.Skip(), "before the flood")
	}
	f.Note(0)
	for range 3 {
		require.True(t, f.Skip())
	}
	require.False(t, f.Skip(), "a fourth time")
	require.True(t, f.Note(4*floodGap-1))
	require.EqualValues(t, floodAfter+4, f.count)
	for range 3 {
		require.True(t, f.Skip())
	}
	require.True(t, f.Note(4*floodGap), "a pace")
	require.EqualValues(t, floodAfter, f.count)
}
