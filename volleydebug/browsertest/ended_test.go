package browsertest

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"volley"
	"volley/volleydebug"
)

// The page says why connections have ended, in a wide window and on a telephone. The words of
// a peer are shown as they are, and fit.
func TestPageEnded(t *testing.T) {
	chromium(t)
	w := newNetwork(t, 6)
	w.settled(t)
	w.talk(50 * time.Millisecond)
	p := open(t, serve(t, volleydebug.Config{Interval: 200 * time.Millisecond}), false, 1280, 800)
	p.await(t, "ticks > 1")
	const hostile = `</td><img src=x onerror="document.title='hacked'"><b>bold</b>`
	w.dialed[0].CloseWithReason("kicked: " + strings.Repeat("w", 60))
	w.dialed[1].CloseWithReason(hostile)
	w.dialed[2].Close()
	full := volley.ListenConfig{MaxConns: 1}
	l, err := full.Listen(t.Context(), "udp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	for range 2 {
		c, err := volley.Dial("udp", l.Addr().String())
		require.NoError(t, err)
		defer c.Close()
	}
	const texts = "[...document.querySelectorAll('#ended tr')].filter(r => r.checkVisibility()).map(r => r.innerText).join('|')"
	for _, want := range []string{"closed by the peer: kicked: www", "closed by the peer: " + hostile, "refused: full", w.dialed[2].LocalAddr().String()} {
		p.await(t, texts+".includes("+quote(want)+")")
	}
	require.Equal(t, "none", eval[string](t, p, "document.querySelector('#ended img') ? 'an image' : 'none'"))
	require.NotContains(t, eval[string](t, p, "document.title"), "hacked")
	p.await(t, "[...document.querySelectorAll('#ended td:first-child')].some(c => /^[1-9]\\d* s ago$/.test(c.textContent))")

	filter := func(text string) {
		eval[bool](t, p, "(f => { f.value = "+quote(text)+"; return f.dispatchEvent(new Event('input')) })(document.getElementById('filter'))")
	}
	filter("refused")
	p.await(t, texts+".includes('refused') && !"+texts+".includes('kicked')")
	filter("")
	p.await(t, texts+".includes('kicked')")

	for _, width := range []int64{1280, 390} {
		p.run(t, chromedp.EmulateViewport(width, 800))
		p.await(t, fmt.Sprintf("innerWidth === %d", width))
		if os.Getenv("VOLLEY_PICTURES") != "" {
			p.await(t, fmt.Sprintf("ticks > %d", eval[int](t, p, "ticks")+2))
			p.run(t, chromedp.Evaluate("document.querySelector('#past').scrollIntoView({block: 'end'})", nil))
			p.screenshot(t, fmt.Sprintf("ended-%d", width))
		}
		require.LessOrEqual(t, eval[int](t, p, "document.documentElement.scrollWidth"), int(width), "nothing is as wide as to need a scroll bar")
		require.Zero(t, eval[int](t, p, "[...document.querySelectorAll('#ended td')].filter(c => c.getBoundingClientRect().right > innerWidth || c.scrollWidth > c.clientWidth + 1).length"), "no cell sticks out")
	}
	p.clean(t)
}
