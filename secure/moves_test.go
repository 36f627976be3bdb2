package secure

import (
	"errors"
	"net"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"volley/netcode"
	"volley/simnet"
)

// behindNAT puts the clients of w behind a NAT.
func (w *world) behindNAT(t *testing.T) *simnet.NAT {
	t.Helper()
	nat, err := w.net.AddNAT(netip.MustParseAddr("10.9.9.9"), netip.MustParsePrefix("10.0.1.0/24"), 0)
	require.NoError(t, err)
	return nat
}

// echo answers each message of a session until that ends.
func echo(c net.Conn) {
	b := make([]byte, 1500)
	for {
		n, err := c.Read(b)
		if err != nil {
			return
		}
		c.Write(b[:n])
	}
}

// A gaps is a client that asks at a rate, and notes how long it heard nothing.
type gaps struct {
	sent, heard int
	gap         time.Duration
	err         error
}

// talkFor sends at an interval for a while, and returns what came of it.
func talkFor(c net.Conn, interval, d time.Duration) (k gaps) {
	end := time.Now().Add(d)
	read := make(chan gaps)
	go func() {
		var k gaps
		last := time.Now()
		b := make([]byte, 1500)
		for {
			c.SetReadDeadline(end.Add(time.Second))
			_, err := c.Read(b)
			if err != nil {
				k.err = err
				read <- k
				return
			}
			k.heard++
			k.gap = max(k.gap, time.Since(last))
			last = time.Now()
		}
	}()
	for ; time.Now().Before(end); time.Sleep(interval) {
		c.Write([]byte("are you there?"))
		k.sent++
	}
	r := <-read
	r.sent = k.sent
	return r
}

// A client whose NAT has forgotten it goes on by a spare token. Nobody else sees anything of it.
func TestMoves(t *testing.T) {
	inWorld(t, simnet.Link{Latency: 20 * time.Millisecond}, func(t *testing.T, w *world) {
		nat := w.behindNAT(t)
		l := w.listen(t, &ListenConfig{})
		client, server := w.connect(t, l)
		go echo(server)
		before := server.RemoteAddr().String()
		time.Sleep(time.Second)
		for i := range 20 {
			nat.Rebind()
			k := talkFor(client, 100*time.Millisecond, 3*time.Second)
			require.LessOrEqual(t, k.gap, (500+200+2*40+100+100)*time.Millisecond)
			require.GreaterOrEqual(t, k.heard, k.sent-9)
			require.EqualValues(t, i+1, client.Stats().Moves)
			require.EqualValues(t, i+1, server.Stats().Moves)
			require.NotEqual(t, before, server.RemoteAddr().String())
			before = server.RemoteAddr().String()
		}
		require.Equal(t, 1, l.Stats().Conns)
		require.EqualValues(t, 1, l.Stats().Accepted)
		index, _ := server.ClientIndex()
		require.Zero(t, index)
		client.Close()
		synctest.Wait()
		_, err := server.Read(make([]byte, 10))
		require.Error(t, err)
		require.NoError(t, l.Close())
	})
}

// Rebind moves a session while the old way is there, and loses nothing that comes later.
func TestRebind(t *testing.T) {
	inWorld(t, simnet.Link{Latency: 20 * time.Millisecond}, func(t *testing.T, w *world) {
		l := w.listen(t, &ListenConfig{})
		client, server := w.connect(t, l)
		go echo(server)
		time.Sleep(time.Second)
		before := client.LocalAddr().String()
		begin := time.Now()
		require.NoError(t, client.Rebind(t.Context()))
		require.Equal(t, 80*time.Millisecond, time.Since(begin), "two round trips")
		require.NotEqual(t, before, client.LocalAddr().String())
		k := talkFor(client, 100*time.Millisecond, time.Second)
		require.Equal(t, k.sent, k.heard)
		require.True(t, errors.Is(server.Rebind(t.Context()), errors.ErrUnsupported))
		client.Close()
		server.Close()
		require.NoError(t, l.Close())
	})
}

// Rebind waits for the first spare token, and a session without one is not given up.
func TestRebindAtOnce(t *testing.T) {
	inWorld(t, simnet.Link{Latency: 20 * time.Millisecond}, func(t *testing.T, w *world) {
		l := w.listen(t, &ListenConfig{})
		client, server := w.connect(t, l)
		go echo(server)
		require.NoError(t, client.Rebind(t.Context()))
		require.NoError(t, client.Err())
		require.EqualValues(t, 1, server.Stats().Moves)
		client.Close()
		synctest.Wait()
		require.NoError(t, l.Close())
	})
}

// A server that stops for a while does not make its clients patient for good.
func TestPatienceAfterStop(t *testing.T) {
	inWorld(t, simnet.Link{Latency: 20 * time.Millisecond}, func(t *testing.T, w *world) {
		nat := w.behindNAT(t)
		l := w.listen(t, &ListenConfig{})
		client, server := w.connect(t, l)
		go echo(server)
		time.Sleep(time.Second)
		patience := func() time.Duration {
			client.roamer.mu.Lock()
			defer client.roamer.mu.Unlock()
			return 3 * client.roamer.rtt
		}
		require.Equal(t, 3*40*time.Millisecond, patience())
		for range 3 { // each answer is late by 5 s
			w.net.SetDefault(simnet.Link{Latency: 2500 * time.Millisecond})
			talkFor(client, 100*time.Millisecond, time.Second)
			w.net.SetDefault(simnet.Link{Latency: 20 * time.Millisecond})
			time.Sleep(10 * time.Second)
			require.Less(t, patience(), 1200*time.Millisecond)
		}
		nat.Rebind()
		k := talkFor(client, 100*time.Millisecond, 6*time.Second)
		require.Less(t, k.gap, 4*time.Second)
		require.NoError(t, client.Err())
		client.Close()
		synctest.Wait()
		require.NoError(t, l.Close())
		time.Sleep(time.Minute)
	})
}

// A client whose address changes before it has a spare token moves by a token over TCP.
func TestMoveBeforeSpares(t *testing.T) {
	link := simnet.Link{Latency: 5 * time.Millisecond}
	inWorld(t, link, func(t *testing.T, w *world) {
		nat := w.behindNAT(t)
		l := w.listen(t, &ListenConfig{})
		client, server := w.connect(t, l)
		w.net.SetDefault(simnet.Link{Loss: 1})
		go echo(server)
		time.Sleep(100 * time.Millisecond)
		nat.Rebind()
		w.net.SetDefault(link)
		require.Empty(t, client.roamer.spares)
		k := talkFor(client, 100*time.Millisecond, 4*time.Second)
		require.Less(t, k.gap, 2*time.Second)
		require.EqualValues(t, 1, server.Stats().Moves)
		client.Close()
		synctest.Wait()
		require.NoError(t, l.Close())
	})
}

// A session whose socket is gone, and that finds no other way, ends after the time of silence.
func TestBrokenSessionEnds(t *testing.T) {
	inWorld(t, simnet.Link{Latency: 5 * time.Millisecond}, func(t *testing.T, w *world) {
		l := w.listen(t, &ListenConfig{})
		d := w.dialer()
		var socket net.PacketConn
		dialUDP := d.dialUDP
		d.dialUDP = func() (net.PacketConn, error) {
			if socket != nil {
				return nil, errors.New("the network is down")
			}
			var err error
			socket, err = dialUDP()
			return socket, err
		}
		client, err := d.Dial(t.Context(), l.URL("10.0.0.1"))
		require.NoError(t, err)
		server, err := l.AcceptConn(t.Context())
		require.NoError(t, err)
		time.Sleep(time.Second)
		begin := time.Now()
		w.closeTCP()
		socket.Close()
		<-client.Done()
		require.Equal(t, netcode.ErrIdleTimeout, client.Err())
		require.InDelta(t, 31, time.Since(begin).Seconds(), 1)
		client.Close()
		server.Close()
		require.NoError(t, l.Close())
		time.Sleep(time.Minute)
	})
}
