package secure

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"volley/netcode"
	"volley/simnet"
)

// One network may take three quarters of the tokens while nobody else asks. When others come,
// each network has its sixteenth, whatever the others do.
func TestSharesOfTokens(t *testing.T) {
	now := time.Now()
	s := shares{max: 1600}
	many := netip.MustParseAddr("192.0.2.1")
	taken := 0
	for s.take(now, many) == 0 {
		taken++
	}
	require.Equal(t, 1200, taken)
	wait := s.take(now, netip.MustParseAddr("192.0.2.200"))
	require.Equal(t, tokenLifetime, wait, "a network is a /24")
	other := 0
	for s.take(now, netip.MustParseAddr("198.51.100.1")) == 0 {
		other++
	}
	require.Equal(t, 100, other)
	for _, a := range []string{"2001:db8:0:100::1", "2001:db8:0:1ff::1", "2001:db8:0:200::1"} {
		require.Zero(t, s.take(now, netip.MustParseAddr(a)))
	}
	require.Len(t, s.counts, 4, "of IPv6 a /56 is a network")

	// What has expired is free again, and its memory is given back.
	now = now.Add(tokenLifetime)
	require.Zero(t, s.take(now, many))
	require.Len(t, s.counts, 1)
	s.expireLocked(now.Add(tokenLifetime))
	require.Empty(t, s.counts)

	require.LessOrEqual(t, int(reflect.TypeFor[issued]().Size()), 56)

	// A backend asks for many networks, up to all tokens.
	for range s.max {
		require.Zero(t, s.take(now, netip.Addr{}))
	}
	require.NotZero(t, s.take(now, netip.Addr{}))
}

// Handshakes beyond the rate wait for half a second at most. The others are refused.
func TestPaceOfHandshakes(t *testing.T) {
	p := pace{interval: time.Second / 100}
	now, served := time.Now(), 0
	for i := range 1000 {
		delay, err := p.take(now, networkOf(netip.AddrFrom4([4]byte{10, byte(i >> 8), byte(i), 1})))
		if err == nil {
			served++
			require.Less(t, delay, handshakeWait)
		}
	}
	require.Equal(t, 150, served, "a burst of a second, and half a second's more")
	delay, err := p.take(now.Add(time.Minute), netip.Prefix{})
	require.NoError(t, err)
	require.LessOrEqual(t, delay, time.Duration(0))

	// Those that wait are half of the connections at most.
	p, served = pace{interval: time.Second / 100_000}, 0
	for range 200_000 {
		if delay, err := p.take(now, netip.Prefix{}); err == nil && delay > 0 {
			served++
		}
	}
	require.InDelta(t, maxHandshakes/2, served, 1, "those of one network")
}

// A network that asks for too many handshakes keeps no others out. Among those that ask all the
// time, each has an equal part.
func TestPaceIsShared(t *testing.T) {
	p, now := pace{interval: time.Second / 100}, time.Now()
	ask := func(n int, served *int) {
		if _, err := p.take(now, networkOf(netip.AddrFrom4([4]byte{10, 0, byte(n), 1}))); err == nil {
			*served++
		}
	}
	var flood, others int
	for range 10 * 10 { // ten seconds
		for range 100 {
			ask(0, &flood)
		}
		ask(1, &others)
		ask(2, &others)
		now = now.Add(100 * time.Millisecond)
	}
	require.Equal(t, 200, others)
	require.InDelta(t, 100+10*100-200+25, flood, 20, "a burst, and what the others leave of ten seconds")

	require.LessOrEqual(t, p.networks[networkOf(netip.MustParseAddr("10.0.0.1"))].Sub(now), time.Second)
	now, flood = now.Add(2*time.Second), 0
	for range 1000 {
		ask(0, &flood)
	}
	require.Equal(t, 125, flood, "its past is forgotten")
	require.Len(t, p.networks, 1)

	flood, others = 0, 0
	for i := range 10 * 10 {
		for n := range 20 * 10 {
			ask(1+n%20, &flood)
		}
		if i%5 == 4 { // twice a second
			ask(100, &others)
		}
		now = now.Add(100 * time.Millisecond)
	}
	require.Equal(t, 20, others, "beside twenty networks that ask too much")
	now = now.Add(2 * time.Second)

	equal := make([]int, 40)
	for round := range 10 * 10 {
		for i := range 10 * len(equal) {
			n := (round + i) % len(equal)
			ask(n, &equal[n])
		}
		now = now.Add(100 * time.Millisecond)
	}
	for n, served := range equal {
		require.InDelta(t, 1000/len(equal), served, 12, "network %d", n)
	}
}

// busy lets the next handshake have its turn at a time, as if there were many before it.
func busy(l *Listener, next time.Time) {
	l.service.gate.pace.mu.Lock()
	defer l.service.gate.pace.mu.Unlock()
	l.service.gate.pace.next = next
}

func TestBusyServer(t *testing.T) {
	inWorld(t, simnet.Link{}, func(t *testing.T, w *world) {
		l := w.listen(t, &ListenConfig{})
		busy(l, time.Now().Add(time.Hour))
		_, err := w.dialer().Dial(t.Context(), l.URL("10.0.0.1"))
		var de *DialError
		require.ErrorAs(t, err, &de)
		require.Equal(t, "busy", de.Step)
		require.ErrorContains(t, err, "the server has too many logins at once; try again in a second")
		require.NoError(t, l.Close())
	})
}

// When there are too many connections, the oldest of the network that has most gives way.
func TestGateIsBounded(t *testing.T) {
	inWorld(t, simnet.Link{}, func(t *testing.T, w *world) {
		l := w.listen(t, &ListenConfig{})
		dial := func(addr string) net.Conn {
			c, err := w.dialTCP(t.Context(), addr)
			require.NoError(t, err)
			synctest.Wait()
			return c
		}
		closed := func(c net.Conn) bool {
			c.SetReadDeadline(time.Now().Add(time.Millisecond))
			_, err := c.Read(make([]byte, 1))
			return err == io.EOF
		}
		first := dial("10.9.9.9:1")
		var flood []net.Conn
		for i := range maxTokenConns - 1 {
			flood = append(flood, dial(fmt.Sprintf("10.7.7.7:%d", i+1)))
		}
		require.Len(t, l.service.gate.conns, maxTokenConns)
		for i := range 10 {
			flood = append(flood, dial(fmt.Sprintf("10.8.8.%d:1", 1+i)))
			require.Len(t, l.service.gate.conns, maxTokenConns)
			require.True(t, closed(flood[i]))
		}
		require.False(t, closed(first))
		require.False(t, closed(flood[11]))
		require.False(t, closed(flood[len(flood)-1]))

		// Others are served meanwhile.
		client, server := w.connect(t, l)
		require.NoError(t, client.Close())
		require.NoError(t, server.Close())
		require.NoError(t, l.Close())
		for _, c := range append(flood, first) {
			c.Close()
		}
		time.Sleep(time.Second)
		synctest.Wait()
		require.Empty(t, l.service.gate.counts)
	})
}

// A connection that waits for its turn of a handshake does not give way.
func TestGateKeepsThoseThatWait(t *testing.T) {
	inWorld(t, simnet.Link{}, func(t *testing.T, w *world) {
		l := w.listen(t, &ListenConfig{})
		begin := time.Now()
		busy(l, begin.Add(200*time.Millisecond))
		done := make(chan error)
		go func() {
			c, err := w.dialer().Dial(t.Context(), l.URL("10.0.0.1"))
			if err == nil {
				c.Close()
			}
			done <- err
		}()
		synctest.Wait()
		var flood []net.Conn
		for i := range maxTokenConns + 10 {
			c, err := w.dialTCP(t.Context(), fmt.Sprintf("10.%d.%d.7:1", 7+i>>8, i&255))
			require.NoError(t, err)
			synctest.Wait()
			flood = append(flood, c)
		}
		require.NoError(t, <-done)
		require.GreaterOrEqual(t, time.Since(begin), 200*time.Millisecond)

		// One that is silent when its turn has come gives way as others do.
		busy(l, time.Now().Add(200*time.Millisecond))
		silent, err := w.dialTCP(t.Context(), "10.0.1.1:4000")
		require.NoError(t, err)
		go w.tls(l, &silentAfter{Conn: silent, writes: 1}).Handshake()
		synctest.Wait()
		waits := func() bool {
			l.service.gate.mu.Lock()
			defer l.service.gate.mu.Unlock()
			return slices.ContainsFunc(l.service.gate.conns, func(c *tokenConn) bool { return c.waits })
		}
		require.True(t, waits())
		time.Sleep(200 * time.Millisecond)
		synctest.Wait()
		require.False(t, waits())
		silent.Close()
		require.NoError(t, l.Close())
		for _, c := range flood {
			c.Close()
		}
	})
}

// No error of the system ends the service. When there are no more descriptors, an eighth of the
// connections gives way each time: so those that are held keep nobody out.
func TestGateMakesRoom(t *testing.T) {
	inWorld(t, simnet.Link{}, func(t *testing.T, w *world) {
		w.fails = make(chan error)
		l := w.listen(t, &ListenConfig{})
		left := func() int {
			synctest.Wait()
			l.service.gate.mu.Lock()
			defer l.service.gate.mu.Unlock()
			return len(l.service.gate.conns)
		}
		var flood []net.Conn
		for i := range 80 {
			c, err := w.dialTCP(t.Context(), fmt.Sprintf("10.7.7.7:%d", 1+i))
			require.NoError(t, err)
			flood = append(flood, c)
		}
		require.Equal(t, 80, left())
		for i, want := range []int{80, 69, 60, 52} {
			err := []error{syscall.ENOBUFS, syscall.EMFILE, syscall.EMFILE, syscall.ENFILE}[i]
			w.fails <- &net.OpError{Op: "accept", Err: os.NewSyscallError("accept4", err)}
			require.Equal(t, want, left())
		}
		for i, c := range flood {
			c.SetReadDeadline(time.Now().Add(time.Millisecond))
			_, err := c.Read(make([]byte, 1))
			require.Equal(t, i < 80-left(), err == io.EOF)
		}
		client, server := w.connect(t, l)
		require.NoError(t, client.Close())
		require.NoError(t, server.Close())
		require.NoError(t, l.Close())
		for _, c := range flood {
			c.Close()
		}
	})
}

// A gate whose listener was closed ends, and is not asked again for ever.
func TestGateEnds(t *testing.T) {
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	g := newGate(tcp, new(tls.Config), nil)
	require.NoError(t, tcp.Close())
	_, err = g.Accept()
	require.ErrorIs(t, err, net.ErrClosed)
	require.NotErrorAs(t, err, new(acceptError))
}

// No deadline that package http sets makes a connection live longer.
func TestTokenConnEnds(t *testing.T) {
	c := &tokenConn{end: time.Now()}
	for _, late := range []time.Time{{}, c.end.Add(1), c.end.Add(time.Hour)} {
		require.Equal(t, c.end, c.atMost(late))
	}
	require.Equal(t, c.end.Add(-1), c.atMost(c.end.Add(-1)))
}

// The token service answers nothing else, and reads no more than 4 KiB.
func TestTokenServiceRequests(t *testing.T) {
	l := newServer(t, nil)
	a, err := parseURL(l.URL("127.0.0.1"))
	require.NoError(t, err)
	c := new(Dialer).tlsConfig(a)
	c.NextProtos = []string{"http/1.1"}
	client := http.Client{Transport: &http.Transport{TLSClientConfig: c}}
	base := "https://" + l.Addr().String()
	for _, test := range []struct {
		method, path string
		body         io.Reader
		want         int
	}{
		{"POST", tokenPath + "?" + strings.Repeat("x", maxHeader+4<<10), nil, http.StatusRequestHeaderFieldsTooLarge},
		{"GET", tokenPath, nil, http.StatusMethodNotAllowed},
		{"POST", "/", nil, http.StatusNotFound},
		{"POST", tokenPath + "/x", nil, http.StatusNotFound},
		{"POST", tokenPath, strings.NewReader(strings.Repeat("x", maxBody+1)), http.StatusRequestEntityTooLarge},
		{"POST", tokenPath, io.LimitReader(endless{}, 1<<20), http.StatusRequestEntityTooLarge},
		{"POST", tokenPath, strings.NewReader(strings.Repeat("x", maxBody)), http.StatusOK},
		{"POST", tokenPath, nil, http.StatusOK},
	} {
		req, err := http.NewRequestWithContext(t.Context(), test.method, base+test.path, test.body)
		require.NoError(t, err)
		resp, err := client.Do(req)
		require.NoError(t, err)
		b, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		resp.Body.Close()
		require.Equal(t, test.want, resp.StatusCode, "%s: %s", test.method, b)
		require.True(t, resp.Close, "a connection is for one request")
		if resp.StatusCode == http.StatusOK {
			require.NoError(t, new(netcode.Token).UnmarshalBinary(b))
			require.Equal(t, "no-store", resp.Header.Get("Cache-Control"))
		}
	}
}

type endless struct{}

func (endless) Read(b []byte) (int, error) { return len(b), nil }

// TLS 1.3 with a hybrid key exchange is what both sides speak, whatever a configuration says.
func TestTLSIsModern(t *testing.T) {
	cert, pool := testCA(t)
	l := newServer(t, &ListenConfig{TLS: &tls.Config{
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			return &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS13}, nil
		},
		MinVersion: tls.VersionTLS10,
	}})
	require.Empty(t, l.Fingerprint())
	_, err := tls.Dial("tcp", l.Addr().String(), &tls.Config{RootCAs: pool, ServerName: "localhost", MaxVersion: tls.VersionTLS12})
	require.ErrorContains(t, err, "protocol version not supported")
	c, err := tls.Dial("tcp", l.Addr().String(), &tls.Config{RootCAs: pool, ServerName: "localhost", NextProtos: protocols})
	require.NoError(t, err)
	defer c.Close()
	require.Equal(t, tls.X25519MLKEM768, c.ConnectionState().CurveID)
	require.Equal(t, protocol, c.ConnectionState().NegotiatedProtocol)
	static := newServer(t, &ListenConfig{TLS: &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS10}})
	_, err = tls.Dial("tcp", static.Addr().String(), &tls.Config{RootCAs: pool, ServerName: "localhost", MaxVersion: tls.VersionTLS12})
	require.ErrorContains(t, err, "protocol version not supported")
	cl, err := (&Dialer{Trust: pool}).Dial(t.Context(), l.URL("localhost"))
	require.NoError(t, err)
	cl.Close()
}
