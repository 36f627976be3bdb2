package volley

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"volley/capture"
	"volley/internal/registry"
	"volley/internal/testenv"
	"volley/simnet"
)

// dialShared dials a Listener of network from a socket that a net.PacketConn makes, so
// that Close lingers as over UDP.
func dialShared(t *testing.T, n *simnet.Network, from string, cfg *Config) *Conn {
	t.Helper()
	pc, err := n.Listen(from)
	require.NoError(t, err)
	c, err := (&Dialer{Config: cfg}).DialOn(context.Background(), pc, net.UDPAddrFromAddrPort(netip.MustParseAddrPort("10.0.0.1:7777")))
	require.NoError(t, err)
	return c
}

// wantEnd reads to the end, and returns the messages before, when it came, and why.
func wantEnd(t *testing.T, c *Conn) (messages []string, after time.Duration, err error) {
	t.Helper()
	start := time.Now()
	c.SetReadDeadline(start.Add(2 * defaultIdleTimeout))
	for {
		var m []byte
		if m, err = c.ReadMessage(context.Background(), nil); err != nil {
			return messages, time.Since(start), err
		}
		messages = append(messages, string(m))
	}
}

const simRTT = 20 * time.Millisecond // of network

// Close tells the peer: its reads return what has come, and then io.EOF or the reason,
// and its writes fail at once.
func TestCloseTellsPeer(t *testing.T) {
	for _, shared := range []bool{false, true} {
		for _, byServer := range []bool{false, true} {
			for _, reason := range []string{"", "kicked"} {
				synctest.Test(t, func(t *testing.T) {
					n, l, dial := network(t, &ListenConfig{})
					var c *Conn
					if shared {
						c = dialShared(t, n, "10.0.0.2:5000", nil)
					} else {
						c = dial("10.0.0.2:5000", &Dialer{})
					}
					s := accept(t, l)
					time.Sleep(2 * simRTT)
					a, b := c, s
					if byServer {
						a, b = s, c
					}
					a.Write([]byte("one"))
					a.Write([]byte("two"))
					require.NoError(t, a.CloseWithReason(reason))
					messages, after, err := wantEnd(t, b)
					require.Equal(t, []string{"one", "two"}, messages)
					require.Equal(t, simRTT/2, after)
					_, write := b.Write([]byte("late"))
					if reason == "" {
						require.Equal(t, io.EOF, err)
						require.ErrorIs(t, write, io.ErrClosedPipe)
					} else {
						for _, err := range []error{err, write} {
							var ce *CloseError
							require.ErrorAs(t, err, &ce)
							require.Equal(t, reason, ce.Reason)
							require.ErrorContains(t, err, "closed by the peer: kicked")
						}
					}
					for _, err := range []error{err, write} {
						require.NotErrorIs(t, err, net.ErrClosed)
						var ne net.Error
						require.False(t, errors.As(err, &ne) && ne.Timeout())
					}
					_, err = a.Read(make([]byte, 1))
					require.ErrorIs(t, err, net.ErrClosed)
					require.NoError(t, b.Close())
					require.NoError(t, a.Close())
					_, err = b.Read(make([]byte, 1))
					require.Error(t, err)
					time.Sleep(maxFarewell)
					require.Zero(t, l.Stats().Conns)
				})
			}
		}
	}
}

// closes has connections made and closed over a link that loses 30 % each way, by
// either side, and returns how long it took the others to know; 0 for those that did
// not within 3 round trips.
func closes(t *testing.T, count int, shared, byServer, busy bool) (known []time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		n, l, dial := network(t, &ListenConfig{})
		n.SetDefault(simnet.Link{Latency: simRTT / 2, Loss: 0.3, Duplicate: 0.02})
		results := make(chan time.Duration, count)
		const batch = 100
		for i := 0; i < count; i += batch {
			clients := make(map[netip.AddrPort]*Conn)
			for k := range batch {
				from := fmt.Sprintf("10.1.%d.%d:5000", (i+k)/250, (i+k)%250)
				var c *Conn
				if shared {
					c = dialShared(t, n, from, nil)
				} else {
					c = dial(from, &Dialer{})
				}
				clients[udpAddr(c.LocalAddr())] = c
			}
			servers := make(map[netip.AddrPort]*Conn)
			talk := func(d time.Duration) {
				for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
					for _, c := range clients {
						c.Write([]byte("game"))
					}
					for _, s := range servers {
						s.Write([]byte("game"))
					}
				}
			}
			talk(500 * time.Millisecond)
			for len(servers) < batch {
				s := accept(t, l)
				servers[udpAddr(s.RemoteAddr())] = s
			}
			talk(2 * time.Second)
			for addr, c := range clients {
				a, b := c, servers[addr]
				if byServer {
					a, b = b, a
				}
				go func() {
					if busy {
						a.Write([]byte("last"))
					}
					start := time.Now()
					require.NoError(t, a.Close())
					_, _, err := wantEnd(t, b)
					d := time.Since(start)
					if err != io.EOF || d > 3*simRTT {
						require.True(t, errors.Is(err, ErrIdleTimeout) || errors.Is(err, ErrPeerRestarted), "%v", err)
						d = 0
					}
					results <- d
					b.Close()
				}()
			}
			for range clients {
				known = append(known, <-results)
			}
		}
	})
	return known
}

// Of closes over a link that loses 30 % each way, 99 % are known at the peer within
// three round trips, and the rest by its idle timeout.
func TestClosesOverLossyLink(t *testing.T) {
	each := testenv.Sized(testenv.Raced(200, 100), 2500)
	lost, all := 0, 0
	for _, shared := range []bool{false, true} {
		for _, byServer := range []bool{false, true} {
			known := closes(t, each, shared, byServer, shared)
			late := 0
			for _, d := range known {
				if d == 0 {
					late++
				}
			}
			t.Logf("shared socket %v, closed by the server %v: %d of %d by timeout", shared, byServer, late, len(known))
			lost, all = lost+late, all+len(known)
		}
	}
	require.LessOrEqual(t, lost, all/100)
}

// A reason crosses a pipe, which tells of the plain end by itself, and is cut to what
// a goodbye carries.
func TestReasons(t *testing.T) {
	for reason, want := range map[string]string{
		"kicked":                      "kicked",
		strings.Repeat("é", 33):       strings.Repeat("é", 32),
		"x" + strings.Repeat("é", 33): "x" + strings.Repeat("é", 31),
		strings.Repeat("x", 1000):     strings.Repeat("x", 64),
		"line\nbreak\xff":             "line\ufffdbreak\ufffd",
	} {
		a, b := Pipe(nil)
		require.NoError(t, a.CloseWithReason(reason))
		_, err := b.Read(make([]byte, 1))
		var ce *CloseError
		require.ErrorAs(t, err, &ce)
		require.Equal(t, want, ce.Reason)
		require.Contains(t, b.Explain().String(), "The connection has ended: closed by the peer: ")
		b.Close()
	}
	a, b := Pipe(nil)
	a.Close()
	_, err := b.Read(make([]byte, 1))
	require.Equal(t, io.EOF, err)
	require.Contains(t, b.Explain().String(), "The connection has ended: closed by the peer.")
}

// With ReferenceConfig at either side no control datagram leaves that side, and the
// other one gives up to greet.
func TestReferenceIsNotGreeted(t *testing.T) {
	for _, byServer := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var recorders [2]*capture.Recorder
			var cfgs [2]*Config
			for i, cfg := range []*Config{{}, ReferenceConfig()} {
				recorders[i] = newRecorder(t, nil)
				cfg.Capture = recorders[i]
				cfgs[i] = cfg
			}
			ours, theirs := 0, 1
			if byServer {
				ours, theirs = 1, 0
			}
			_, l, dial := network(t, &ListenConfig{Config: cfgs[theirs]})
			c := dial("10.0.0.2:1", &Dialer{Config: cfgs[ours]})
			c.Write([]byte("hello"))
			s := accept(t, l)
			for range 1000 {
				c.Write([]byte("hello"))
				s.Write([]byte("hello"))
				time.Sleep(50 * time.Millisecond)
			}
			c.Close()
			s.Close()
			require.Empty(t, asides(t, recorders[1]))
			sent := asides(t, recorders[0])
			if byServer {
				require.Empty(t, sent, "a peer that dials and does not greet")
			} else {
				require.Equal(t, maxAsks, sent[helloPrefix]+sent[questionPrefix])
				require.Len(t, sent, 2)
			}
		})
	}
}

// In a connection's life three datagrams of the greeting leave, and one of each end.
func TestGreetingIsShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rc, rs := newRecorder(t, nil), newRecorder(t, nil)
		n, l, _ := network(t, &ListenConfig{Config: &Config{Capture: rs}})
		c := dialShared(t, n, "10.0.0.2:1", &Config{Capture: rc})
		s := accept(t, l)
		for range 1000 {
			c.Write([]byte("hello"))
			s.Write([]byte("hello"))
			time.Sleep(50 * time.Millisecond)
		}
		s.Close()
		l.Close()
		time.Sleep(simRTT / 2)
		_, err := c.Read(make([]byte, 9))
		require.NoError(t, err)
		time.Sleep(simRTT/2 + time.Millisecond)
		require.True(t, l.side.Over(), "it lingers though it was heard")
		require.Equal(t, map[byte]int{helloPrefix: 1, confirmPrefix: 1, heardPrefix: 1}, asides(t, rc))
		require.Equal(t, map[byte]int{answerPrefix: 1, goodbyePrefix: atOnce}, asides(t, rs))
		c.Close()
	})
}

// A game at 30 messages a second each way takes 1.03 packets a message, and one at 60 takes
// 1.02, with the greeting and the goodbye.
func TestPacketsAMessage(t *testing.T) {
	for rate, most := range map[time.Duration]float64{30: 1.03, 60: 1.02} {
		synctest.Test(t, func(t *testing.T) {
			n, l, _ := network(t, &ListenConfig{})
			n.SetDefault(simnet.Link{Latency: simRTT / 2, Ordered: true})
			c := dialShared(t, n, "10.0.0.2:5000", nil)
			s := accept(t, l)
			messages := 0
			for end := time.Now().Add(time.Minute); time.Now().Before(end); messages += 2 {
				c.Write([]byte("input"))
				s.Write([]byte("state"))
				time.Sleep(time.Second / rate)
			}
			c.Close()
			time.Sleep(time.Second)
			s.Close()
			a, b := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
			packets := n.LinkStats(a, b).Sent + n.LinkStats(b, a).Sent
			require.Greater(t, packets, uint64(messages))
			share := float64(packets) / float64(messages)
			t.Logf("%d a second: %d packets for %d messages: %.3f", rate, packets, messages, share)
			require.LessOrEqual(t, share, most)
		})
	}
}

// What a PacketConn does with a goodbye: it forgets the peer after a while, and begins
// anew with the next message. Its own Close tells the peers that have greeted.
func TestPacketConnGoodbyes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := simnet.New(1)
		defer n.Close()
		n.SetDefault(simnet.Link{Latency: simRTT / 2, Duplicate: 0.5, Jitter: simRTT / 4})
		pc := packetAt(t, n, "10.0.0.1:7777", &Config{IdleTimeout: time.Hour})
		defer pc.Close()
		heard := func() string {
			b := make([]byte, 100)
			pc.SetReadDeadline(time.Now().Add(time.Second))
			k, _, err := pc.ReadFrom(b)
			if err != nil {
				return err.Error()
			}
			return string(b[:k])
		}
		c := dialShared(t, n, "10.0.0.2:5000", nil)
		c.Write([]byte("one"))
		require.Equal(t, "one", heard())
		time.Sleep(simRTT * 3)
		require.True(t, greetingOf(c).proved)
		c.CloseWithReason("nobody reads this")
		time.Sleep(partedLife / 2)
		require.Equal(t, 1, pc.Stats().Peers)
		time.Sleep(partedLife/2 + 2*simRTT)
		require.Zero(t, pc.Stats().Peers)
		require.Equal(t, "closed by the peer: nobody reads this", registry.Ends()[0].Reason)
		require.Contains(t, heard(), "timeout", "nothing twice")

		c = dialShared(t, n, "10.0.0.2:5000", nil)
		c.Write([]byte("two"))
		require.Equal(t, "two", heard())
		time.Sleep(simRTT * 3)
		require.NoError(t, pc.Close())
		_, after, err := wantEnd(t, c)
		require.Equal(t, io.EOF, err)
		require.LessOrEqual(t, after, simRTT)
		c.Close()
	})
}

// A Listener dials an address of which it has just closed the connection, and the
// other way round.
func TestDialWhileLingering(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, l, _ := network(t, &ListenConfig{})
		pc, err := n.Listen("10.0.0.2:7777")
		require.NoError(t, err)
		other, err := new(ListenConfig).ListenOn(pc)
		require.NoError(t, err)
		defer other.Close()
		for i := range 5 {
			c, err := other.Dial(t.Context(), "10.0.0.1:7777")
			require.NoError(t, err, i)
			s := accept(t, l)
			time.Sleep(3 * simRTT)
			require.NoError(t, c.Close())
			c, err = other.Dial(t.Context(), "10.0.0.1:7777")
			require.NoError(t, err)
			_, after, err := wantEnd(t, s)
			require.Equal(t, io.EOF, err)
			require.LessOrEqual(t, after, simRTT)
			s = accept(t, l)
			time.Sleep(3 * simRTT)
			s.Close() // lingers, while the other one begins anew
			_, _, err = wantEnd(t, c)
			require.Equal(t, io.EOF, err)
			c.Close()
		}
	})
}

// A greeting that comes with a goodbye is for the next connection.
func TestHelloBehindGoodbye(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRecorder(t, nil)
		c, s, _, _ := greeted(t, &ListenConfig{Config: &Config{Capture: r}}, nil)
		defer c.Close()
		forge(s, tokened(goodbyePrefix, greetingOf(s).own, ""), hello(7))
		_, err := s.Read(make([]byte, 1))
		require.Equal(t, io.EOF, err)
		s.Close()
		require.Equal(t, map[byte]int{answerPrefix: 1, heardPrefix: 1}, asides(t, r))
	})
}

// Both sides close at the same time.
func TestGoodbyesCross(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, l, _ := network(t, &ListenConfig{})
		c := dialShared(t, n, "10.0.0.2:1", nil)
		s := accept(t, l)
		time.Sleep(3 * simRTT)
		c.Close()
		s.Close()
		l.Close()
		time.Sleep(simRTT)
		require.Zero(t, l.Stats().Conns)
		require.True(t, l.side.Over(), "it lingers though the other side is gone")
	})
}

// A server may close a connection before the hello of its peer, which comes after the
// first packet, was handled. The hello is answered by the goodbye, and opens no
// connection, nor does its copy.
func TestCloseBeforeHello(t *testing.T) {
	for packets := range 3 {
		synctest.Test(t, func(t *testing.T) {
			n, l, _ := network(t, &ListenConfig{})
			peer, err := n.Listen("10.0.0.2:5000")
			require.NoError(t, err)
			defer peer.Close()
			send := func(b []byte) {
				_, err := peer.WriteTo(b, l.Addr())
				require.NoError(t, err)
				time.Sleep(simRTT)
			}
			dc, err := l.side.Muxes()[0].Dial(udpAddr(peer.LocalAddr()))
			require.NoError(t, err)
			(*acceptor)(l).admit(time.Now(), dc)
			s := accept(t, l)
			for i := range packets {
				send(midStream(t, uint16(i), 100)[0])
			}
			require.NoError(t, s.CloseWithReason("full"))
			peer.SetReadDeadline(time.Now().Add(time.Second))
			for range 2 {
				send(tokened(goodbyePrefix, 0, "")) // says nothing, before the hello and after it
				send(tokened(heardPrefix, 0, ""))
				send(hello(77))
			}
			if packets > 1 {
				require.Equal(t, 1, l.Stats().Conns) // the hello that came so late may be that of a new connection
				return
			}
			var got [][]byte
			for b := make([]byte, 100); ; {
				k, _, err := peer.ReadFrom(b)
				if err != nil {
					break
				}
				if b[0] == goodbyePrefix {
					got = append(got, bytes.Clone(b[:k]))
				}
			}
			bye := tokened(goodbyePrefix, 77, "full")
			require.Equal(t, [][]byte{bye, bye, bye, bye}, got, "an answer for each, once the token is known")
			time.Sleep(maxFarewell)
			require.Nil(t, l.side.Muxes()[0].Handler(udpAddr(peer.LocalAddr())))
			send(hello(77))
			wantNoConn(t, l)
		})
	}
}
