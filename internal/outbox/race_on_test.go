//go:build race

package outbox

// raceEnabled: counts of allocations mean nothing under the race detector.
const raceEnabled = true
