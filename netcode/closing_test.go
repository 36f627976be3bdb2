package netcode

import (
	"bytes"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"volley/internal/socket"
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
	require.Equal(t, StateConnected, c.state)
	for _, b := range answers[1:] {
		c.receive(now, testServerAddr, b)
		clientSends(c, now)
	}
	require.Equal(t, StateDisconnected, c.state, "after %d datagrams", len(answers))
	require.Zero(t, l.Stats().Conns)
}
