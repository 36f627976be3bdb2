package browsertest

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"volley"
	"volley/webgate"
)

// A server echoes what comes, and keeps its connections.
type server struct {
	gate *webgate.Gate
	hash string
	wg   sync.WaitGroup
	via  string     // the address that pages dial, if not the Gate's
	ends chan error // of connections

	forgets bool // messages are not kept
	silent  bool // and not echoed
	mu      sync.Mutex
	conns   []*volley.Conn
	got     [][]byte // messages
}

// devCertificate is that of all servers of a test.
var devCertificate = sync.OnceValues(func() (tls.Certificate, string) {
	cert, hash, err := webgate.DevCertificate()
	if err != nil {
		panic(err)
	}
	return cert, hash
})

// newServer returns an echo server for pages of an origin.
func newServer(t testing.TB, origin string) *server {
	t.Helper()
	return newServerOf(t, origin, &volley.Config{ProtocolID: 7})
}

// newServerOf is newServer with settings for its connections.
func newServerOf(t testing.TB, origin string, conns *volley.Config) *server {
	t.Helper()
	cert, hash := devCertificate()
	gate, err := webgate.Listen("127.0.0.1:0", &webgate.Config{
		Certificate: cert, Origins: []string{origin},
		Authorize: func(r *http.Request) (any, error) {
			ticket := r.FormValue("ticket")
			if ticket == "forged" {
				return nil, fmt.Errorf("no such ticket")
			}
			return ticket, nil
		},
	})
	require.NoError(t, err)
	ln, err := volley.NewListener(gate, conns)
	require.NoError(t, err)
	s := &server{gate: gate, hash: hash, ends: make(chan error, 1000)}
	s.wg.Go(func() {
		for {
			c, err := ln.AcceptConn(context.Background())
			if err != nil {
				return
			}
			s.mu.Lock()
			s.conns = append(s.conns, c)
			s.mu.Unlock()
			s.wg.Go(func() { s.readAll(c) })
		}
	})
	t.Cleanup(func() {
		ln.Close()
		s.mu.Lock()
		for _, c := range s.conns {
			c.Close()
		}
		s.mu.Unlock()
		s.wg.Wait()
	})
	return s
}

// conn returns the connection that was accepted last.
func (s *server) conn(t testing.TB) *volley.Conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	require.NotEmpty(t, s.conns)
	return s.conns[len(s.conns)-1]
}

// dial has the page dial the server; more are further options.
func (s *server) dial(t testing.TB, p *testPage, more string) {
	t.Helper()
	to := s.via
	if to == "" {
		to = s.gate.Addr().String()
	}
	eval[bool](t, p, fmt.Sprintf(`(async () => {
		window.got = []
		window.c = await volley.dial("https://%s/join", { certificateHash: %q, ticket: "ann", timeout: 30000, %s })
		c.onmessage = bytes => got.push(bytes)
		return true
	})()`, to, s.hash, more))
}

// sizes has messages of these sizes echoed, one after the other, each with its own
// content, and again if it is lost: the machine may be busy. It returns what is wrong.
const sizes = `(async list => {
	for (const n of list) {
		const m = new Uint8Array(n).map((_, i) => (i * 131 + n) & 255)
		const same = back => back.length === n && back.every((v, i) => v === m[i])
		for (let tries = 1, from = got.length; !got.slice(from).some(same); tries++) {
			const receipt = await c.send(m)
			if (receipt.delivered && !(receipt.rtt > 0)) return n + ": " + JSON.stringify(receipt)
			for (let i = 0; !got.slice(from).some(same) && i < 200; i++) await new Promise(r => setTimeout(r, 10))
			if (tries === 10) return n + ": no echo; " + JSON.stringify(receipt)
		}
	}
	return got.every(b => list.includes(b.length)) ? "" : "another message than those"
})`

func TestEcho(t *testing.T) {
	p, origin := blankPage(t)
	s := newServer(t, origin)
	s.dial(t, p, "")
	require.Equal(t, "webtransport", eval[string](t, p, "c.transport"))
	require.Empty(t, eval[string](t, p, sizes+`([1, 2, 100, 1023, 1024, 1025, 1199, 1200, 1201, 2047, 2048, 2049, 5000, 16383, 16384])`))
	require.Equal(t, "ann", s.conn(t).NetConn().(*webgate.Conn).Identity())
	require.NotZero(t, eval[float64](t, p, "c.stats().rtt"))
	require.NotZero(t, s.conn(t).Stats().RTT, "the page answers at once, to measure")
	p.clean(t)
}

// Messages of 64 KiB pass, both ways, though their datagrams are more than the queues on
// the way hold.
func TestLargeMessages(t *testing.T) {
	p, origin := blankPage(t)
	s := newServerOf(t, origin, &volley.Config{MaxMessageSize: 65536})
	s.dial(t, p, "maxMessageSize: 65536")
	require.Empty(t, eval[string](t, p, sizes+`([40000, 65535, 65536])`))
	p.clean(t)
}

// Both sides learn the fates of what they send and measure the round trip, whether or not
// there are answers.
func TestReceipts(t *testing.T) {
	const messages = 40
	p, origin := blankPage(t)
	s := newServer(t, origin)
	s.dial(t, p, "")
	c := s.conn(t)
	delivered := 0
	for range messages {
		_, err := c.WriteMessage([]byte("state"))
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		receipts, err := c.WaitReceipts(ctx, nil)
		cancel()
		require.NoError(t, err)
		if receipts[0].Fate == volley.Delivered {
			delivered++
		}
	}
	require.Greater(t, delivered, messages/2)
	p.await(t, fmt.Sprintf("got.length >= %d", delivered))
	require.NotZero(t, c.Stats().RTT, "the page answers some at once, to measure")

	s.mu.Lock()
	s.silent = true
	s.mu.Unlock()
	require.True(t, eval[bool](t, p, `(async () => {
		for (let n = 0; n < 10; ) if ((await c.send(new Uint8Array(9))).delivered) n++
		return c.stats().rtt > 0
	})()`))
	p.clean(t)
}

// Endpoints that begin with any sequence that the wire allows understand each other, also
// with windows that a peer of the reference has not.
func TestFirstSequence(t *testing.T) {
	p, origin := blankPage(t)
	require.Empty(t, eval[string](t, p, `(() => {
		for (const size of [256, 1024]) for (const first of [0, 1, 31743, 31744, 32255, 32256, 32511, 65535]) for (const length of [1, 3000]) {
			const config = { sent: size, received: size }, a = new volley.Endpoint(config), b = new volley.Endpoint(config)
			let got = 0
			a.begin(first)
			b.begin(first)
			b.process = () => ++got > 0
			for (let i = 0; i < 3; i++) {
				const datagrams = a.send(new Uint8Array(length))
				if (i === 0) b.meet(datagrams[0])
				for (const d of datagrams) b.receive(d)
				const [d] = b.send(new Uint8Array(1))
				if (i === 0) a.meet(d)
				a.receive(d)
			}
			if (got !== 3 || a.counters.packets_acked !== 3) return JSON.stringify({ size, first, length, got, ...a.counters })
		}
		return ""
	})()`))
	// Also a server that begins there, here an imitation, and a connection that does.
	require.Equal(t, "1,2,3", eval[string](t, p, `(async () => {
		const real = window.WebTransport
		window.WebTransport = class {
			constructor() {
				const server = new volley.Endpoint({ received: 1024 })
				let to, met = false
				server.begin(32511)
				const take = b => {
					if (b[0] === 5) {
						to.enqueue(Uint8Array.from([9, ...new Array(8).fill(1), ...b.subarray(1, 9), ...new Array(8).fill(0)]))
						for (const d of server.send(Uint8Array.of(1, 2, 3))) to.enqueue(d)
					} else if (!(b[0] & 1)) {
						if (!met) server.meet(b)
						met = true
						server.receive(b)
					}
				}
				this.ready = Promise.resolve()
				this.closed = new Promise(() => {})
				this.datagrams = { readable: new ReadableStream({ start: c => { to = c } }), writable: new WritableStream({ write: take }) }
			}
			close() {}
		}
		const c = await volley.dial("https://imitation.example/join", { transports: ["webtransport"] })
		const message = await new Promise(resolve => { c.onmessage = resolve; setTimeout(resolve, 30000, []) })
		await c.close()
		window.WebTransport = real
		return String(message)
	})()`))
	s := newServer(t, origin)
	eval[bool](t, p, `(() => {
		const random = crypto.getRandomValues.bind(crypto)
		crypto.getRandomValues = a => a instanceof Uint16Array ? a.fill(32510) : random(a)
		return true
	})()`)
	for range 3 {
		s.dial(t, p, "")
		require.Empty(t, eval[string](t, p, sizes+`([1, 3000])`))
	}
	p.clean(t)
}

// A page of another protocol than the server's is refused. One without a protocol, as the
// others of these tests, gets in.
func TestProtocol(t *testing.T) {
	p, origin := blankPage(t)
	s := newServer(t, origin)
	s.dial(t, p, "protocol: 7n")
	require.Empty(t, eval[string](t, p, sizes+`([1])`))
	require.Equal(t, "volley: refused: protocol", eval[string](t, p, fmt.Sprintf(
		`volley.dial("https://%s/join", { certificateHash: %q, protocol: 8 }).then(() => "in", e => e.message)`, s.gate.Addr(), s.hash)))
	var closed *volley.CloseError
	require.ErrorAs(t, <-s.ends, &closed)
	require.Equal(t, "protocol", closed.Reason)
	p.clean(t)
}
