//go:build !race

package datagram

const raceEnabled = false
