//go:build race

package riptide

// raceEnabled: counts of allocations mean nothing under the race detector.
const raceEnabled = true
