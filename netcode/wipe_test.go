package netcode

import (
	"bytes"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"volley/internal/listen"
	"volley/internal/wire"
)

// TestSecretsWiped: neither the private key nor an opened private token stays
// in the memory of a server, be the request admitted or refused.
func TestSecretsWiped(t *testing.T) {
	s := newTestServer(func(c *serverConfig) { c.maxClients = 1 })
	require.Equal(t, Key{}, s.cfg.privateKey)
	check := func(b []byte) {
		t.Helper()
		require.Equal(t, privateToken{}, s.req.token)
		require.Equal(t, make([]byte, privateTokenSize), b[requestPrivate:], "the opened token in the datagram")
	}
	request := func(i int, change func(*Issuer)) []byte {
		is := testIssuer()
		change(is)
		tok, err := is.issue(testStart, uint64(i), nil, GenerateKey(), GenerateKey(), randomNonce())
		require.NoError(t, err)
		return clientSends(newTestClient(testStart, tok), testStart)[0]
	}
	var out wire.Batch

	// Admitted, repeated, and in the end accepted.
	tok := issueAt(t, testStart, 1)
	c := newTestClient(testStart, tok)
	req := clientSends(c, testStart)[0]
	again := bytes.Clone(req)
	s.receive(testStart, clientAddr(1), req, &out)
	check(req)
	first := s.handshakes.entries[clientAddr(1)]
	require.Equal(t, tok.clientKey, first.clientKey)
	s.receive(testStart, clientAddr(1), again, &out)
	check(again)
	require.Equal(t, handshake{}, *first, "the handshake that was replaced")
	second := s.handshakes.entries[clientAddr(1)]
	c.receive(testStart, testServerAddr, bytes.Clone(out.At(1)))
	sess, _ := s.receive(testStart, clientAddr(1), clientSends(c, testStart)[0], &out)
	require.NotNil(t, sess)
	require.Equal(t, handshake{}, *second, "the handshake that has become a session")

	// Refused after it was opened.
	for _, change := range []func(*Issuer){
		func(*Issuer) {}, // full
		func(is *Issuer) { is.Servers = testServerAddrs[1:] },
	} {
		req := request(2, change)
		s.receive(testStart, clientAddr(2), req, &out)
		check(req)
	}
	require.NotZero(t, s.counts.drops[dropServerFull])
	require.NotZero(t, s.counts.drops[dropNotListed])

	// Never answered, and at the end of the server.
	for _, end := range []func(*server){
		func(s *server) { s.tick(testStart.Add(time.Minute)) },
		(*server).stop,
	} {
		s := newTestServer(nil)
		var all []*handshake
		for i := range 3 {
			s.receive(testStart, clientAddr(i), request(i, func(*Issuer) {}), &out)
			all = append(all, s.handshakes.entries[clientAddr(i)])
			require.NotNil(t, all[i])
		}
		end(s)
		for _, h := range all {
			require.Equal(t, handshake{}, *h)
		}
	}
}

// TestTokenSecretsWiped: nor in that of a backend, which seals private parts and
// looks into them.
func TestTokenSecretsWiped(t *testing.T) {
	tok := issueAt(t, testStart, 1)
	p := &privateToken{clientID: 7, clientKey: GenerateKey(), serverKey: GenerateKey(), numServers: 1}
	p.servers[0] = testServerAddr
	tok.sealPrivate(p, &testKey)
	require.Equal(t, privateToken{}, *p)

	bad := issueAt(t, testStart, 1)
	bad.sealPrivate(&privateToken{clientKey: GenerateKey()}, &testKey) // of no server
	for name, test := range map[string]struct {
		tok *Token
		key Key
		ok  bool
	}{"good": {tok, testKey, true}, "another key": {tok, Key{9}, false}, "no server": {bad, testKey, false}} {
		b := test.tok.private
		*p = privateToken{clientID: 1} // what does not open is not parsed
		c, err := test.tok.claims(&test.key, &b, p)
		require.Equal(t, test.ok, err == nil, name)
		require.Equal(t, privateToken{}, *p, name)
		require.Zero(t, b, name)
		if test.ok {
			require.Equal(t, uint64(7), c.ClientID)
			require.Equal(t, []netip.AddrPort{testServerAddr}, c.Servers)
		}
	}
	_, err := tok.Claims(testKey)
	require.NoError(t, err, "the token itself is as it was")
	_, err = tok.Claims(testKey)
	require.NoError(t, err)
}

// TestListenerKeepsNoKey: the private key is not in the configuration that a
// Listener keeps; the caller's stays as it is.
func TestListenerKeepsNoKey(t *testing.T) {
	sock := newFakeSocket()
	lc := ListenConfig{PrivateKey: testKey, ProtocolID: testProtocol}
	l, err := lc.newListener()
	require.NoError(t, err)
	require.NoError(t, l.serve(listen.PortOf(sock), lc.PrivateKey))
	defer l.Close()
	require.Equal(t, testKey, lc.PrivateKey)
	require.Equal(t, Key{}, l.cfg.PrivateKey)
	require.Equal(t, Key{}, l.core.cfg.privateKey)
	require.NotNil(t, l.core.requests.keys)
}
