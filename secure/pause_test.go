package secure

import (
	"net/netip"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"volley/simnet"
)

// A pausedSocket reads nothing for a while, and then what has come meanwhile.
type pausedSocket struct {
	*simnet.Conn
	until atomic.Pointer[time.Time] // nil: it has not paused yet
}

func (s *pausedSocket) ReadFromUDPAddrPort(b []byte) (int, netip.AddrPort, error) {
	n, from, err := s.Conn.ReadFromUDPAddrPort(b)
	if until := s.until.Load(); until != nil {
		time.Sleep(time.Until(*until))
	}
	return n, from, err
}

func (s *pausedSocket) WriteToUDPAddrPort(b []byte, to netip.AddrPort) (int, error) {
	if until := s.until.Load(); until != nil && time.Now().Before(*until) {
		return len(b), nil
	}
	return s.Conn.WriteToUDPAddrPort(b, to)
}

// Clients try several tokens at once to move while their server stands still. When it then
// reads all of that, their sessions go on, whichever token it reads first.
func TestMovesOfPausedServer(t *testing.T) {
	for i := range 3 {
		link := simnet.Link{Latency: 22 * time.Millisecond, Jitter: 10 * time.Millisecond}
		inWorld(t, link, func(t *testing.T, w *world) {
			w.latency = 0
			inner, err := w.net.Listen(simServer)
			require.NoError(t, err)
			pc := &pausedSocket{Conn: inner}
			l, err := (&ListenConfig{}).ListenOn(pc, w)
			require.NoError(t, err)
			var clients, servers []*Conn
			for range 30 {
				client, server := w.connect(t, l)
				go echo(server)
				clients, servers = append(clients, client), append(servers, server)
			}
			time.Sleep(2 * time.Second)
			until := time.Now().Add(time.Duration(2000+500*i) * time.Millisecond)
			pc.until.Store(&until)
			time.Sleep(8 * time.Second)
			for _, client := range clients {
				k := talkFor(client, 500*time.Millisecond, 4*time.Second)
				require.ErrorIs(t, k.err, os.ErrDeadlineExceeded)
				require.NotZero(t, k.heard)
			}
			require.Equal(t, len(clients), l.Stats().Conns)
			for n := range clients {
				require.NoError(t, clients[n].Close())
				require.NoError(t, servers[n].Close())
			}
			require.NoError(t, l.Close())
		})
	}
}

// A client whose server is heard again gives the move time to end that it has begun: the server
// may have been told. A client that stays on the old way then would hear nothing, and have to
// find out.
func TestMovesOfServerHeardAgain(t *testing.T) {
	for pause := time.Second; pause < 2500*time.Millisecond; pause += 25 * time.Millisecond {
		inWorld(t, simnet.Link{Latency: 120 * time.Millisecond}, func(t *testing.T, w *world) {
			inner, err := w.net.Listen(simServer)
			require.NoError(t, err)
			pc := &pausedSocket{Conn: inner}
			l, err := (&ListenConfig{}).ListenOn(pc, w)
			require.NoError(t, err)
			client, server := w.connect(t, l)
			go echo(server)
			talkFor(client, 50*time.Millisecond, 3*time.Second)
			until := time.Now().Add(pause)
			pc.until.Store(&until)
			k := talkFor(client, 50*time.Millisecond, 8*time.Second)
			require.Less(t, k.gap, pause+700*time.Millisecond, "a pause of %v", pause)
			require.NoError(t, client.Close())
			require.NoError(t, server.Close())
			require.NoError(t, l.Close())
		})
	}
}
