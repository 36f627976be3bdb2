package secure

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"volley/simnet"
)

// Offsets in the wire form of a token.
const (
	atProtocol = 13
	atCreated  = 21
	atExpires  = 29
	atNonce    = 37
	atSealed   = 61
	atTimeout  = 61 + 1024
	atCount    = atTimeout + 4
	atServer   = atCount + 4 // family, address, port
	atKeys     = atServer + 7
)

// lie returns a reply with a token that is changed at an offset.
func lie(at int, b ...byte) func(good []byte) []byte {
	return func(good []byte) []byte {
		copy(good[len(good)-2048+at:], b)
		return good
	}
}

func word(n uint64) []byte { return binary.LittleEndian.AppendUint64(nil, n) }

// lies answers a request on a connection of TCP, by a lie.
func lies(t *testing.T, l *Listener, raw net.Conn, lie func(good []byte) []byte) {
	defer raw.Close()
	c := tls.Server(raw, l.service.tls)
	_, err := http.ReadRequest(bufio.NewReader(c))
	tok, err2 := l.keys.issue(&ticket{serial: l.seats.serial.Add(1), session: newSessionID(), generation: 1}, netip.MustParseAddrPort(simServer), tokenLifetime)
	if err = errors.Join(err, err2); err != nil {
		t.Error(err)
		return
	}
	b, err := tok.MarshalBinary()
	if err != nil {
		t.Error(err)
		return
	}
	c.Write(lie(append([]byte("HTTP/1.1 200 OK\r\nContent-Length: 2048\r\n\r\n"), b...)))
	c.Close()
}

// Whatever the server says in each field of its reply, Dial ends soon, with an error that is short
// and printable; or with a session, if the lie is of no consequence.
func TestServerThatLies(t *testing.T) {
	reply := func(text string) func([]byte) []byte { return func([]byte) []byte { return []byte(text) } }
	many := func(good []byte) []byte { // 32 servers that are silent, each for ten seconds
		token := good[len(good)-2048:]
		keys := bytes.Clone(token[atKeys : atKeys+64])
		token[atCount] = 32
		for i := range 32 {
			copy(token[atServer+7*i:], []byte{1, 10, 9, 9, byte(i), 1, 1})
		}
		copy(token[atServer+7*32:], keys)
		return good
	}
	forever := func(good []byte) []byte { // and the server is another one, which is silent
		token := good[len(good)-2048:]
		copy(token[atExpires:], word(1<<63))
		copy(token[atTimeout:], word(1<<31 - 1)[:4])
		copy(token[atServer:], []byte{1, 10, 9, 9, 9})
		return good
	}
	for name, test := range map[string]struct {
		lie  func(good []byte) []byte
		want string // in the error; empty: a session
	}{
		"nothing":              {func(good []byte) []byte { return good }, ""},
		"version":              {lie(0, 'X'), "not that of a token service"},
		"protocol":             {lie(atProtocol, 1), "UDP port 7777 does not answer"},
		"created":              {lie(atCreated, word(0)...), ""},
		"created last":         {lie(atCreated, word(1<<62)...), "not that of a token service"},
		"expires first":        {lie(atExpires, word(0)...), "not that of a token service"},
		"expires never":        {lie(atExpires, word(1<<64-1)...), "UDP port 7777 does not answer"},
		"silent forever":       {forever, "UDP port 7777 does not answer"},
		"nonce":                {lie(atNonce, 1, 2, 3), "UDP port 7777 does not answer"},
		"sealed":               {lie(atSealed, 1, 2, 3), "UDP port 7777 does not answer"},
		"no timeout":           {lie(atTimeout, 0, 0, 0, 0), ""},
		"long timeout":         {lie(atTimeout, 255, 255, 255, 127), ""},
		"negative timeout":     {lie(atTimeout, 0, 0, 0, 128), ""},
		"no servers":           {lie(atCount, 0), "not that of a token service"},
		"too many servers":     {lie(atCount, 33), "not that of a token service"},
		"endless servers":      {lie(atCount, 255, 255, 255, 255), "not that of a token service"},
		"many servers":         {many, "UDP port 257 did not answer before the token expired; is UDP open in the firewall?"},
		"family":               {lie(atServer, 7), "not that of a token service"},
		"another server":       {lie(atServer, 1, 10, 9, 9, 9), "UDP port 7777 does not answer"},
		"server 0.0.0.0":       {lie(atServer, 1, 0, 0, 0, 0), "does not answer"},
		"broadcast":            {lie(atServer, 1, 255, 255, 255, 255), "does not answer"},
		"multicast":            {lie(atServer, 1, 224, 0, 0, 1), "does not answer"},
		"port 0":               {lie(atServer, 1, 10, 0, 0, 1, 0, 0), "does not answer"},
		"keys":                 {lie(atKeys, 1, 2, 3), "UDP port 7777 does not answer"},
		"short token":          {func(good []byte) []byte { return good[:len(good)-1] }, "not that of a token service"},
		"long token":           {func(good []byte) []byte { return append(bytes.Replace(good, []byte("2048"), []byte("2049"), 1), 0) }, "not that of a token service"},
		"more than it says":    {func(good []byte) []byte { return append(good, good...) }, ""},
		"less than it says":    {func(good []byte) []byte { return bytes.Replace(good, []byte("2048"), []byte("9999"), 1) }, ""},
		"negative length":      {func(good []byte) []byte { return bytes.Replace(good, []byte("2048"), []byte("-1"), 1) }, "not that of a token service"},
		"nothing at all":       {reply(""), "the server gave no connect token: the reply is not that of a token service"},
		"endless header":       {reply("HTTP/1.1 200 OK\r\n" + strings.Repeat("a: b\r\n", 1<<16)), "not that of a token service"},
		"endless line":         {reply(strings.Repeat("HTTP", 1<<16)), "not that of a token service"},
		"endless reason":       {reply("HTTP/1.1 403 No\r\n\r\n" + strings.Repeat("no\n", 1<<16)), "refuses the client: no no no"},
		"endless token":        {reply("HTTP/1.1 200 OK\r\n\r\n" + strings.Repeat("x", 1<<18)), "not that of a token service"},
		"another page":         {reply("HTTP/1.1 302 Found\r\nLocation: https://10.9.9.9/\r\n\r\n"), "its status is 302 Found"},
		"a fault":              {reply("HTTP/1.1 500 Internal Server Error\r\n\r\n"), "its status is 500 Internal Server Error"},
		"colours":              {reply("HTTP/1.1 403 \x1b[31m\r\n\r\n\x1b[31mred\x07\r\n\u202eback"), "refuses the client: [31mred"},
		"no reason":            {reply("HTTP/1.1 403 Forbidden\r\n\r\n"), "refuses the client: 403 Forbidden"},
		"retry in 68 years":    {reply("HTTP/1.1 503 Busy\r\nRetry-After: 2147483647\r\n\r\nfull"), "refuses the client: full; it asks to try again in 596523h14m7s"},
		"retry in 1e30 years":  {reply("HTTP/1.1 503 Busy\r\nRetry-After: 99999999999999999999999\r\n\r\nfull"), "refuses the client: full"},
		"retry before":         {reply("HTTP/1.1 503 Busy\r\nRetry-After: -7\r\n\r\nfull"), "refuses the client: full"},
		"more to come":         {reply("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n\r\n"), "its status is 100 Continue"},
		"another protocol":     {reply("HTTP/1.1 101 Switching Protocols\r\n\r\n"), "its status is 101 Switching Protocols"},
		"chunks":               {reply("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n"), "not that of a token service"},
		"a token of no server": {func(good []byte) []byte { return append(good[:len(good)-2048], make([]byte, 2048)...) }, "not that of a token service"},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, simnet.Link{}, func(t *testing.T, w *world) {
				l := w.listen(t, &ListenConfig{})
				d := w.dialer()
				d.dialTCP = func(context.Context, string, string) (net.Conn, error) {
					client, server := net.Pipe()
					go lies(t, l, server, test.lie)
					return client, nil
				}
				start := time.Now()
				c, err := d.Dial(t.Context(), l.URL("10.0.0.1"))
				require.LessOrEqual(t, time.Since(start), maxJoin+time.Second)
				if test.want == "" {
					require.NoError(t, err)
					s, err := l.AcceptConn(t.Context())
					require.NoError(t, err)
					require.NoError(t, c.Close())
					require.NoError(t, s.Close())
				} else {
					require.ErrorContains(t, err, test.want)
					require.Less(t, len(err.Error()), 2000)
					require.Equal(t, clean(err.Error(), 2000), err.Error())
				}
				require.NoError(t, l.Close())
			})
		})
	}
}

// A backend that sends headers or tokens without an end is cut off.
func TestBackendThatDoesNotEnd(t *testing.T) {
	for want, h := range map[string]http.HandlerFunc{
		"header": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X", strings.Repeat("x", maxReply))
			w.Write(nil)
		},
		"not that of a token service": func(w http.ResponseWriter, _ *http.Request) {
			for b := make([]byte, 1<<10); ; {
				if _, err := w.Write(b); err != nil {
					return
				}
			}
		},
	} {
		s := newTLSServer(t, h)
		_, err := Dial(t.Context(), s.URL+"/#"+pinOf(s.Certificate()).String())
		var de *DialError
		require.ErrorAs(t, err, &de)
		require.Equal(t, "token", de.Step)
		require.ErrorContains(t, err, want)
	}
}
