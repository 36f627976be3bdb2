package netcode

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"volley/internal/wire"
	"volley/simnet"
)

func TestDialErrors(t *testing.T) {
	dead := netip.MustParseAddrPort("10.9.9.9:1")
	bubble(t, simnet.Link{Latency: time.Millisecond}, func(t *testing.T, n *simnet.Network) {
		l := simListen(t, n, func(lc *ListenConfig) { lc.MaxClients = 1 })
		client, server := simPair(t, n, l, 1)
		defer closeAll(client, server, l)
		issue := func(change func(*Issuer)) func() *Token {
			return func() *Token {
				is := testIssuer()
				change(is)
				tok, err := is.Issue(2, nil)
				if err != nil {
					t.Fatal(err)
				}
				return tok
			}
		}
		expired := issue(func(is *Issuer) { is.Lifetime = time.Second })()
		time.Sleep(4 * time.Second)
		for _, test := range []struct {
			tok     func() *Token
			want    error
			elapsed time.Duration
			timeout bool
			text    []string
		}{
			{func() *Token { return expired }, ErrTokenExpired, time.Second, false,
				[]string{"lifetime ended", "clock", "had expired 3 s before by this machine's clock"}},
			{issue(func(*Issuer) {}), ErrServerFull, 2 * time.Millisecond, false, []string{simServer, "full"}},
			{issue(func(is *Issuer) { is.PrivateKey = Key{5} }), errNoAnswer, 5 * time.Second, true,
				[]string{simServer, "5 s", "down", "private key", "protocol id", "address", "used", "started", "clock"}},
			{issue(func(is *Issuer) { is.Servers = []netip.AddrPort{dead, testServerAddr} }), ErrServerFull, 5 * time.Second, false,
				[]string{simServer, "the last of 2 servers", "10.9.9.9:1 after 5 s: no answer"}},
			{issue(func(is *Issuer) { is.Servers[0], is.Lifetime = dead, 2*time.Second }), ErrTokenExpired, 2 * time.Second, false,
				[]string{"lifetime ended"}},
		} {
			_, err := simDial(t, n, test.tok())
			var he *HandshakeError
			if !errors.As(err, &he) {
				t.Errorf("Dial: %v, want a HandshakeError", err)
				continue
			}
			if !errors.Is(err, test.want) || he.Elapsed.Round(time.Millisecond*10) != test.elapsed.Round(time.Millisecond*10) || he.Timeout() != test.timeout {
				t.Errorf("%v after %v, timeout %v: %v", he.Err, he.Elapsed, he.Timeout(), he)
			}
			for _, s := range test.text {
				if !strings.Contains(err.Error(), s) {
					t.Errorf("%q does not say %q", err, s)
				}
			}
		}
		if _, err := simDial(t, n, expired); err != ErrTokenUsed {
			t.Errorf("an expired token once more: %v, want ErrTokenUsed", err)
		}
		used := issue(func(is *Issuer) { is.Servers[0] = dead })()
		simDial(t, n, used)
		if _, err := simDial(t, n, used); err != ErrTokenUsed {
			t.Errorf("a token once more: %v, want ErrTokenUsed", err)
		}
	})
}

func TestDialContext(t *testing.T) {
	bubble(t, simnet.Link{}, func(t *testing.T, n *simnet.Network) {
		dial := func(ctx context.Context) error {
			pc, _ := n.Listen("10.0.1.1:0")
			var d Dialer
			_, err := d.DialOn(ctx, pc, simToken(t, 1))
			return err
		}
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		err := dial(ctx)
		var he *HandshakeError
		if !errors.Is(err, context.DeadlineExceeded) || !errors.As(err, &he) || !he.Timeout() {
			t.Fatalf("Dial: %v", err)
		}
		if he.Attempts[0].Challenged || he.Elapsed != 2*time.Second || !strings.Contains(err.Error(), "down") {
			t.Errorf("Dial: %v after %v, attempts %v", err, he.Elapsed, he.Attempts)
		}
		ctx, cancel = context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		if err := dial(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("Dial: %v, want cancelled", err)
		}
		if err := dial(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("Dial with a context that is over: %v", err)
		}
	})
}

// TestConnectOverLoss: with 30 % loss each way, every handshake succeeds within
// the token's timeout, and payloads arrive at most once.
func TestConnectOverLoss(t *testing.T) {
	bubble(t, simnet.Link{Latency: 30 * time.Millisecond, Jitter: 10 * time.Millisecond, Loss: 0.3, Duplicate: 0.1}, func(t *testing.T, n *simnet.Network) {
		l := simListen(t, n, nil)
		defer l.Close()
		for i := range 100 {
			start := time.Now()
			client, server := simPair(t, n, l, uint64(i))
			if d := time.Since(start); d > 5*time.Second {
				t.Errorf("handshake %d took %v", i, d)
			}
			for j := range 50 {
				client.Write([]byte{byte(j)})
			}
			time.Sleep(time.Second)
			seen := make(map[byte]int)
			server.SetReadDeadline(time.Now().Add(time.Second))
			for {
				b := make([]byte, 9)
				if _, err := server.Read(b); err != nil {
					break
				}
				seen[b[0]]++
			}
			if len(seen) < 15 || slices.ContainsFunc([]byte{0, 10, 20, 30, 40}, func(b byte) bool { return seen[b] > 1 }) {
				t.Errorf("session %d: %v", i, seen)
			}
			for _, k := range seen {
				if k > 1 {
					t.Fatal("a payload arrived twice")
				}
			}
			closeAll(client, server)
		}
	})
}

func TestFallThroughServers(t *testing.T) {
	bubble(t, simnet.Link{Latency: time.Millisecond}, func(t *testing.T, n *simnet.Network) {
		l := simListen(t, n, nil)
		is := testIssuer()
		is.Servers = []netip.AddrPort{netip.MustParseAddrPort("10.9.9.9:1"), netip.MustParseAddrPort("10.9.9.9:2"), testServerAddr}
		tok, _ := is.Issue(1, nil)
		start := time.Now()
		client, err := simDial(t, n, tok)
		if err != nil {
			t.Fatal(err)
		}
		server, _ := l.AcceptConn(t.Context())
		defer closeAll(client, server, l)
		if d := time.Since(start); d < 10*time.Second || d > 11*time.Second || client.RemoteAddr().String() != simServer {
			t.Errorf("connected to %v after %v", client.RemoteAddr(), d)
		}
		client.Write([]byte("x"))
		wantRead(t, server, "x")
	})
}

// A dial for a move that was cancelled does nothing any more, because its token may be
// overwritten. It does not tell the server, which may have moved the session.
func TestCancelledMoveEnds(t *testing.T) {
	is := Issuer{PrivateKey: GenerateKey(), Servers: []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:1")}}
	tok, err := is.Issue(1, nil)
	require.NoError(t, err)
	d := &dialing{set: &settings{move: true}, core: newClient(clientConfig{interval: time.Second, window: 256}), finish: func() {}}
	now := time.Now()
	d.core.connect(now, tok)
	d.cancel(context.Canceled)
	*tok = Token{}
	out := new(wire.Batch)
	require.Zero(t, d.advanceLocked(now.Add(time.Minute), out))
	require.Zero(t, out.Len())
	require.Len(t, d.core.attempts, 1)
	require.Equal(t, context.Canceled, d.core.attempts[0].err)
}
