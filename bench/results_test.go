package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A report may be made of several calls, by a file of their results.
func TestResultsFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "results.json")
	first := measurement{mode: modeGame, size: gameSize, processes: 2, load: load{styleEcho, 500, 30}}
	second := measurement{mode: modeGame, size: gameSize, processes: 2, load: load{styleTick, 500, 30}}
	for _, m := range []measurement{first, second, first} {
		tl, earlier, err := loadTally(file)
		require.NoError(t, err)
		if tl[m] == nil {
			tl[m] = make(map[string][]*result)
		}
		tl[m]["udp"] = append(tl[m]["udp"], &result{Messages: uint64(m.load.clients + len(tl[m]["udp"]))})
		require.NoError(t, tl.save(file, joinPlans(earlier, []measurement{m})))
	}
	tl, plan, err := loadTally(file)
	require.NoError(t, err)
	require.Equal(t, []measurement{first, second}, plan)
	require.Equal(t, []*result{{Messages: 500}, {Messages: 501}}, tl[first]["udp"])
	require.Equal(t, []*result{{Messages: 500}}, tl[second]["udp"])
	rep := &report{plan: plan, tally: tl}
	require.Equal(t, 2, rep.rounds(modeGame))
	require.Zero(t, rep.rounds(modeFanOut))
	require.NoError(t, os.WriteFile(file, []byte("{"), 0o644))
	_, _, err = loadTally(file)
	require.Error(t, err)
}

// Before a run measures, clients of a low rate have had some messages as well.
func TestWarmup(t *testing.T) {
	require.Equal(t, 3*time.Second, load{styleEcho, 10_000, 2}.warmup())
	require.Equal(t, 200*time.Millisecond, load{styleEcho, 500, 30}.warmup())
}
