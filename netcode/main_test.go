package netcode

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
)

// TestMain fails if goroutines of this package are left behind.
func TestMain(m *testing.M) {
	code := m.Run()
	if code == 0 {
		if stacks := leaked(5 * time.Second); stacks != "" {
			fmt.Fprintf(os.Stderr, "goroutines left behind:\n%s\n", stacks)
			code = 1
		}
	}
	os.Exit(code)
}

// leaked waits for goroutines to end and returns the stacks of those that do
// not.
func leaked(patience time.Duration) string {
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		buf := make([]byte, 1<<20)
		var found []string
		for g := range strings.SplitSeq(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
			if strings.Contains(g, "volley/") && !strings.Contains(g, "TestMain") {
				found = append(found, g)
			}
		}
		if len(found) == 0 || time.Now().After(end) {
			return strings.Join(found, "\n\n")
		}
	}
}
