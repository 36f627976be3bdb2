package datagram

import (
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"volley/internal/wire"
)

// A lateAcceptor answers late datagrams, and lets in who says "again".
type lateAcceptor struct {
	fakeAcceptor
	late int
}

func (a *lateAcceptor) HandleUnknown(now time.Time, from netip.AddrPort, late bool, bufs [][]byte, out *wire.Batch) Admit {
	if !late {
		return a.fakeAcceptor.HandleUnknown(now, from, false, bufs, out)
	}
	a.late++
	if string(bufs[0]) == "again" {
		return a.admit
	}
	out.Append([]byte("it is over"))
	return nil
}

// The Acceptor is shown the datagrams of closed Conns as late ones for as long as
// their tombstones last. It may answer them, or let the peer in anew.
func TestMuxLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, s := new(lateAcceptor), newFakeSocket()
		m := NewMux(s, MuxConfig{Acceptor: a, Tombstone: time.Second, MaxTombstones: 10})
		m.Start()
		say := func(what string) {
			s.in <- from(peerAddr(1), what)
			synctest.Wait()
		}
		say("hello")
		a.peer(0).Close()
		say("stray")
		require.Equal(t, []string{"it is over"}, s.datagrams())
		require.Equal(t, []int{1, 1}, []int{a.late, a.made()})
		require.EqualValues(t, 1, m.Stats().Unknown)
		say("again")
		require.Equal(t, []int{2, 2}, []int{a.late, a.made()})
		a.peer(1).SetTombstone(0)
		a.peer(1).Close()
		say("fresh") // the tombstone of the first has gone, too
		require.Equal(t, []int{2, 3}, []int{a.late, a.made()})
		a.peer(2).Close()
		time.Sleep(time.Second)
		say("later")
		require.Equal(t, []int{2, 4}, []int{a.late, a.made()})
		m.Close()
		a.peer(3).Close()
	})
}
