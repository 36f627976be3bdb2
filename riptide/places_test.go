package riptide

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"volley/simnet"
)

func TestHostOf(t *testing.T) {
	for addr, want := range map[string]string{
		"10.1.2.3:4": "10.1.2.3", "[::ffff:10.1.2.3]:4": "10.1.2.3",
		"[2001:db8:1:2:ffff:4:5:6]:7": "2001:db8:1:2::", "[fe80::1%eth0]:7": "fe80::",
	} {
		ap := net.TCPAddrFromAddrPort(netip.MustParseAddrPort(addr))
		require.Equal(t, netip.MustParseAddr(want), hostOf(ap), addr)
		require.Equal(t, netip.MustParseAddr(want), hostOf((*net.UDPAddr)(ap)), addr)
	}
	require.Equal(t, netip.Addr{}, hostOf(&net.UnixAddr{Name: "x", Net: "unix"}))
	require.Equal(t, netip.Addr{}, hostOf(nil))
}

// Places know who has the most of them, whoever comes and goes.
func TestPlaces(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	l := newPlaces()
	host := func(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, 0, byte(i)}) }
	var all []*Peer
	for i := range 5000 {
		now := start.Add(time.Duration(i) * ms)
		if len(all) > 0 && rng.IntN(len(all)+40) < len(all) {
			j := rng.IntN(len(all))
			l.remove(all[j])
			all = append(all[:j], all[j+1:]...)
		} else {
			p := &Peer{host: host(rng.IntN(1 + rng.IntN(12))), entered: now}
			l.add(p)
			if rng.IntN(2) == 0 {
				l.spoke(p)
				l.spoke(p)
			}
			all = append(all, p)
		}
		counts, most := make(map[netip.Addr]int), 0
		for _, p := range all {
			counts[p.host]++
			most = max(most, counts[p.host])
		}
		require.Equal(t, counts, l.hosts)
		require.Equal(t, most, l.most)
		newcomer := host(rng.IntN(14))
		var crowding, silent *Peer
		for _, p := range all { // in the order in which they came
			if crowding == nil && counts[p.host] == most && most >= counts[newcomer]+2 {
				crowding = p
			}
			if silent == nil && !p.spoke && now.Sub(p.entered) >= confirmAfter {
				silent = p
			}
		}
		require.Equal(t, crowding, l.crowding(newcomer))
		require.Equal(t, silent, l.silent(now))
	}
}

// A hostConn is a stream of a host.
type hostConn struct {
	net.Conn
	remote net.Addr
}

func (c hostConn) LocalAddr() net.Addr  { return &net.TCPAddr{Port: 7777} }
func (c hostConn) RemoteAddr() net.Addr { return c.remote }

// from returns a connection to the server from a host.
func (w *streamWorld) from(host string) net.Conn {
	near, far := net.Pipe()
	w.l.conns <- hostConn{far, &net.TCPAddr{IP: net.ParseIP(host)}}
	synctest.Wait()
	return near
}

// isOpen reports whether the server has not closed a connection.
func isOpen(c net.Conn) bool {
	c.SetReadDeadline(time.Now().Add(time.Nanosecond))
	_, err := io.Copy(io.Discard, c)
	return err != nil && !errors.Is(err, io.EOF)
}

// Streams on which nothing is said keep nobody out: those over datagrams have places
// of their own; a host that has few gets one of the host that has the most, at once;
// and after a second a silent one gives way to anybody.
func TestSilentStreams(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := &Server{MaxPending: 8}
		w := newStreamWorld(t, s)
		udp := newWorld(t, s, simnet.Link{Latency: ms})
		var conns []net.Conn
		for range 8 {
			conns = append(conns, w.from("10.9.0.1"))
			time.Sleep(ms)
		}
		require.False(t, isOpen(w.from("10.9.0.1")), "all places are taken, by its own host")
		over := &Client{}
		udp.mustDial(over, "10.0.0.2:1")

		join := func(host string) error {
			c := &Client{}
			err := c.ConnectOn(context.Background(), w.from(host))
			c.Close()
			return err
		}
		require.NoError(t, join("10.9.0.2"))
		open := 0
		for i, c := range conns {
			if isOpen(c) {
				open++
			} else {
				require.Zero(t, i, "the oldest gives way")
			}
		}
		require.Equal(t, 7, open)

		for range 100 { // 50 a second, all the time
			conns = append(conns, w.from("10.9.0.1"))
			time.Sleep(20 * ms)
			require.NoError(t, join("10.9.0.2"))
		}
		time.Sleep(11 * time.Second)

		for i := range 8 {
			conns = append(conns, w.from("10.9.1."+string(rune('1'+i))))
		}
		time.Sleep(confirmAfter - ms)
		require.Error(t, join("10.9.0.2"), "nobody has more places than others, or has been silent for long")
		time.Sleep(ms)
		require.NoError(t, join("10.9.0.2"))
		for _, c := range conns {
			c.Close()
		}
		over.Close()
		w.close()
		udp.close()
	})
}

// A client that asks and leaves in the same moment takes neither a place nor an id.
func TestAskAndLeave(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := &Server{MaxClients: 2}
		w := newStreamWorld(t, s)
		for range 5 {
			c := w.from("10.9.0.1")
			go c.Write([]byte{1, 0, 0, 0, 2, 1, 0, 0, 0, 5})
			io.Copy(io.Discard, c)
			synctest.Wait()
			s.mu.Lock()
			require.Empty(t, s.lobby.peers)
			require.Empty(t, s.lobby.pending[overStreams].peers)
			require.EqualValues(t, 1, s.lobby.nextID)
			s.mu.Unlock()
			c.Close()
		}
		w.close()
	})
}

// A host with few places gets one of the host that has the most over datagrams, too, from clients that do not answer.
func TestHostsShareDatagramPlaces(t *testing.T) {
	bubble(t, func(t *testing.T) {
		waiting := make(chan struct{})
		s := &Server{MaxPending: 4, Accept: func(ctx context.Context, r *Request) error {
			if hostOf(r.RemoteAddr) == netip.MustParseAddr("10.0.0.66") {
				select {
				case <-waiting:
				case <-ctx.Done():
				}
			}
			return nil
		}}
		w := newWorld(t, s, simnet.Link{Latency: ms})
		var conns []net.Conn
		for i := range 40 {
			c, err := w.net.Dial(netip.AddrPortFrom(netip.MustParseAddr("10.0.0.66"), uint16(i+1)).String(), serverAddr)
			require.NoError(t, err)
			conns = append(conns, c)
			c.Write([]byte{2})
			time.Sleep(ms)
		}
		begin := time.Now()
		c := &Client{}
		w.mustDial(c, "10.0.0.2:1")
		require.Less(t, time.Since(begin), 100*ms)
		close(waiting)
		for _, c := range conns {
			c.Close()
		}
		c.Close()
		w.close()
	})
}
