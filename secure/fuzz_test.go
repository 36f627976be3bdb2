package secure

import (
	"bytes"
	"errors"
	"net/http"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"volley/netcode"
)

// FuzzReply: whatever a server replies, the client has a token or an error whose text is short
// and printable. Behind the header comes a token, or a part of it, or more, with one byte changed: a
// token in the input would take the fuzzer a minute to shorten.
func FuzzReply(f *testing.F) {
	is := netcode.Issuer{PrivateKey: netcode.GenerateKey(), Servers: []netip.AddrPort{internalAddress}}
	tok, err := is.Issue(1, nil)
	require.NoError(f, err)
	good, err := tok.MarshalBinary()
	require.NoError(f, err)
	token := func(header string, length, at uint16, value byte) { f.Add([]byte(header), length, at, value) }
	token("HTTP/1.1 200 OK\r\nContent-Length: 2048\r\n\r\n", 2048, 0, good[0])
	token("HTTP/1.1 200 OK\r\nContent-Length: 2048\r\n\r\n", 2047, 0, good[0])
	token("HTTP/1.1 200 OK\r\nContent-Length: 2048\r\n\r\n", 4096, 0, good[0])
	token("HTTP/1.1 200 OK\r\n\r\n", 2048, atCount, 33)
	token("HTTP/1.1 200 OK\r\n\r\n", 2048, atServer, 2)
	for _, text := range []string{
		"HTTP/1.1 403 Forbidden\r\nContent-Length: 3\r\n\r\nno\x00\n\xff",
		"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 7\r\n\r\nfull",
		"HTTP/1.1 503 Service Unavailable\r\nRetry-After: -99999999999999999999\r\n\r\n",
		"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n800\r\n",
		"HTTP/1.1 302 \x1b[31mFound\r\nLocation: https://elsewhere/\r\n\r\n",
		"SSH-2.0-OpenSSH\r\n",
	} {
		token(text, 0, 0, 0)
	}
	req, err := http.NewRequest(http.MethodPost, "https://x/", nil)
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, header []byte, length, at uint16, value byte) {
		body := append(bytes.Clone(good), good...)[:int(length)%(2*len(good)+1)]
		if len(body) > 0 {
			body[int(at)%len(body)] = value
		}
		reply := append(bytes.Clone(header), body...)
		before := bytes.Clone(reply)
		w, err := parseReply(reply, req)
		require.Equal(t, before, reply)
		switch {
		case (w.Token == nil) == (err == nil):
			t.Fatal("neither a token nor an error, or both")
		case err == nil:
			b, err := w.MarshalBinary()
			require.NoError(t, err)
			require.NoError(t, new(netcode.Token).UnmarshalBinary(b))
		default:
			text := err.Error()
			require.Less(t, len(text), 600)
			require.Equal(t, clean(text, 600), text)
			var refused *RefusedError
			if errors.As(err, &refused) {
				require.GreaterOrEqual(t, refused.RetryAfter, time.Duration(0))
			}
		}
	})
}

// FuzzTicket: what a ticket says comes back, and other user data is refused or says the same
// again.
func FuzzTicket(f *testing.F) {
	f.Add((&ticket{}).append(nil))
	f.Add((&ticket{clientID: 7, serial: 9, expires: time.UnixMilli(1), identity: make([]byte, maxIdentity)}).append(nil))
	f.Add([]byte{2})
	f.Fuzz(func(t *testing.T, b []byte) {
		tick, ok := parseTicket(b)
		if !ok {
			return
		}
		require.LessOrEqual(t, len(tick.identity), maxIdentity)
		again, ok := parseTicket(tick.append(nil))
		require.True(t, ok)
		require.True(t, tick.expires.Equal(again.expires))
		again.expires = tick.expires
		require.Equal(t, tick, again)
	})
}
