package datagram

import (
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"volley/internal/wire"
)

// A deciding acceptor does something while it decides.
type deciding struct {
	*fakeAcceptor
	meanwhile func()
}

func (a *deciding) HandleUnknown(now time.Time, from netip.AddrPort, late bool, bufs [][]byte, out *wire.Batch) Admit {
	a.meanwhile()
	return a.fakeAcceptor.HandleUnknown(now, from, late, bufs, out)
}

// Who is let in while the Mux is being closed becomes a Conn, which can say
// farewell, before the socket goes; who is not, does not keep it open.
func TestMuxClosedWhileDeciding(t *testing.T) {
	for first, peers := range map[string]int{"let me in": 1, "no": 0, "ask": 0} {
		synctest.Test(t, func(t *testing.T) {
			s := newFakeSocket()
			a := &deciding{fakeAcceptor: new(fakeAcceptor)}
			m := NewMux(s, MuxConfig{Acceptor: a})
			var early bool
			a.meanwhile = func() {
				m.Close()
				m.Close()
				early = s.closed()
			}
			m.Start()
			s.in <- from(peerAddr(1), first)
			synctest.Wait()
			require.False(t, early, "%q: the socket has gone before the answer", first)
			require.Equal(t, peers, a.made(), "%q", first)
			if peers > 0 {
				require.False(t, s.closed())
				var out wire.Batch
				out.Append([]byte("farewell"))
				require.NoError(t, a.peer(0).WriteBatch(&out))
				a.peer(0).Close()
				require.Equal(t, []string{"farewell"}, s.datagrams())
			}
			require.True(t, s.closed(), "%q: the socket is open", first)
		})
	}
}
