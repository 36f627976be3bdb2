package simnet

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
)

// TestMain checks that the tests have left no goroutine of the package behind.
func TestMain(m *testing.M) {
	code := m.Run()
	if code == 0 {
		if leaks := leaked(); leaks != "" {
			fmt.Fprintf(os.Stderr, "goroutines left behind:\n%s\n", leaks)
			code = 1
		}
	}
	os.Exit(code)
}

// leaked returns the stacks of goroutines of this package other than the
// caller's. They get a while to end.
func leaked() string {
	var leaks []string
	for range 3000 {
		leaks = leaks[:0]
		buf := make([]byte, 1<<20)
		buf = buf[:runtime.Stack(buf, true)]
		for _, g := range strings.Split(string(buf), "\n\n")[1:] {
			if strings.Contains(g, "volley/simnet") {
				leaks = append(leaks, g)
			}
		}
		if len(leaks) == 0 {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	return strings.Join(leaks, "\n\n")
}
