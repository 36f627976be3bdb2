//go:build race

package netcode

// raceEnabled: counts of allocations mean nothing under the race detector.
const raceEnabled = true
