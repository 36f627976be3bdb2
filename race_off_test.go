//go:build !race

package volley

const raceEnabled = false
