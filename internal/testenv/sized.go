package testenv

import "flag"

var full = flag.Bool("full", false, "run the tests at their full size, which takes minutes")

// Sized returns how large a test is: small by default, so that a package's tests
// take seconds, and large with -full and without the race detector.
func Sized(small, large int) int {
	if *full && !Race {
		return large
	}
	return small
}
