package browsertest

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"volley/simnet"
	"volley/volleydebug"
)

// TestPictures makes those of docs/observability.md, where VOLLEY_PICTURES names
// the folder for them: connections over links of all kinds.
func TestPictures(t *testing.T) {
	if os.Getenv("VOLLEY_PICTURES") == "" {
		t.Skip("VOLLEY_PICTURES is the folder for the pictures of the documentation")
	}
	chromium(t)
	name := os.Args[0] // which the page shows
	t.Cleanup(func() { os.Args[0] = name })
	os.Args[0] = "gameserver"
	w := newNetwork(t, 8)
	w.settled(t)
	for i := range 8 {
		link := simnet.Link{Latency: time.Duration(10+7*i) * time.Millisecond, Jitter: time.Duration(i) * time.Millisecond, Loss: float64(i%4) / 60}
		x, y := simnet.Pair(uint64(i), link, link)
		a, b := newConn(x, nil), newConn(y, nil)
		w.dialed = append(w.dialed, a, b)
		w.writers.Go(func() { discard(a) })
		if i < 7 { // and the last one reads nothing
			w.writers.Go(func() { discard(b) })
		}
	}
	w.talk(20 * time.Millisecond)
	for _, dark := range []bool{false, true} {
		p := open(t, serve(t, volleydebug.Config{Interval: 250 * time.Millisecond}), dark, 1500, 1000)
		p.run(t, chromedp.EmulateViewport(1500, 900))
		p.await(t, "ticks > 60")
		name := "debug-light"
		if dark {
			name = "debug-dark"
			p.await(t, "table.list.some(c => c.get('loss') > 0)")
			p.run(t, chromedp.Click(".row", chromedp.ByQuery))
			p.await(t, fmt.Sprintf("ticks > %d", eval[int](t, p, "ticks")+2))
		}
		p.screenshot(t, name)
		require.Equal(t, "live", eval[string](t, p, "document.getElementById('status').textContent"))
	}
}
