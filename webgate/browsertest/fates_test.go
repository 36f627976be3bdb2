package browsertest

import (
	_ "embed"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

//go:embed testdata/imitation.js
var imitationScript string

// imitated opens a page whose client talks to an imitated server.
func imitated(t testing.TB) *testPage {
	t.Helper()
	p, _ := blankPage(t)
	p.run(t, chromedp.Evaluate(imitationScript+"\nwindow.net = imitate(volley), true", nil))
	return p
}

// dialImitation has the page dial the imitated server; more are further options.
func (p *testPage) dialImitation(t testing.TB, more string) {
	t.Helper()
	require.True(t, eval[bool](t, p, `(async () => {
		volley.dial("https://imitation.example/join", { transports: ["webtransport"], redial: 0, `+more+` }).then(x => { window.c = x })
		await net.run(1000)
		return c.state === "open"
	})()`))
}

// Through a network that loses a fifth of all datagrams and changes their order, a receipt
// says that a message was lost if it was, and not otherwise, and says so soon.
func TestFates(t *testing.T) {
	p := imitated(t)
	p.dialImitation(t, "")
	type outcome struct {
		Arrived int
		Wrong   []int   // messages whose receipts are not true
		Known   float64 // after how many milliseconds a loss was known, at most
	}
	o := eval[outcome](t, p, `(async () => {
		let x = 1
		const random = () => (x = (Math.imul(x, 1664525) + 1013904223) >>> 0) / 2 ** 32
		net.lost = () => random() < 0.2
		net.delay = () => random() < 0.1 ? 30 : 10
		const arrived = new Set(), fates = []
		net.message = m => arrived.add(new DataView(m.buffer, m.byteOffset).getUint32(0))
		for (let i = 0; i < 300; i++) {
			const m = new Uint8Array(1500), at = net.now() // two datagrams
			new DataView(m.buffer).setUint32(0, i)
			c.send(m).then(r => { fates[i] = { ...r, after: net.now() - at } })
			await net.run(10)
		}
		await net.run(10000)
		return {
			arrived: arrived.size, wrong: [...fates.keys()].filter(i => fates[i].delivered !== arrived.has(i)),
			known: Math.max(...fates.filter(f => !f.delivered).map(f => f.after)),
		}
	})()`)
	t.Logf("%+v", o)
	require.Empty(t, o.Wrong)
	require.InDelta(t, 0.64*300, o.Arrived, 30)
	require.LessOrEqual(t, o.Known, 400.0)
	p.clean(t)
}

// Acknowledgements that have waited are no samples of the round trip.
func TestRTT(t *testing.T) {
	p := imitated(t)
	p.dialImitation(t, "")
	require.InDelta(t, 20, eval[float64](t, p, `(async () => {
		let n = 0
		net.wait = () => n++ % 4 ? 50 : 0
		for (let i = 0; i < 40; i++) {
			c.send(new Uint8Array(1))
			await net.run(100)
		}
		return c.stats().rtt
	})()`), 0.001)
	p.clean(t)
}

// Where nothing passes any more a message counts as lost after 10 s. Silence ends the
// session after 30 s.
func TestSilence(t *testing.T) {
	p := imitated(t)
	p.dialImitation(t, "")
	require.Equal(t, []any{false, 10000.0, 30000.0, "volley: nothing was heard for 30 s"}, eval[[]any](t, p, `(async () => {
		const out = []
		net.lost = () => true
		c.onclose = e => out.push(net.now() - net.heardAt, e.error.message)
		const at = net.now()
		c.send(new Uint8Array(1)).then(r => out.push(r.delivered, net.now() - at))
		await net.run(40000)
		return out
	})()`))
	p.clean(t)
}

// A page that sends nothing acknowledges what it gets within 25 ms, and some messages at
// once, so that the server measures the round trip.
func TestAckDelay(t *testing.T) {
	p := imitated(t)
	p.dialImitation(t, "")
	waits := eval[[]float64](t, p, `(async () => {
		for (let i = 0; i < 64; i++) {
			net.send(new Uint8Array(9), { sentAt: net.now() })
			await net.run(100)
		}
		return net.acks.filter(a => a.entry?.sentAt).map(a => a.at - a.entry.sentAt - 20)
	})()`)
	require.Len(t, waits, 64)
	atOnce := 0
	for _, w := range waits {
		require.Contains(t, []float64{0, 25}, w)
		if w == 0 {
			atOnce++
		}
	}
	require.Equal(t, 7, atOnce, "three at the beginning, and each sixteenth")
	p.clean(t)
}

// The datagrams of a large message leave twelve at a time, and the next ones 4 ms later. A
// message of more than 64 KiB is not for browsers.
func TestPace(t *testing.T) {
	p := imitated(t)
	p.dialImitation(t, "maxMessageSize: 65536")
	after := eval[[]float64](t, p, `(async () => {
		await net.run(100)
		const begin = net.now(), sizes = []
		net.left = []
		net.message = m => sizes.push(m.length)
		for (let i = 0; i < 2; i++) c.send(new Uint8Array(65536))
		await net.run(60)
		return [...sizes, ...net.left.map(t => t - begin)]
	})()`)
	require.Equal(t, []float64{65536, 65536}, after[:2])
	bursts := make(map[float64]int)
	for _, at := range after[2:] {
		bursts[at]++
	}
	for i := range 10 {
		require.Equal(t, 12, bursts[float64(4*i)], "%v", bursts)
	}
	require.Equal(t, 8, bursts[40], "%v", bursts)
	require.Equal(t, "RangeError: volley: maxMessageSize is 65537, more than 65536", eval[string](t, p,
		`volley.dial("https://imitation.example/join", { maxMessageSize: 65537 }).then(() => "in", String)`))
	p.clean(t)
}
