package browsertest

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"volley/volleydebug"
)

// The page shows all connections, and values that are those of Stats; its graphs
// move, and nothing goes wrong.
func TestPage(t *testing.T) {
	chromium(t)
	w := newNetwork(t, 10)
	count := w.settled(t)
	w.talk(50 * time.Millisecond)
	p := open(t, serve(t, volleydebug.Config{Interval: 200 * time.Millisecond}), false, 1440, 900)
	p.await(t, fmt.Sprintf("document.body.dataset.conns === '%d'", count))
	p.await(t, fmt.Sprintf("document.getElementById('totals').textContent === '%d connections'", count)) // written with the next frame
	p.await(t, "document.getElementById('status').textContent === 'live'")
	require.Contains(t, eval[string](t, p, "document.getElementById('listeners').textContent"), w.l.Addr().String())

	// The graphs: more points come, and the pictures differ.
	p.await(t, "charts.plots.length === 6 && charts.plots[0].plot.data[0].length > 3 && charts.plots[3].plot.data[1].some(v => v > 0)")
	const picture = "document.querySelectorAll('.chart canvas')[3].toDataURL()"
	before, ticks := eval[string](t, p, picture), eval[int](t, p, "ticks")
	p.await(t, fmt.Sprintf("ticks > %d", ticks+3))
	require.NotEqual(t, before, eval[string](t, p, picture), "the graph does not move")

	// The values, once all is quiet.
	w.hush()
	c := w.dialed[3]
	local := c.LocalAddr().String()
	find := "[...conns.values()].find(c => c.local === " + quote(local) + ")"
	p.await(t, fmt.Sprintf("%s.get('messages_sent') === %d && %s.get('messages_received') === %d && %s.get('messages_delivered') === %d",
		find, c.Stats().MessagesSent, find, c.Stats().MessagesSent, find, c.Stats().MessagesSent))
	wrong := func() (name string) { // a figure that is not that of Stats
		s := c.Stats()
		for name, want := range map[string]float64{
			"rtt_ms": ms(s.RTT), "rtt_min_ms": ms(s.RTTMin), "jitter_ms": ms(s.JitterMean), "loss": s.Loss,
			"missed_network": float64(s.Missed.Network), "missed_socket": float64(s.Missed.Socket), "missed_inbox": float64(s.Missed.Inbox),
			"read_queue_bytes": float64(s.ReadQueue), "messages_lost": float64(s.MessagesLost),
		} {
			if got := eval[float64](t, p, find+".get("+quote(name)+")"); math.Abs(got-want) > 1e-3+want/1e6 {
				return fmt.Sprintf("%s is %v, want %v", name, got, want)
			}
		}
		return ""
	}
	for last := eval[int](t, p, "ticks") + 100; wrong() != "" && eval[int](t, p, "ticks") < last; {
		p.await(t, fmt.Sprintf("ticks > %d", eval[int](t, p, "ticks"))) // the page may be a moment behind
	}
	require.Empty(t, wrong())
	row := "[...document.querySelectorAll('.row')].find(r => r.textContent.includes(" + quote(local) +
		") && r.children[2].textContent === " + quote(local) + ")"
	p.run(t, chromedp.SendKeys("#filter", local, chromedp.ByQuery)) // since only rows in sight are drawn
	p.await(t, row+" !== undefined")
	cells := eval[[]string](t, p, row+".innerText.split('\\n')")
	require.Contains(t, strings.Join(cells, " "), c.RemoteAddr().String())
	p.clean(t)
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// A filter, an order and a selection do what they say.
func TestPageTable(t *testing.T) {
	chromium(t)
	w := newNetwork(t, 6)
	count := w.settled(t)
	w.talk(20 * time.Millisecond)
	p := open(t, serve(t, volleydebug.Config{Interval: 200 * time.Millisecond}), true, 1000, 700)
	p.await(t, fmt.Sprintf("document.body.dataset.conns === '%d' && ticks > 2", count))
	require.Equal(t, "rgb(20, 23, 28)", eval[string](t, p, "getComputedStyle(document.body).backgroundColor"), "dark")

	p.run(t, chromedp.Click("#head [role=columnheader]:nth-child(2) button", chromedp.ByQuery))
	p.await(t, "document.querySelectorAll('#head [aria-sort=ascending]').length === 1")
	order := eval[[]string](t, p, "table.list.map(c => c.remote)")
	require.IsNonDecreasing(t, order)
	p.run(t, chromedp.Click("#head [role=columnheader]:nth-child(2) button", chromedp.ByQuery))
	require.IsNonIncreasing(t, eval[[]string](t, p, "table.list.map(c => c.remote)"))

	p.run(t, chromedp.SendKeys("#filter", "accepted "+w.dialed[2].LocalAddr().String(), chromedp.ByQuery))
	p.await(t, "table.list.length === 1")
	p.await(t, "[...document.querySelectorAll('.row')].filter(r => r.style.display !== 'none').length === 1")
	p.run(t, chromedp.Click(".row", chromedp.ByQuery))
	p.await(t, "!document.getElementById('detail').hidden && document.getElementById('explain').textContent.length > 5")
	require.Contains(t, eval[string](t, p, "document.getElementById('subject').textContent"), w.dialed[2].LocalAddr().String())
	p.await(t, "charts.plots[0].plot.data[1].some(v => v > 0)")
	for _, id := range []string{"listeners", "charts", "detail", "connections"} {
		require.Greater(t, eval[float64](t, p, "document.getElementById("+quote(id)+").getBoundingClientRect().height"), 25.0, "%s is squeezed", id)
	}
	p.run(t, chromedp.Evaluate("document.getElementById('filter').value = ''; document.getElementById('filter').dispatchEvent(new Event('input'))", nil))
	p.await(t, fmt.Sprintf("table.list.length === %d", count))

	// Both ends go, because Close tells the peer.
	w.dialed[2].Close()
	p.await(t, fmt.Sprintf("document.body.dataset.conns === '%d'", count-2))

	// Pause stops the picture, not the count.
	p.run(t, chromedp.Click("#pause", chromedp.ByQuery))
	at := eval[int](t, p, "ticks")
	points := eval[int](t, p, "charts.times.length")
	p.await(t, fmt.Sprintf("ticks > %d", at+2))
	require.Equal(t, points, eval[int](t, p, "charts.times.length"))
	p.clean(t)
}

// Colors follow the system, in both ways.
func TestPageLightAndDark(t *testing.T) {
	chromium(t)
	url := serve(t, volleydebug.Config{Interval: 200 * time.Millisecond})
	colors := map[bool]string{}
	for _, dark := range []bool{false, true} {
		p := open(t, url, dark, 800, 600)
		p.await(t, "ticks > 1")
		require.False(t, eval[bool](t, p, "document.getElementById('empty').hidden"))
		colors[dark] = eval[string](t, p, "[document.body, document.querySelector('header')].map(e => getComputedStyle(e).backgroundColor + getComputedStyle(e).color).join()+charts.plots[0].plot.series[1].stroke()")
		p.clean(t)
	}
	require.NotEqual(t, colors[false], colors[true])
}
