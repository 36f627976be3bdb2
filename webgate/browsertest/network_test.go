package browsertest

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"volley"
	"volley/simnet"
	"volley/webgate"
)

// Through a network that loses a fifth of all datagrams, each way, messages arrive whole
// or not at all, and no message has a receipt that has not arrived. TestFates has the rest.
//
// Chromium ends a session when nothing that it has sent is acknowledged for about 6 s, as
// where this machine stands still for so long. Then the page dials again, and the messages
// of this test belong to several sessions.
func TestLoss(t *testing.T) {
	const size = 1500 // two datagrams each
	p, origin := blankPage(t)
	s := newServer(t, origin)
	link := simnet.Link{Latency: 10 * time.Millisecond}
	proxy, err := simnet.NewProxy(simnet.ProxyConfig{Target: s.gate.Addr().String(), Up: link, Down: link})
	require.NoError(t, err)
	t.Cleanup(func() { proxy.Close() })
	s.via = proxy.Addr().String()
	s.dial(t, p, `transports: ["webtransport"]`)
	link.Loss = 0.2
	proxy.SetLinks(link, link)
	eval[bool](t, p, fmt.Sprintf(`(() => {
		window.delivered = []
		window.lost = 0
		let i = 0
		window.sending = setInterval(() => {
			if (c.state !== "open") return
			const m = new Uint8Array(%d).fill(i), n = i++
			new DataView(m.buffer).setUint32(0, n)
			c.send(m).then(r => { if (r.delivered) delivered.push(n); else lost++ })
		}, 30)
		return true
	})()`, size))
	p.await(t, "delivered.length >= 100 && lost >= 50 && got.length >= 50")
	delivered := eval[[]uint32](t, p, "(clearInterval(sending), delivered)")
	t.Logf("%v", eval[map[string]any](t, p, "c.stats()"))

	s.mu.Lock()
	defer s.mu.Unlock()
	seen := make(map[uint32]bool)
	for _, m := range s.got {
		require.Len(t, m, size)
		i := binary.BigEndian.Uint32(m)
		require.False(t, seen[i], "message %d arrived twice", i)
		seen[i] = true
		require.Equal(t, byte(i), m[size-1])
	}
	for _, i := range delivered {
		require.True(t, seen[i], "message %d has a receipt, and has not arrived", i)
	}
	p.clean(t)
}

// Where no datagram passes, and where the browser has no WebTransport, the same client
// speaks over a WebSocket, and says so.
func TestFallback(t *testing.T) {
	p, origin := blankPage(t, "ignore-certificate-errors")
	s := newServer(t, origin)
	s.via = forwardTCP(t, s.gate.Addr().String())
	s.dial(t, p, "")
	require.Equal(t, "websocket", eval[string](t, p, "c.transport"))
	require.Empty(t, eval[string](t, p, sizes+`([1, 1024, 1025, 1200, 1201, 16384])`))
	require.Equal(t, "websocket", s.conn(t).RemoteAddr().Network())
	require.Equal(t, "ann", s.conn(t).NetConn().(*webgate.Conn).Identity())
	eval[bool](t, p, "c.close().then(() => true)")

	s.via = ""
	eval[bool](t, p, "delete window.WebTransport")
	s.dial(t, p, "")
	require.Equal(t, "websocket", eval[string](t, p, "c.transport"))
	require.Empty(t, eval[string](t, p, sizes+`([1, 16384])`))
	p.clean(t)
}

// forwardTCP forwards TCP connections to an address, and no datagrams.
func forwardTCP(t testing.TB, to string) (addr string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			a, err := l.Accept()
			if err != nil {
				return
			}
			b, err := net.Dial("tcp", to)
			if err != nil {
				a.Close()
				continue
			}
			for _, pair := range [][2]net.Conn{{a, b}, {b, a}} {
				wg.Go(func() {
					io.Copy(pair[0], pair[1])
					a.Close()
					b.Close()
				})
			}
		}
	})
	t.Cleanup(func() { l.Close() })
	return l.Addr().String()
}

// A session that is lost is followed by another one with the same ticket. One that is
// closed is not, unless the server says so.
func TestRedial(t *testing.T) {
	p, origin := blankPage(t)
	s := newServer(t, origin)
	s.dial(t, p, "")
	eval[bool](t, p, "(() => { window.redials = 0; window.ended = []; c.onredial = () => redials++; c.onclose = e => ended.push(String(e.reason)); return true })()")
	redialed := func(n int) {
		t.Helper()
		p.await(t, fmt.Sprintf("redials >= %d && c.state === 'open'", n))
		require.Empty(t, eval[string](t, p, sizes+`([1, 5000])`), "%v", eval[map[string]any](t, p, "({ state: c.state, redials, ended: String(ended), ...c.stats() })"))
		require.GreaterOrEqual(t, eval[int](t, p, "c.stats().redials"), n)
	}
	s.conn(t).NetConn().Close() // without a goodbye, as when a network goes
	redialed(1)
	require.Equal(t, "ann", s.conn(t).NetConn().(*webgate.Conn).Identity())
	s.conn(t).CloseWithReason("redial")
	redialed(2)

	other := newServer(t, origin)
	s.conn(t).CloseWithReason("redial https://" + other.gate.Addr().String() + "/join")
	redialed(3)
	require.Equal(t, "ann", other.conn(t).NetConn().(*webgate.Conn).Identity())

	other.conn(t).CloseWithReason("the game is over")
	p.await(t, "ended.length === 1")
	require.Equal(t, "the game is over", eval[string](t, p, "ended[0]"))
	require.Equal(t, "closed", eval[string](t, p, "c.state"))
	require.True(t, eval[bool](t, p, "c.send(new Uint8Array(1)).then(() => false, () => true)"))
	p.clean(t)
}

// A page that closes tells the server, with the reason.
func TestClose(t *testing.T) {
	p, origin := blankPage(t)
	s := newServer(t, origin)
	s.dial(t, p, "")
	eval[bool](t, p, "c.close('gone home').then(() => true)")
	var closed *volley.CloseError
	require.ErrorAs(t, <-s.ends, &closed)
	require.Equal(t, "gone home", closed.Reason)
	require.Equal(t, "closed", eval[string](t, p, "c.state"))

	// A page that is gone ends its session, too.
	s.dial(t, p, "")
	require.Empty(t, eval[string](t, p, sizes+`([1])`))
	p.run(t, chromedp.Navigate("about:blank"))
	select {
	case <-s.ends:
	case <-time.After(patience):
		require.Fail(t, "the session lives on")
	}
}

// A page of another origin, and one with a forged ticket, get nothing.
func TestOtherOrigin(t *testing.T) {
	p, origin := blankPage(t)
	s := newServer(t, "https://play.example")
	const refused = `volley.dial("https://%s/join", { certificateHash: %q, ticket: %q, timeout: 30000 }).then(() => "in", e => e.message)`
	require.Contains(t, eval[string](t, p, fmt.Sprintf(refused, s.gate.Addr(), s.hash, "ann")), "cannot connect")
	require.Zero(t, s.gate.Stats().Opened)
	s = newServer(t, origin)
	require.Contains(t, eval[string](t, p, fmt.Sprintf(refused, s.gate.Addr(), s.hash, "forged")), "cannot connect")
	require.Zero(t, s.gate.Stats().Opened)
	require.Equal(t, "in", eval[string](t, p, fmt.Sprintf(refused, s.gate.Addr(), s.hash, "ann")))
}

// A hostile page sends whatever it likes: damaged frames, streams, floods. Others do not
// notice, and nothing of it stays.
func TestHostilePage(t *testing.T) {
	p, origin := blankPage(t)
	s := newServer(t, origin)
	s.dial(t, p, "")
	attack := fmt.Sprintf(`(async () => {
		const hash = Uint8Array.from(atob(%q), c => c.charCodeAt(0))
		const random = n => crypto.getRandomValues(new Uint8Array(n))
		window.honest ??= new volley.Endpoint({})
		const wt = window.hostile = new WebTransport("https://%s/join?ticket=eve", { serverCertificateHashes: [{ algorithm: "sha-256", value: hash }] })
		wt.closed.catch(() => {})
		await wt.ready
		const w = wt.datagrams.writable.getWriter()
		let sent = 0
		const send = b => (sent++, w.write(b).catch(() => {}))
		for (let i = 0; i < 1500; i++) {
			let b = random(Math.floor(Math.random() * 1200))
			if (i %% 3) {
				const all = honest.send(random(1 + Math.floor(Math.random() * 5000)))
				b = all[Math.floor(Math.random() * all.length)]
				if (i %% 3 === 1) b[Math.floor(Math.random() * Math.min(12, b.length))] ^= 1 << Math.floor(Math.random() * 8)
			} else if (b.length) {
				b[0] = 1 + 2 * Math.floor(Math.random() * 10) // of a fragment or a greeting
			}
			send(b)
			if (i %% 50 === 0) await new Promise(r => setTimeout(r, 1))
		}
		for (let i = 0; i < 20; i++) {
			wt.createUnidirectionalStream().then(s => s.getWriter().write(random(5000))).catch(() => {})
			wt.createBidirectionalStream().then(s => s.writable.getWriter().write(random(5000))).catch(() => {})
		}
		return sent
	})()`, s.hash, s.gate.Addr())
	n := 0
	for range 3 {
		before := s.gate.Stats().StreamsRefused
		n += eval[int](t, p, attack)
		// A browser may not tell its page of a stream that is refused just as it opens, so the
		// server is asked.
		s.until(t, func(g webgate.Stats) bool { return g.StreamsRefused > before })
		eval[any](t, p, "hostile.close()")
	}
	require.Empty(t, eval[string](t, p, sizes+`([1, 1201, 16384])`))
	s.until(t, func(g webgate.Stats) bool { return g.Sessions == 1 })
	t.Logf("%d hostile datagrams, %+v", n, s.gate.Stats())
	p.clean(t)
}

// until waits until the counts of the gate are as they should be.
func (s *server) until(t *testing.T, holds func(webgate.Stats) bool) {
	t.Helper()
	for end := time.Now().Add(patience); !holds(s.gate.Stats()); time.Sleep(10 * time.Millisecond) {
		require.True(t, time.Now().Before(end), "%+v", s.gate.Stats())
	}
}

// readAll keeps what comes, and sends it back.
func (s *server) readAll(c *volley.Conn) {
	defer c.Close()
	for {
		m, err := c.ReadMessage(context.Background(), nil)
		if err != nil {
			s.ends <- err
			return
		}
		s.mu.Lock()
		if !s.forgets {
			s.got = append(s.got, m)
		}
		silent := s.silent
		s.mu.Unlock()
		if !silent {
			c.Write(m)
		}
	}
}
