package secure

import (
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"volley/internal/testenv"
)

// A client takes at most 3 KiB for its spare tokens and what watches the session.
func TestMemoryOfClients(t *testing.T) {
	if testenv.Race {
		t.Skip("the race detector takes memory")
	}
	const n, former = 1000, 112 // what a Conn took before
	l := newServer(t, nil)
	a, err := parseURL(l.URL("127.0.0.1"))
	require.NoError(t, err)
	tk := ticket{session: newSessionID()}
	all, d := make([]*Conn, n), new(Dialer)
	before := testenv.Heap()
	for i := range all {
		r := newRoamer(d, a)
		all[i] = &Conn{roamer: r}
		r.conn, r.timer = all[i], time.AfterFunc(time.Hour, r.look)
		for tk.generation = 2; tk.generation < 2+spares; tk.generation++ {
			tok, err := l.keys.issue(&tk, netip.MustParseAddrPort("127.0.0.1:7777"), spareLifetime)
			require.NoError(t, err)
			s, id, ok := parseSpare(time.Now(), appendSpare(nil, &tk, tok))
			require.True(t, ok)
			r.knowLocked(id)
			if r.spares == nil {
				r.spares = make([]spare, 0, spares)
			}
			r.spares = append(r.spares, s)
		}
	}
	each := (testenv.Heap()-before)/n - former
	t.Logf("%d bytes", each)
	require.LessOrEqual(t, each, int64(3<<10))
	for _, c := range all {
		c.roamer.timer.Stop()
	}
}
