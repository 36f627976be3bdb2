package browsertest

import (
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"volley"
	"volley/simnet"
	"volley/volleydebug"
)

// troubled is a network with connections over links of all kinds, of which one
// loses messages, has a long way, and is not read.
func troubled(t *testing.T) *network {
	t.Helper()
	w := newNetwork(t, 3)
	w.settled(t)
	for i := range 3 {
		link := simnet.Link{Latency: time.Millisecond}
		if i == 0 {
			link = simnet.Link{Latency: 80 * time.Millisecond, Jitter: 20 * time.Millisecond, Loss: 0.2}
		}
		x, y := simnet.Pair(uint64(i), link, link)
		a, b := newConn(x, nil), newConn(y, nil)
		w.dialed = append(w.dialed, a, b)
		w.writers.Go(func() { discard(a) })
		w.writers.Go(func() { discard(b) })
	}
	w.talk(20 * time.Millisecond)
	return w
}

// In windows of a telephone, of a small and of a large screen, in both colours,
// everything has its place: Explain in sight, nothing to scroll sideways, nothing cut.
func TestPageWidths(t *testing.T) {
	chromium(t)
	troubled(t)
	url := serve(t, volleydebug.Config{Interval: 200 * time.Millisecond})
	for _, size := range [][2]int64{{390, 844}, {700, 800}, {701, 800}, {900, 800}, {1100, 800}, {1200, 800}, {1250, 800}, {1920, 1000}} {
		width, height := size[0], size[1]
		p := open(t, url, width == 1200, int(width), int(height))
		p.run(t, chromedp.EmulateViewport(width, height))
		p.await(t, "ticks > 8 && table.list.some(c => c.explain && !c.ok)")
		p.screenshot(t, fmt.Sprintf("page-%d", width))
		where := fmt.Sprintf("%d wide", width)

		require.True(t, eval[bool](t, p, `document.body.scrollWidth <= innerWidth && (s => s.scrollWidth <= s.clientWidth)(document.getElementById('scroll'))`), where)
		words := eval[[]float64](t, p, `(r => [r.left, r.width, r.right, r.bottom])(document.querySelector('.row .words').getBoundingClientRect())`)
		require.GreaterOrEqual(t, words[0], 0.0)
		require.GreaterOrEqual(t, words[1], 220.0, where)
		require.LessOrEqual(t, words[2], float64(width), where)
		require.Less(t, words[3], float64(height), where)
		if width <= 700 {
			require.True(t, eval[bool](t, p, `document.getElementById("connections").getBoundingClientRect().bottom <= document.getElementById("graphs").getBoundingClientRect().top`),
				"the graphs are before the table")
		}

		// The graphs fill their boxes.
		require.Empty(t, eval[[]float64](t, p, `charts.plots.map(p => {
			const over = p.plot.over.getBoundingClientRect(), box = p.box.getBoundingClientRect(), keys = p.keys.getBoundingClientRect();
			return (over.width / box.width) * ((over.height + 22 + keys.bottom - box.top) / box.height);
		}).filter(v => v < 0.55 || v > 1)`), where)

		// Of a selected connection all is told, and nothing is cut.
		p.run(t, chromedp.Click(".row", chromedp.ByQuery))
		p.await(t, "!document.getElementById('detail').hidden")
		require.True(t, eval[bool](t, p, `(d => d.scrollHeight <= d.clientHeight && d.scrollWidth <= d.clientWidth)(document.getElementById("detail"))`), where)
		p.screenshot(t, fmt.Sprintf("page-%d-selected", width))
		p.clean(t)
	}
}

// In a browser that takes longer for the graphs than a look, all of them are drawn.
func TestPageSlow(t *testing.T) {
	chromium(t)
	newNetwork(t, 1).settled(t)
	p := open(t, serve(t, volleydebug.Config{}), false, 1200, 800)
	p.await(t, "ticks > 1")
	eval[bool](t, p, `(() => {
		window.drawn = new Set();
		const one = charts.drawOne.bind(charts);
		charts.drawOne = p => { drawn.add(charts.plots.indexOf(p)); one(p); };
		const look = () => { charts.draw(); requestAnimationFrame(look); };
		look();
		return true;
	})()`)
	p.await(t, "drawn.size === 6")
	p.clean(t)
}

// The overview shows the one connection that is in trouble: as the worst, beside the
// median.
func TestPageWorst(t *testing.T) {
	chromium(t)
	troubled(t)
	p := open(t, serve(t, volleydebug.Config{Interval: 200 * time.Millisecond}), false, 1200, 800)
	p.await(t, "ticks > 8 && table.list.some(c => c.explain && !c.ok)")
	p.await(t, `(() => {
		const rtts = [...conns.values()].map(c => c.now[0]).filter(v => v !== null).sort((a, b) => a - b);
		const last = name => all[SEVERAL.indexOf(name)].at(-1);
		return last("rttWorst") === rtts.at(-1) && last("rtt") === rtts[rtts.length >> 1] && rtts.at(-1) > 100 && last("rtt") < rtts.at(-1);
	})()`) // figures of a busy machine may be anything for a moment
	require.Equal(t, []string{"worst", "median"}, eval[[]string](t, p, `[...document.querySelectorAll(".chart:first-child .keys span")].map(s => s.textContent.split(" ")[0])`))
	p.await(t, `/^\d+ connections, \d+ with trouble$/.test(document.getElementById("totals").textContent)`)
	// In flight is of a window, so that connections of all protocols have one scale.
	p.await(t, `all[SEVERAL.indexOf("usedWorst")].some(v => v > 0) && all[SEVERAL.indexOf("usedWorst")].every(v => v <= 100)`)

	// The table has it in short, the details in full, and figures have their units.
	p.run(t, chromedp.Click(".row.bad", chromedp.ByQuery))
	p.await(t, `table.selected > 0 && document.querySelector(".row.selected") !== null`)
	require.Regexp(t, `^[^:]+$`, eval[string](t, p, `document.querySelector(".row.selected .words").textContent`))
	p.await(t, `document.getElementById("explain").textContent.length > document.querySelector(".row.selected .words").textContent.length`)
	figures := eval[map[string]string](t, p, `Object.fromEntries([...document.querySelectorAll("#figures div")].map(d => [d.firstChild.textContent, d.lastChild.textContent]))`)
	for name, want := range map[string]string{
		"loss": `^[\d.]+ %$`, "RTT": `^[\d.]+ ms$`, "send rate": `^[\d.]+ .?B/s$`, "read buffer": `^[\d.]+ .?B$`,
		"messages sent": `^[\d,]+$`, "window": `^16,384 messages$`,
	} {
		require.Regexp(t, want, figures[name], name)
	}
	require.Equal(t, []string{"smoothed", "least"}, eval[[]string](t, p, `[...document.querySelectorAll(".chart:first-child .keys span")].map(s => s.textContent.split(" ")[0])`))
	p.clean(t)
}

// A filter changes the count, the graphs and what they are said to be of.
func TestPageFilter(t *testing.T) {
	chromium(t)
	w := troubled(t)
	p := open(t, serve(t, volleydebug.Config{Interval: 200 * time.Millisecond}), false, 1200, 800)
	count := 2*3 + 6
	p.await(t, fmt.Sprintf("ticks > 4 && table.list.length === %d", count))
	p.run(t, chromedp.SendKeys("#filter", "accepted "+w.dialed[0].LocalAddr().String(), chromedp.ByQuery))
	p.await(t, "table.list.length === 1")
	require.Regexp(t, fmt.Sprintf("^1 of %d connections", count), eval[string](t, p, "document.getElementById('totals').textContent"))
	require.Contains(t, eval[string](t, p, "document.getElementById('subject').textContent"), "filter")
	// What is known of the past counts as well, and what comes.
	const same = `(i => charts.series === null || charts.series[i].length === times.length && charts.series[i].every((v, k) =>
		(w => v === w || Math.abs(v - w) <= 1e-6 * w)(table.list[0].series()[i][k])))(SERIES.indexOf("receive"))`
	// After the page has connected again, which a busy machine can cause, a connection
	// knows nothing of the time before, but the filter does until it is set again.
	const again = `(c => c.since <= (window.since || 1) || (window.since = c.since,
		document.getElementById('filter').dispatchEvent(new Event('input'))))(table.list[0])`
	p.await(t, again+" && "+same)
	p.await(t, "ticks > "+fmt.Sprint(eval[int](t, p, "ticks")+2)+" && "+again+" && "+same)
	p.await(t, `charts.series[SERIES.indexOf("receive")].at(-1) < all[SERIES.indexOf("receive")].at(-1)`)

	p.run(t, chromedp.Evaluate("document.getElementById('filter').value = ''; document.getElementById('filter').dispatchEvent(new Event('input'))", nil))
	require.Regexp(t, fmt.Sprintf("^%d connections", count), eval[string](t, p, "document.getElementById('totals').textContent"))
	require.Contains(t, eval[string](t, p, "document.getElementById('subject').textContent"), "all connections")
	p.clean(t)
}

// The table is a grid to those who do not see it, tells by what it is sorted, and
// where the keys go.
func TestPageGrid(t *testing.T) {
	chromium(t)
	w := troubled(t)
	w.hush()
	p := open(t, serve(t, volleydebug.Config{Interval: 200 * time.Millisecond}), false, 1200, 800)
	p.await(t, "ticks > 2 && table.list.length === 12 && document.querySelectorAll('.row').length > 0")
	require.Equal(t, "grid", eval[string](t, p, "table.scroll.getAttribute('role')"))
	require.Equal(t, "13", eval[string](t, p, "table.scroll.getAttribute('aria-rowcount')"))
	require.True(t, eval[bool](t, p, `[...document.querySelectorAll("#rows > *")].every(r => r.getAttribute("role") === "row" &&
		[...r.children].every(c => c.getAttribute("role") === "gridcell")) && document.querySelectorAll("#head > [role=columnheader]").length === TABLE.length`))

	const arrow = `getComputedStyle(document.querySelector("#head [aria-sort] button"), "::after").content`
	require.Contains(t, eval[string](t, p, arrow), "▼")
	require.Equal(t, "loss", eval[string](t, p, `document.querySelector("#head [aria-sort]").textContent`))
	p.run(t, chromedp.Click("#head [role=columnheader]:nth-child(2) button", chromedp.ByQuery))
	require.Contains(t, eval[string](t, p, arrow), "▲")

	// The ring is around the table, where no row covers it.
	const ring = `getComputedStyle(document.getElementById("connections")).outlineStyle`
	require.Equal(t, "none", eval[string](t, p, ring))
	p.run(t, chromedp.Focus("#filter"), chromedp.KeyEvent(kb.Tab), chromedp.KeyEvent(kb.Tab))
	require.Equal(t, "scroll", eval[string](t, p, "document.activeElement.id"))
	require.Equal(t, "solid", eval[string](t, p, ring))
	for _, i := range []int{0, 1} {
		p.run(t, chromedp.KeyEvent(kb.ArrowDown))
		p.await(t, fmt.Sprintf(`(r => r !== null && r.getAttribute("aria-selected") === "true" && r.getAttribute("aria-rowindex") === "%d" &&
			r.id === table.scroll.getAttribute("aria-activedescendant"))(document.querySelector(".row.selected"))`, i+2))
	}
	p.run(t, chromedp.KeyEvent(kb.Escape))
	require.False(t, eval[bool](t, p, `table.scroll.hasAttribute("aria-activedescendant")`))
	p.clean(t)
}

// newConn is volley.NewConn without an error.
func newConn(inner net.Conn, cfg *volley.Config) *volley.Conn {
	c, err := volley.NewConn(inner, cfg)
	if err != nil {
		panic(err)
	}
	return c
}
