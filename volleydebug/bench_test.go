package volleydebug_test

import (
	"fmt"
	"testing"

	"volley"
	"volley/volleydebug"
)

// BenchmarkSnapshot takes a look at connections of pipes.
func BenchmarkSnapshot(b *testing.B) {
	for _, n := range []int{100, 1000, 10_000} {
		conns := make([]*volley.Conn, 0, n)
		for len(conns) < n {
			x, y := volley.Pipe(nil)
			conns = append(conns, x, y)
		}
		b.Run(fmt.Sprintf("conns=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				volleydebug.Snapshot()
			}
		})
		for _, c := range conns {
			c.Close()
		}
	}
}
