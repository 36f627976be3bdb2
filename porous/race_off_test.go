//go:build !race

package porous

const raceEnabled = false
