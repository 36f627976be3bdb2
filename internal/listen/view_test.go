package listen

import (
	"slices"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"volley/internal/datagram"
	"volley/internal/registry"
	"volley/internal/socket"
	"volley/simnet"
)

// toyOf is how an iteration finds a toy.
func toyOf(h datagram.Handler) (*toy, bool) { return h.(*toy), true }

// TestEach: an iteration comes to the connections of all sockets, passes those over
// that are to be left out, and ends where the loop does; it holds none of them
// afterwards.
func TestEach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := simnet.New(1)
		defer n.Close()
		l := listenToy(t, n, 3, 9)
		require.Empty(t, slices.Collect(l.side.Each(toyOf)))
		want := make(map[*toy]bool)
		for i := range 6 {
			send(t, n, i, i%3, "hello")
			synctest.Wait()
			want[l.conns[peerAddr(i)]] = true
		}
		require.Len(t, want, 6)
		seen := make(map[*toy]bool)
		for c := range l.side.Each(toyOf) {
			require.True(t, want[c])
			require.False(t, seen[c], "a connection comes twice")
			seen[c] = true
		}
		require.Len(t, seen, 6)

		first := l.conns[peerAddr(0)]
		others := slices.Collect(l.side.Each(func(h datagram.Handler) (*toy, bool) { return h.(*toy), h != first }))
		require.Len(t, others, 5)
		require.NotContains(t, others, first)
		count := 0
		for range l.side.Each(toyOf) {
			if count++; count == 2 {
				break
			}
		}
		require.Equal(t, 2, count)

		l.side.Close()
		for _, c := range l.conns {
			c.Close()
		}
		require.Empty(t, slices.Collect(l.side.Each(toyOf)))
	})
}

// TestHandlerListForgets: memory that waits for the next iteration keeps no
// connection alive.
func TestHandlerListForgets(t *testing.T) {
	l := &handlerList{hs: []datagram.Handler{new(toy), new(toy)}}
	kept := l.hs
	l.hs = l.hs[:1]
	l.put()
	require.Equal(t, []datagram.Handler{nil, nil}, kept)
}

// TestViewSockets: what happened at several sockets is added up, and repeated sends
// are errors, too; the buffers are those of each.
func TestViewSockets(t *testing.T) {
	one := datagram.Stats{ReadErrors: 1, WriteErrors: 20, Unknown: 300, Socket: socket.Stats{
		ReadBufferSize: 4000, WriteBufferSize: 50000, ReadCalls: 6e5, SendCalls: 7e6, Retries: 8e7, Drops: 900,
	}}
	two := datagram.Stats{ReadErrors: 1, WriteErrors: 10, Unknown: 100, Socket: socket.Stats{
		ReadBufferSize: 4000, WriteBufferSize: 50000, ReadCalls: 1e5, SendCalls: 1e6, Retries: 1e7, Drops: 100,
	}}
	seen := registry.Listener{Known: 1 << 40, Unknown: 5}
	ViewSockets(&seen, []datagram.Stats{one, two})
	require.Equal(t, registry.Listener{
		Known: 1<<40 | registry.Socket, Unknown: 405, ReadErrors: 2, WriteErrors: 9e7 + 30, SocketDrops: 1000,
		ReadCalls: 7e5, SendCalls: 8e6, SocketReadBuffer: 4000, SocketWriteBuffer: 50000,
	}, seen)
}

// A seenToy can be looked at.
type seenToy struct {
	toy
	id uint64
}

func (c *seenToy) ID() uint64                     { return c.id }
func (c *seenToy) View(*registry.Conn, bool) bool { return true }
func (c *seenToy) End() error                     { return nil }

// TestViewers: of the Handlers those are shown that can be looked at.
func TestViewers(t *testing.T) {
	var ids []uint64
	EachViewer([]datagram.Handler{&seenToy{id: 1}, new(toy), &seenToy{id: 2}}, func(v registry.Viewer) { ids = append(ids, v.ID()) })
	require.Equal(t, []uint64{1, 2}, ids)

	synctest.Test(t, func(t *testing.T) {
		n := simnet.New(1)
		defer n.Close()
		var l Listener[*toy]
		l.Init(1, func(*toy) {}, (*toy).Close)
		var port Port
		for i := range 2 {
			pc, err := n.Listen(serverAddr(i).String())
			require.NoError(t, err)
			port.socks = append(port.socks, socket.NewPacket(pc))
		}
		l.Serve(&port, datagram.MuxConfig{MaxDatagram: 1000}, Hooks{})
		var peers []*datagram.Peer
		for i, m := range l.Muxes() {
			p, err := m.Dial(peerAddr(i))
			require.NoError(t, err)
			require.NoError(t, p.Attach(&seenToy{id: uint64(i + 1)}))
			peers = append(peers, p)
		}
		ids = nil
		l.Viewers(func(v registry.Viewer) { ids = append(ids, v.ID()) })
		require.Equal(t, []uint64{1, 2}, ids)
		require.False(t, l.Over())
		require.NoError(t, l.Close())
		for _, p := range peers {
			require.False(t, l.Over())
			require.NoError(t, p.Close())
		}
		require.True(t, l.Over())
	})
}
