//go:build !race

package testenv

// Race reports whether the race detector is on. It allocates and is slow, so that
// counts of allocations and figures of memory mean nothing.
const Race = false
