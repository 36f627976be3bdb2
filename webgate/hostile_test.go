package webgate

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/quic-go/quic-go"
	"github.com/stretchr/testify/require"

	"volley"
)

// Clients that begin handshakes and do not end them, from forged addresses perhaps, keep
// nobody out: the next ones prove their addresses first.
func TestForgedHandshakes(t *testing.T) {
	g := listen(t, Config{})
	for end := time.Now().Add(patience); g.own.handshakes() < crowd; { // each ends after 5 s
		forgeHandshake(t, g.Addr().String())
		require.True(t, time.Now().Before(end), "%d handshakes", g.own.handshakes())
	}
	for range 10 {
		forgeHandshake(t, g.Addr().String())
	}
	dialTransport(t, g, "/join").Close()
	require.LessOrEqual(t, g.own.handshakes(), crowd)
}

// forgeHandshake sends the first datagram of a client, and nothing else.
func forgeHandshake(t *testing.T, to string) {
	blind, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	defer blind.Close()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go quic.DialAddr(ctx, blind.LocalAddr().String(), clientTLS, &quic.Config{HandshakeIdleTimeout: time.Second})
	addr, err := net.ResolveUDPAddr("udp", to)
	require.NoError(t, err)
	buf := make([]byte, 2000)
	for range 2 { // a hello takes two datagrams
		n, _, err := blind.ReadFrom(buf)
		require.NoError(t, err)
		_, err = blind.WriteTo(buf[:n], addr)
		require.NoError(t, err)
	}
}

// Streams are refused, and counted.
func TestStreamsRefused(t *testing.T) {
	g := listen(t, Config{})
	s, _, err := session(t, g, "/join", "")
	require.NoError(t, err)
	defer client(t, &transportLink{s}).Close()
	c, err := g.Accept()
	require.NoError(t, err)
	defer c.Close()
	const each = 20
	for range each {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		str, err := s.OpenStreamSync(ctx)
		require.NoError(t, err)
		str.Write(make([]byte, 100))
		uni, err := s.OpenUniStreamSync(ctx)
		require.NoError(t, err)
		uni.Write(make([]byte, 100))
		str.Close()
		uni.Close()
		_, err = str.Read(make([]byte, 1))
		require.Error(t, err)
		cancel()
	}
	g.await(t, func(s Stats) bool { return s.StreamsRefused == 2*each })
}

// A WebSocket ends at a text, and at a message that no datagram could be.
func TestWrongMessages(t *testing.T) {
	for name, send := range map[string]func(context.Context, *websocket.Conn) error{
		"text": func(ctx context.Context, ws *websocket.Conn) error {
			return ws.Write(ctx, websocket.MessageText, []byte("hello"))
		},
		"large": func(ctx context.Context, ws *websocket.Conn) error {
			return ws.Write(ctx, websocket.MessageBinary, make([]byte, maxDatagram+1))
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := listen(t, Config{})
			ws, _, err := socket(t, g, "/join", "")
			require.NoError(t, err)
			defer ws.CloseNow()
			c, err := g.Accept()
			require.NoError(t, err)
			defer c.Close()
			require.NoError(t, send(t.Context(), ws))
			_, err = c.Read(make([]byte, 5000))
			require.Error(t, err)
			_, _, err = ws.Read(t.Context())
			require.Error(t, err)
		})
	}
}

// A request with a body is refused before anything reads it.
func TestMethods(t *testing.T) {
	g := listen(t, Config{Authorize: func(*http.Request) (any, error) { panic("asked") }})
	tr := &http.Transport{TLSClientConfig: clientTLS.Clone()}
	tr.TLSClientConfig.NextProtos = nil
	defer tr.CloseIdleConnections()
	resp, err := (&http.Client{Transport: tr}).Post("https://"+g.Addr().String()+"/join", "application/x-www-form-urlencoded", strings.NewReader("ticket=ann"))
	require.NoError(t, err)
	resp.Body.Close()
	require.Equal(t, http.StatusMethodNotAllowed, resp.StatusCode)
	require.EqualValues(t, 1, g.Stats().Refused)
}

// FuzzFrames feeds a connection with whatever a client may send: frames, each behind its
// length.
func FuzzFrames(f *testing.F) {
	frame := func(frames ...string) (b []byte) {
		for _, s := range frames {
			b = append(binary.BigEndian.AppendUint16(b, uint16(len(s))), s...)
		}
		return b
	}
	f.Add(frame("\x3e\x01\x00\x02\x00\x00\x00\x00hi", "\x05abcdefgh\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"))
	f.Add(frame("\x01\x00\x00\x00\x02\x3e\x00\x00\x01\x00\x00\x00\x00frag", "\x01\x00\x00\x01\x02ment", "\x01\x00\x00\x02\x02s", ""))
	f.Add(frame("\x0fabcdefghkicked", "\x03\x01\x00", "\x0dabcdefgh"))
	f.Fuzz(func(t *testing.T, data []byte) {
		l := newFake()
		c, g := newFakeConn(l)
		v, err := volley.NewConn(c, &volley.Config{FragmentSize: 4, MaxMessageSize: 64, FragmentAbove: 16})
		require.NoError(t, err)
		go io.Copy(io.Discard, v)
		for len(data) >= 2 {
			n := min(int(binary.BigEndian.Uint16(data)), len(data)-2)
			select {
			case l.in <- data[2 : 2+n]:
			case <-time.After(patience):
				t.Fatal("nobody reads")
			case <-l.end:
			}
			data = data[2+n:]
		}
		l.close()
		v.Close()
		g.await(t, func(s Stats) bool { return s.Sessions == 0 })
	})
}
