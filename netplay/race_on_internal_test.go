//go:build race

package netplay

const raceEnabled = true
