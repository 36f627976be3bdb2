package riptide

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"volley/internal/wire"
)

// TestThreatDefaults states the defaults by which docs/THREATS.md bounds what
// peers can make us hold.
func TestThreatDefaults(t *testing.T) {
	set, err := newSettings(nil)
	require.NoError(t, err)
	require.Equal(t, 1<<20, set.readBuffer)
	require.Equal(t, 1<<20, set.sendBuffer)
	require.Equal(t, 10*time.Second, set.pendingTimeout)
	require.Equal(t, 256, defaultMaxPending)
	require.Equal(t, time.Second, confirmAfter)
}

// TestThreatAmplification counts what one connect of a byte, from a forged
// address, makes a server send: 15 welcomes of 5 bytes, or 3 rejects of 2.
func TestThreatAmplification(t *testing.T) {
	set, err := newSettings(nil)
	require.NoError(t, err)
	var out wire.Batch
	set.appendConnect(&out, nil)
	require.Equal(t, 1, out.Size())

	c := new(connection)
	c.init(set, serverSide, start, new(recorder))
	out.Reset()
	c.accept(start, 1, &out)
	for d := time.Duration(0); d < 10*time.Second; d += ms {
		c.tick(start.Add(d), false, &out)
	}
	require.Equal(t, 15, out.Len())
	require.Equal(t, 15*5, out.Size())

	c = new(connection)
	c.init(set, serverSide, start, new(recorder))
	out.Reset()
	c.reject(rejectFull, nil, &out)
	for d := time.Duration(0); d < 10*time.Second; d += ms {
		c.tick(start.Add(d), false, &out)
	}
	require.Equal(t, 3, out.Len())
	require.Equal(t, 3*2, out.Size())
}

// TestThreatHistory: what a connection remembers of received messages takes 8 KiB
// at most, however their ids jump.
func TestThreatHistory(t *testing.T) {
	var h history
	for k := range 10 {
		h.add(uint16(k * 32767))
	}
	require.Equal(t, 1<<16, h.span)
	require.Equal(t, 1<<16, h.bits.Size(), "bits, which are 8 KiB")
}
