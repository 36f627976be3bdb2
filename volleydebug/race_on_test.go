//go:build race

package volleydebug_test

const raceEnabled = true
