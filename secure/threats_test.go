package secure

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"net/netip"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"volley/simnet"
)

// A tapped socket tells what a client sends, before it is sent.
type tapped struct {
	*simnet.Conn
	sent func(b []byte)
}

func (c tapped) WriteTo(b []byte, to net.Addr) (int, error) {
	c.sent(bytes.Clone(b))
	return c.Conn.WriteTo(b, to)
}

// tap returns a Dialer whose datagrams are told.
func (w *world) tap(sent func(b []byte)) *Dialer {
	d := w.dialer()
	d.dialUDP = func() (net.PacketConn, error) {
		c, err := w.net.Listen("10.0.1.1:0")
		return struct{ net.PacketConn }{tapped{c, sent}}, err
	}
	return d
}

// An attacker that shows a copied request first burns the token. The client loses that join, and
// nobody a seat: neither an older session of the client nor the next join.
func TestCopiedRequestCostsOneJoin(t *testing.T) {
	inWorld(t, simnet.Link{Latency: time.Millisecond}, func(t *testing.T, w *world) {
		l := w.listen(t, &ListenConfig{Authorize: player})
		first, server := w.connect(t, l)
		attacker, err := w.net.Listen("10.6.6.6:666")
		require.NoError(t, err)
		to := net.UDPAddrFromAddrPort(netip.MustParseAddrPort(simServer))
		var once sync.Once
		victim := w.tap(func(b []byte) {
			once.Do(func() {
				attacker.WriteTo(b, to)
				time.Sleep(10 * time.Millisecond) // it is faster
			})
		})
		_, err = victim.Dial(t.Context(), l.URL("10.0.0.1"))
		var de *DialError
		require.ErrorAs(t, err, &de)
		require.Equal(t, "udp", de.Step)
		attacker.SetReadDeadline(time.Now().Add(time.Second))
		n, _, err := attacker.ReadFrom(make([]byte, 2000))
		require.NoError(t, err)
		require.Less(t, n, 400, "a challenge, which only the client can answer")

		first.Write([]byte("still here"))
		_, err = server.Read(make([]byte, 100))
		require.NoError(t, err)
		next, server := w.connect(t, l)
		require.NoError(t, next.Close())
		require.NoError(t, server.Close())
		require.NoError(t, l.Close())
		attacker.Close()
		first.Close()
	})
}

// What was recorded of a session opens none again: neither while its keys live, nor at the same
// server, with the same key file, after a restart.
func TestRecordedSessionIsWorthless(t *testing.T) {
	file := filepath.Join(t.TempDir(), "server.key")
	inWorld(t, simnet.Link{Latency: time.Millisecond}, func(t *testing.T, w *world) {
		lc := &ListenConfig{KeyFile: file}
		l := w.listen(t, lc)
		var recorded [][]byte
		c, err := w.tap(func(b []byte) { recorded = append(recorded, b) }).Dial(t.Context(), l.URL("10.0.0.1"))
		require.NoError(t, err)
		_, err = l.AcceptConn(t.Context())
		require.NoError(t, err)
		c.Write([]byte("pay 100"))
		local := c.LocalAddr().String()
		require.NoError(t, c.Close())
		synctest.Wait()
		time.Sleep(time.Second)
		replay := func(l *Listener) {
			attacker, err := w.net.Listen(local)
			require.NoError(t, err)
			defer attacker.Close()
			before := l.Stats()
			for _, b := range recorded {
				attacker.WriteTo(b, net.UDPAddrFromAddrPort(netip.MustParseAddrPort(simServer)))
				time.Sleep(10 * time.Millisecond)
			}
			synctest.Wait()
			require.Equal(t, before.Conns, l.Stats().Conns)
			attacker.SetReadDeadline(time.Now().Add(time.Second))
			_, _, err = attacker.ReadFrom(make([]byte, 2000))
			require.Error(t, err, "it is answered")
		}
		require.GreaterOrEqual(t, len(recorded), 4)
		replay(l)
		require.NoError(t, l.Close())

		again := &world{net: w.net, tokens: make(chan net.Conn), closed: make(chan struct{})}
		again.closeTCP = sync.OnceFunc(func() { close(again.closed) })
		time.Sleep(100 * time.Millisecond)
		l2 := again.listen(t, lc)
		require.Equal(t, l.Fingerprint(), l2.Fingerprint())
		replay(l2)
		require.NoError(t, l2.Close())
	})
}

// A token of one server means nothing to another with the same key file.
func TestTokensAreOfOneServer(t *testing.T) {
	lc := &ListenConfig{KeyFile: filepath.Join(t.TempDir(), "server.key")}
	a, b := newServer(t, lc), newServer(t, lc)
	astray := Dialer{Header: http.Header{serverHeader: {b.Addr().String()}}}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		for ctx.Err() == nil && b.Stats().Requests < 2 { // the first one has been handled then
			time.Sleep(10 * time.Millisecond)
		}
		cancel()
	}()
	_, err := astray.Dial(ctx, a.URL("127.0.0.1"))
	require.ErrorIs(t, err, context.Canceled)
	s := b.Stats()
	require.GreaterOrEqual(t, s.Requests, uint64(2))
	require.Zero(t, s.Challenges)
}

// Requests that are made up are not answered, and each costs the server one attempt to open it.
func TestForgedRequestsAreNotAnswered(t *testing.T) {
	inWorld(t, simnet.Link{}, func(t *testing.T, w *world) {
		l := w.listen(t, &ListenConfig{})
		var request []byte
		client, err := w.tap(func(b []byte) {
			if request == nil {
				request = b
			}
		}).Dial(t.Context(), l.URL("10.0.0.1"))
		require.NoError(t, err)
		attacker, err := w.net.Listen("10.6.6.6:666")
		require.NoError(t, err)
		for i := range 1000 {
			b := bytes.Clone(request)
			b[len(b)-1-i%1000] ^= 1 // in the sealed part
			attacker.WriteTo(b, net.UDPAddrFromAddrPort(netip.MustParseAddrPort(simServer)))
			synctest.Wait()
		}
		s := l.Stats()
		require.Equal(t, uint64(1001), s.Requests)
		require.Equal(t, uint64(1), s.Challenges)
		require.Equal(t, 1, s.Tokens)
		attacker.SetReadDeadline(time.Now().Add(time.Second))
		_, _, err = attacker.ReadFrom(make([]byte, 2000))
		require.Error(t, err)
		require.NoError(t, client.Close())
		require.NoError(t, l.Close())
		attacker.Close()
	})
}
