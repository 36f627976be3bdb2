//go:build !unix

package volley

import "time"

// cpuTime returns 0: the platform's way to tell is not known here.
func cpuTime() time.Duration { return 0 }
