package browsertest

import (
	"flag"
	"fmt"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"volley/volleydebug"
)

var frames = flag.Bool("frames", false, "fail if the page takes longer than 50 ms for a frame, which needs a quiet machine")

// A thousand connections are shown by rows that exist only where they can be
// seen. How long frames take is logged, and judged with -frames.
func TestPageManyConns(t *testing.T) {
	chromium(t)
	w := newNetwork(t, 500)
	count := w.settled(t)
	w.talk(500 * time.Millisecond)
	p := open(t, serve(t, volleydebug.Config{}), false, 1440, 900)
	p.await(t, fmt.Sprintf("document.body.dataset.conns === '%d' && ticks > 1", count))
	require.Less(t, eval[int](t, p, "document.querySelectorAll('.row').length"), 60)
	eval[bool](t, p, `(() => {
		window.gaps = []; window.busy = [];
		let last = performance.now();
		const frame = now => { gaps.push(now - last); last = now; scroll.scrollTop = (scroll.scrollTop + 40) % 20000; requestAnimationFrame(frame); };
		const scroll = document.getElementById("scroll");
		new PerformanceObserver(l => l.getEntries().forEach(e => busy.push(e.duration))).observe({ entryTypes: ["longtask"] });
		requestAnimationFrame(frame);
		return true;
	})()`)
	const looks = 4
	at := eval[int](t, p, "ticks")
	p.await(t, fmt.Sprintf("ticks > %d", at+looks))
	type figures struct {
		Frames        int
		Median, Worst float64
		Long          int
		Longest       float64
	}
	f := eval[figures](t, p, `(() => {
		const g = gaps.slice(2).sort((a, b) => a - b);
		return { Frames: g.length, Median: g[g.length >> 1], Worst: g[g.length - 1], Long: busy.length, Longest: Math.max(0, ...busy) };
	})()`)
	t.Logf("%d connections, %d looks, %d frames: median %.1f ms, longest %.1f ms; %d tasks over 50 ms, the longest of %.1f ms",
		count, looks, f.Frames, f.Median, f.Worst, f.Long, f.Longest)
	if *frames {
		require.Less(t, f.Worst, 50.0)
		require.Zero(t, f.Long)
	}
	p.run(t, chromedp.SendKeys("#filter", w.dialed[77].LocalAddr().String(), chromedp.ByQuery))
	p.await(t, "table.list.length === 2")
	p.clean(t)
}
