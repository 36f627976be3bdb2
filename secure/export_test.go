package secure

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"volley/simnet"
)

// Simulate runs a test in virtual time, with a session whose client is behind a NAT, and which
// ends before f returns.
func Simulate(t *testing.T, link simnet.Link, f func(t *testing.T, client, server *Conn, rebind func())) {
	inWorld(t, link, func(t *testing.T, w *world) {
		nat := w.behindNAT(t)
		l := w.listen(t, &ListenConfig{})
		client, server := w.connect(t, l)
		f(t, client, server, nat.Rebind)
		require.NoError(t, l.Close())
		time.Sleep(time.Minute)
	})
}
