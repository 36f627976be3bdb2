//go:build !race

package netplay

const raceEnabled = false
