package stacktest

import (
	"errors"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"volley"
	"volley/netcode"
	"volley/secure"
)

// A session that moves to another socket of a Listener, which another goroutine reads, is served as
// before: by one call of the Handler at a time.
func TestServedSessionMovesToAnotherSocket(t *testing.T) {
	for _, stacked := range []bool{false, true} {
		inner, err := secure.Listen("udp4", "127.0.0.1:0", &secure.ListenConfig{Sessions: &netcode.ListenConfig{Sockets: 4}})
		require.NoError(t, err)
		served := make(chan error, 1)
		inside, most := 0, 0 // of the Handler's calls, which need no lock
		handled := func() {
			inside++
			most = max(most, inside)
			inside--
		}
		var l *volley.Listener
		if stacked {
			l = newListener(inner, nil)
			go func() {
				served <- l.Serve(volley.Handler{Message: func(c *volley.Conn, msg []byte) { handled(); c.Write(msg) }})
			}()
		} else {
			go func() {
				served <- inner.Serve(secure.Handler{Message: func(c *secure.Conn, msg []byte) { handled(); c.Write(msg) }})
			}()
		}
		session := secureDial(t, inner)
		var client net.Conn = session
		if stacked {
			client = newConn(session, nil)
		}
		b := make([]byte, 100)
		for n := range 12 { // one of four sockets each time
			for tries := 0; ; tries++ {
				_, err := client.Write([]byte{byte(n)})
				require.NoError(t, err)
				client.SetReadDeadline(time.Now().Add(2 * time.Second))
				if _, err = client.Read(b); err == nil {
					break
				}
				require.Less(t, tries, 5, "%v", err)
			}
			rebind(t, session)
		}
		require.Equal(t, 1, most)
		client.Close()
		if l != nil {
			require.NoError(t, l.Close())
		}
		require.NoError(t, inner.Close())
		require.True(t, errors.Is(<-served, net.ErrClosed))
	}
}
