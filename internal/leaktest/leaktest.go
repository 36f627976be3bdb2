// Package leaktest is test support: it fails a test binary that leaves
// goroutines behind.
package leaktest

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
)

// patience is how long goroutines may take to end after the tests.
const patience = 30 * time.Second

// Main runs the tests and exits. It is to be called by TestMain.
func Main(m *testing.M) {
	code := m.Run()
	if code == 0 {
		if stacks := leaked(patience); stacks != "" {
			fmt.Fprintf(os.Stderr, "goroutines left behind:\n%s\n", stacks)
			code = 1
		}
	}
	os.Exit(code)
}

const module = "volley" // module path

// leaked waits for the module's goroutines to end, and returns the stacks of the others.
func leaked(patience time.Duration) string {
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		buf := make([]byte, 1<<20)
		buf = buf[:runtime.Stack(buf, true)]
		var found []string
		for g := range strings.SplitSeq(string(buf), "\n\n") {
			if strings.Contains(g, module) && !strings.Contains(g, "leaktest.Main") {
				found = append(found, g)
			}
		}
		if len(found) == 0 || time.Now().After(end) {
			return strings.Join(found, "\n\n")
		}
	}
}
