package browsertest

import (
	"flag"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var full = flag.Bool("full", false, "play for ten minutes, not for six seconds")

// A page that plays at 30 Hz takes no more memory after a while, and neither does the
// server.
func TestGrowth(t *testing.T) {
	chromium(t)
	p, origin := blankPage(t, "js-flags=--expose-gc", "enable-precise-memory-info")
	s := newServer(t, origin)
	s.forgets = true
	s.dial(t, p, "")
	messages, warm := 180, 60
	if *full {
		messages, warm = 10*60*30, 30*30
	}
	eval[bool](t, p, `(() => {
		window.lost = window.echoes = window.sent = 0
		c.onmessage = () => echoes++
		window.playing = setInterval(() => {
			sent++
			c.send(new Uint8Array(400)).then(r => { if (!r.delivered) lost++ })
		}, 1000 / 30)
		return true
	})()`)
	look := func() (page, server int64, goroutines int) {
		page = eval[int64](t, p, "(gc(), gc(), performance.memory.usedJSHeapSize)")
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return page, int64(m.HeapAlloc), runtime.NumGoroutine()
	}
	play := func(until int) {
		for last, since := 0, time.Now(); last < until; time.Sleep(100 * time.Millisecond) {
			if sent := eval[int](t, p, "sent"); sent > last {
				last, since = sent, time.Now()
			}
			require.Less(t, time.Since(since), patience, "the page has stopped after %d messages", last)
		}
	}
	play(warm)
	page, server, goroutines := look()
	play(warm + messages)
	page2, server2, goroutines2 := look()
	t.Logf("%d messages: the page's heap %d to %d KiB, the process's %d to %d KiB, goroutines %d to %d; %v",
		messages, page>>10, page2>>10, server>>10, server2>>10, goroutines, goroutines2, eval[map[string]any](t, p, "({ sent, echoes, lost, ...c.stats() })"))
	require.Less(t, page2-page, int64(1<<20))
	require.Less(t, server2-server, int64(2<<20))
	require.LessOrEqual(t, goroutines2, goroutines+4)

	eval[bool](t, p, "(clearInterval(playing), true)")
	p.await(t, "c.stats().unsettled === 0")
	require.Greater(t, eval[int](t, p, "echoes"), eval[int](t, p, "sent")/2)
	p.clean(t)
}
