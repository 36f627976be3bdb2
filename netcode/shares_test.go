package netcode

import (
	"bytes"
	"crypto/subtle"
	"io"
	"math"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"volley/internal/wire"
	"volley/simnet"
)

// Servers in the list of one token have the same keys.

var testServerAddrs = []netip.AddrPort{
	testServerAddr,
	netip.MustParseAddrPort("10.0.0.2:7777"),
	netip.MustParseAddrPort("10.0.0.3:7777"),
}

// sharedToken returns a token for all of testServerAddrs.
func sharedToken(t *testing.T, now time.Time, id uint64) *Token {
	t.Helper()
	is := testIssuer()
	is.Servers = testServerAddrs
	tok, err := is.issue(now, id, nil, GenerateKey(), GenerateKey(), randomNonce())
	require.NoError(t, err)
	return tok
}

// serverAt returns the core of one of testServerAddrs.
func serverAt(i int) *server {
	return newTestServer(func(c *serverConfig) { c.addresses = testServerAddrs[i : i+1] })
}

// nonces notes which nonces were used with one key, and by which packets.
type nonces map[uint64][]byte

func (n nonces) add(t *testing.T, ds ...[]byte) {
	t.Helper()
	for _, b := range ds {
		seq := sequence(b[1 : 1+b[0]>>4])
		if other, ok := n[seq]; ok && !bytes.Equal(other, b) {
			t.Fatalf("sequence %#x of %v and %v with one key", seq, packetType(other[0]&0xf), packetType(b[0]&0xf))
		}
		n[seq] = b
	}
}

// TestServersShareNoNonce: a client whose servers' answers to its response are
// lost has a session at all of them. No two of their packets have one nonce.
func TestServersShareNoNonce(t *testing.T) {
	now := testStart
	c := newTestClient(now, sharedToken(t, now, 1))
	seen, down, up := nonces{}, make([][]byte, 3), nonces{}
	var out wire.Batch
	for i := range testServerAddrs {
		s := serverAt(i)
		var sess *session
		for sess == nil {
			for _, b := range clientSends(c, now) {
				if b[0] != byte(packetRequest) {
					up.add(t, b)
				}
				var answers [][]byte
				sess, answers = serverHandles(s, now, clientAddr(1), b)
				seen.add(t, answers...)
				if sess == nil {
					c.receive(now, testServerAddrs[i], bytes.Clone(answers[0]))
				}
			}
		}
		require.Equal(t, stateResponding, c.state)
		for range 1000 {
			sess.sendPayload(now, []byte("the state of the world"), &out)
			ds := take(&out)
			seen.add(t, ds...)
			down[i] = ds[len(ds)-1]
			sess.confirmed = true
		}
		sess.send.disconnect(now, &out)
		seen.add(t, take(&out)...)
		require.Equal(t, uint64(1000+1+1+disconnectPackets), sess.send.packets())
		if i < 2 { // the last server's answer does arrive
			now = now.Add(c.timeout + 1)
			clientSends(c, now)
			require.Equal(t, i+1, c.server)
		}
	}
	// The first pays nothing: its packets are as short as ever.
	require.Len(t, down[0], 1+2+len("the state of the world")+tagSize)
	require.Len(t, down[1], 1+6+len("the state of the world")+tagSize)
	// What would be equal with one nonce: the key stream.
	x := make([]byte, 22)
	subtle.XORBytes(x, down[0][3:25], down[1][7:29])
	require.NotEqual(t, make([]byte, 22), x)
}

// TestChallengesShareNoNonce: neither do challenges and denials of several
// servers, wherever they begin, nor those of one server meet its sessions.
func TestChallengesShareNoNonce(t *testing.T) {
	tok := sharedToken(t, testStart, 1)
	req := clientSends(newTestClient(testStart, tok), testStart)[0]
	for _, start := range []uint64{0, 1<<(globalShareBits-1) - 1, 12345} {
		seen := nonces{}
		for i := range testServerAddrs {
			s := serverAt(i)
			s.globalSeq = start // by chance, the same
			for range 100 {
				_, answers := serverHandles(s, testStart, clientAddr(1), req)
				require.Len(t, answers, 1)
				seen.add(t, answers...)
			}
			s.cfg.maxClients = 0
			_, answers := serverHandles(s, testStart, clientAddr(1), req)
			require.Equal(t, packetDenied, packetType(answers[0][0]&0xf))
			seen.add(t, answers...)
		}
		for seq := range seen {
			require.GreaterOrEqual(t, seq, uint64(globalSequenceStart))
		}
	}
	starts := make(map[uint64]bool)
	for range 100 { // no start comes near the next server's share
		start := serverAt(0).globalSeq
		require.Less(t, start, uint64(1)<<(globalShareBits-1))
		starts[start>>32] = true
	}
	require.Greater(t, len(starts), 90, "starts of a hundred servers, by the upper 25 bits")
}

// TestPlace: a server finds its place in the list of a token by an address of
// its own; one that every machine has decides only where no other does.
func TestPlace(t *testing.T) {
	p := func(addrs ...string) *privateToken {
		p := &privateToken{numServers: len(addrs)}
		for i, a := range addrs {
			p.servers[i] = netip.MustParseAddrPort(a)
		}
		return p
	}
	s := newTestServer(func(c *serverConfig) {
		c.addresses = []netip.AddrPort{
			netip.MustParseAddrPort("127.0.0.1:7"), netip.MustParseAddrPort("[::1]:7"), netip.MustParseAddrPort("10.0.0.2:7"),
		}
	})
	for want, private := range map[int]*privateToken{
		-1: p("10.0.0.1:7", "10.0.0.2:8", "127.0.0.1:8"),
		0:  p("10.0.0.2:7", "10.0.0.3:7"),
		1:  p("127.0.0.1:7", "10.0.0.2:7", "[::1]:7"),
		2:  p("10.0.0.4:7", "10.0.0.3:7", "[::ffff:10.0.0.2]:7"),
		3:  p("10.0.0.4:7", "10.0.0.3:7", "10.0.0.3:8", "127.0.0.1:7", "[::1]:7"),
	} {
		require.Equal(t, want, s.place(private))
	}
	require.Zero(t, s.place(p("127.0.0.1:7", "[::1]:7")), "the first of those that every machine has")
}

// referenceReplay is the replay protection of the reference implementation, as
// the standard describes it.
type referenceReplay struct {
	newest uint64
	slots  [referenceWindow]uint64
}

func (r *referenceReplay) accepts(s uint64) bool {
	slot := &r.slots[s%referenceWindow]
	if r.newest >= referenceWindow && s <= r.newest-referenceWindow || *slot != ^uint64(0) && *slot >= s {
		return false
	}
	r.newest, *slot = max(r.newest, s), s
	return true
}

// TestReferenceWindowTakesAnyStart: a client in C takes each packet once of a
// server that begins anywhere, also out of order.
func TestReferenceWindowTakesAnyStart(t *testing.T) {
	for i := range 3 * maxServers {
		var snd sender
		place := i / 3
		switch i % 3 {
		case 0:
			snd.startAt(place, false)
		case 1:
			snd.startAnywhere(place, randomUint64())
		default:
			snd.startAnywhere(place, math.MaxUint64)
		}
		r := new(referenceReplay)
		for i := range r.slots {
			r.slots[i] = ^uint64(0)
		}
		ours := newReplayWindow(defaultWindow)
		for i := range uint64(2000) {
			s := snd.seq + i ^ 3 // neighbours change places
			require.True(t, r.accepts(s), "place %d, packet %d", place, i)
			require.False(t, r.accepts(s), "place %d, packet %d again", place, i)
			require.True(t, ours.check(s))
			ours.mark(s)
		}
	}
}

// TestSequencesExhausted: a session ends, and says so to the peer, before its
// sequences reach the next server's.
func TestSequencesExhausted(t *testing.T) {
	bubble(t, simnet.Link{Latency: time.Millisecond}, func(t *testing.T, n *simnet.Network) {
		l := simListen(t, n, nil)
		tok := sharedToken(t, time.Now(), 1)
		client, err := simDial(t, n, tok)
		require.NoError(t, err)
		server, err := l.AcceptConn(t.Context())
		require.NoError(t, err)
		defer closeAll(client, server, l)
		require.Equal(t, uint64(1)<<sessionShareBits, server.sess.send.end)
		server.sendMu.Lock()
		server.sess.send.seq = server.sess.send.end - sequenceReserve - 2
		server.sendMu.Unlock()
		var sent int
		for err = nil; err == nil && sent < 10; sent++ {
			_, err = server.Write([]byte("x"))
		}
		require.LessOrEqual(t, sent, 3)
		require.ErrorIs(t, err, errExhausted)
		var b [9]byte
		for err = nil; err == nil; {
			_, err = client.Read(b[:])
		}
		require.ErrorIs(t, err, io.EOF)
		_, err = server.Read(b[:])
		require.ErrorIs(t, err, errExhausted)
		server.sendMu.Lock()
		defer server.sendMu.Unlock()
		require.Less(t, server.sess.send.seq, server.sess.send.end)
	})
	var snd sender
	snd.startAt(31, true)
	require.Zero(t, snd.end, "the last server's share ends")
}
