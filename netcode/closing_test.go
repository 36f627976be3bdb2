package netcode

import (
	"bytes"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"volley/internal/socket"
	"volley/simnet"
)

// A hookedSocket calls a function before it writes.
type hookedSocket struct {
	*fakeSocket
	before func(b []byte)
}

func (s *hookedSocket) WriteBatch(ps []socket.Packet) (int, error) {
	for _, p := range ps {
		s.before(p.Buf)
	}
	select {
	case <-s.done:
		return 0, net.ErrClosed
	default:
		return s.fakeSocket.WriteBatch(ps)
	}
}

// TestHandshakeWhileClosing: a client whose handshake completes while the
// Listener closes is told that there is no session.
func TestHandshakeWhileClosing(t *testing.T) {
	sock := &hookedSocket{fakeSocket: newFakeSocket()}
	var l *Listener
	sock.before = func(b []byte) {
		if packetType(b[0]&0xf) == packetKeepAlive { // the last step of the handshake
			l.Close()
		}
	}
	l = listenFake(t, sock, 4)
	tok, err := testIssuer().Issue(1, nil)
	require.NoError(t, err)
	now := time.Now()
	c := newTestClient(now, tok)
	sock.put(clientAddr(1), clientSends(c, now)[0])
	sock.put(testServerAddr, nil) // the first has been handled
	for _, b := range sock.sent(clientAddr(1)) {
		c.receive(now, testServerAddr, b)
	}
	sock.put(clientAddr(1), clientSends(c, now)[0])
	<-sock.done
	answers := sock.sent(clientAddr(1))
	require.NotEmpty(t, answers)
	c.receive(now, testServerAddr, bytes.Clone(answers[0]))
	require.Equal(t, stateConnected, c.state)
	for _, b := range answers[1:] {
		c.receive(now, testServerAddr, b)
		clientSends(c, now)
	}
	require.Equal(t, stateDisconnected, c.state, "after %d datagrams", len(answers))
	require.Zero(t, l.Stats().Conns)
}

// Sessions that timed out while they waited for Accept keep nobody out: those
// with nothing to read are gone, the others give way.
func TestBacklogForgetsTimedOut(t *testing.T) {
	bubble(t, simnet.Link{Latency: time.Millisecond}, func(t *testing.T, n *simnet.Network) {
		l := simListen(t, n, func(lc *ListenConfig) { lc.MaxClients, lc.Backlog = 100, 3 })
		defer l.Close()
		for id := range uint64(3) {
			c, err := simDial(t, n, simToken(t, id+1))
			require.NoError(t, err)
			if id > 0 {
				c.Write([]byte{byte(id)})
			}
			time.Sleep(time.Second)
			c.dc.Close() // the peer is not told
			defer c.Close()
		}
		time.Sleep(time.Minute)
		for id := range uint64(2) {
			c, err := simDial(t, n, simToken(t, id+11))
			require.NoError(t, err)
			defer c.Close()
		}
		time.Sleep(time.Second)
		require.Zero(t, l.Stats().Refused)
		var ids []uint64
		for range 3 {
			c, err := l.AcceptConn(t.Context())
			require.NoError(t, err)
			defer c.Close()
			ids = append(ids, c.ClientID())
			if c.ClientID() == 3 {
				wantRead(t, c, "\x02")
			}
		}
		require.Equal(t, []uint64{3, 11, 12}, ids)
	})
}
