package netcode

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"volley/simnet"
)

// TestConns: the sessions come that were accepted and have not ended.
func TestConns(t *testing.T) {
	bubble(t, simnet.Link{}, func(t *testing.T, n *simnet.Network) {
		l := simListen(t, n, nil)
		ids := func() (all []uint64) {
			for c := range l.Conns() {
				all = append(all, c.ClientID())
			}
			return all
		}
		require.Empty(t, ids())
		a, sa := simPair(t, n, l, 1)
		b, sb := simPair(t, n, l, 2)
		waiting, err := simDial(t, n, simToken(t, 3))
		require.NoError(t, err)
		synctest.Wait()
		require.ElementsMatch(t, []uint64{1, 2}, ids())
		for c := range l.Conns() {
			if c.ClientID() == 1 {
				c.Close()
			}
		}
		require.Equal(t, []uint64{2}, ids())
		b.Close()
		synctest.Wait()
		require.Empty(t, ids())
		closeAll(a, sa, b, sb, waiting)
	})
}
