package netcode

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// holders are clients with tokens who ask for a session and never answer.
type holders struct {
	s        *server
	requests [][]byte
}

func newHolders(t *testing.T, s *server, now time.Time, n int, lifetime, timeout time.Duration) *holders {
	t.Helper()
	h := &holders{s: s}
	is := testIssuer()
	is.Lifetime, is.Timeout = lifetime, timeout
	for i := range n {
		tok, err := is.issue(now, uint64(1000+i), nil, GenerateKey(), GenerateKey(), randomNonce())
		require.NoError(t, err)
		h.requests = append(h.requests, clientSends(newTestClient(now, tok), now)[0])
	}
	return h
}

// ask has all of them send their request, and returns how many were answered.
func (h *holders) ask(now time.Time) (answered int) {
	for i, req := range h.requests {
		_, out := serverHandles(h.s, now, clientAddr(1000+i), req)
		answered += len(out)
	}
	return answered
}

// TestHoldersWhoGo: those who are challenged and go, whatever their tokens say of
// lifetime and timeout, keep others out for ten seconds, and a second more at most.
func TestHoldersWhoGo(t *testing.T) {
	for _, lifetime := range []time.Duration{30 * time.Second, -1} {
		for _, timeout := range []time.Duration{time.Hour, -1} {
			t.Run(fmt.Sprintf("lifetime %v, timeout %v", lifetime, timeout), func(t *testing.T) {
				s := newTestServer(func(c *serverConfig) { c.maxClients = 4 })
				now := testStart.Add(1500 * time.Millisecond)
				require.Equal(t, minHandshakes, newHolders(t, s, now, minHandshakes, lifetime, timeout).ask(now))
				refused := func(now time.Time, id int) {
					req := clientSends(newTestClient(now, issueAt(t, now, uint64(id))), now)[0]
					_, out := serverHandles(s, now, clientAddr(id), req)
					require.Empty(t, out)
				}
				refused(now.Add(time.Second), 1)
				refused(now.Add(handshakeShare-1), 2)
				require.Equal(t, uint64(2), s.counts.drops[dropPendingFull])
				now = now.Add(handshakeShare + time.Second)
				for i := range 4 {
					connectPair(t, s, now, clientAddr(3+i), issueAt(t, now, uint64(3+i)))
				}
			})
		}
	}
}

// TestHoldersWhoStay: nor do they by asking again and again. Whoever comes once
// they have had their time has ten seconds for a handshake of its own.
func TestHoldersWhoStay(t *testing.T) {
	s := newTestServer(func(c *serverConfig) { c.maxClients = 4 })
	now := testStart
	h := newHolders(t, s, now, minHandshakes, -1, -1)
	h.ask(now)
	for end := now.Add(handshakeShare + time.Second); now.Before(end); now = now.Add(time.Second) {
		h.ask(now)
	}
	for i := range 3 {
		is := testIssuer()
		is.Timeout = time.Hour
		tok, err := is.issue(now, uint64(i), nil, GenerateKey(), GenerateKey(), randomNonce())
		require.NoError(t, err)
		c := newTestClient(now, tok)
		_, out := serverHandles(s, now, clientAddr(i), clientSends(c, now)[0])
		require.Len(t, out, 1, "client %d", i)
		c.receive(now, testServerAddr, out[0])
		response := clientSends(c, now)[0]
		for end := now.Add(handshakeShare - time.Second); now.Before(end); now = now.Add(time.Second) {
			require.NotZero(t, h.ask(now), "they may have what is left")
			require.Len(t, s.handshakes.entries, minHandshakes)
		}
		sess, _ := serverHandles(s, now, clientAddr(i), response)
		require.NotNil(t, sess, "client %d; drops %v", i, s.counts.drops.labeled())
	}
	require.Zero(t, s.counts.drops[dropHistoryFull])
}

// TestHandshakeTakesItsTime: where there is room, a client may take as long as its
// token's timeout says.
func TestHandshakeTakesItsTime(t *testing.T) {
	s := newTestServer(nil)
	is := testIssuer()
	is.Timeout, is.Lifetime = time.Hour, 2*time.Hour
	tok, err := is.issue(testStart, 1, nil, GenerateKey(), GenerateKey(), randomNonce())
	require.NoError(t, err)
	c := newTestClient(testStart, tok)
	_, out := serverHandles(s, testStart, clientAddr(1), clientSends(c, testStart)[0])
	c.receive(testStart, testServerAddr, out[0])
	response := clientSends(c, testStart)[0]
	now := testStart.Add(59 * time.Minute)
	s.tick(now)
	newHolders(t, s, now, minHandshakes-1, 0, 0).ask(now)
	require.Len(t, s.handshakes.entries, minHandshakes)
	sess, _ := serverHandles(s, now, clientAddr(1), response)
	require.NotNil(t, sess)
}

// TestAskingAgainKeepsPlace: whoever asks again is no younger for it, and hides
// behind nobody who is.
func TestAskingAgainKeepsPlace(t *testing.T) {
	table := newHandshakes(2)
	put := func(at, shown time.Duration, i int) bool {
		h := &handshake{id: tokenID{byte(i)}, timeout: time.Hour, shown: testStart.Add(shown)}
		h.deadline = testStart.Add(at + time.Hour)
		return table.put(testStart.Add(at), 0, clientAddr(i), h, 0)
	}
	require.True(t, put(0, 0, 1))
	require.True(t, put(time.Second, time.Second, 2))
	require.True(t, put(9*time.Second, 0, 1))
	require.False(t, put(handshakeShare-1, handshakeShare-1, 3))
	require.True(t, put(handshakeShare, handshakeShare, 3))
	require.NotContains(t, table.entries, clientAddr(1))
}

// TestHandshakesModel puts handshakes of some tokens in a small table at random.
// None gives way before its token has had its time, and no newcomer is refused
// beside one whose token has had it twice.
func TestHandshakesModel(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 1))
	table := newHandshakes(8)
	now := testStart
	const tokens = 30
	var shown [tokens]time.Time
	made, refused := 0, 0
	for range 5000 {
		now = now.Add(time.Duration(rng.IntN(400)) * time.Millisecond)
		i := rng.IntN(tokens)
		if rng.IntN(300) == 0 {
			clear(shown[:]) // other tokens
			table.wipe()
			table = newHandshakes(8)
		}
		if shown[i].IsZero() || rng.IntN(100) == 0 {
			shown[i] = now // another token of the same client
		}
		before := make(map[netip.AddrPort]time.Time)
		for addr, h := range table.entries {
			before[addr] = h.shown
		}
		if rng.IntN(8) == 0 {
			table.remove(clientAddr(i))
			continue
		}
		id := tokenID(fmt.Appendf(nil, "%16d", shown[i].UnixNano()%1e16))
		h := &handshake{id: id, timeout: time.Hour, deadline: now.Add(time.Hour), shown: shown[i]}
		ok := table.put(now, 0, clientAddr(i), h, 0)
		require.LessOrEqual(t, len(table.entries), 8)
		if ok {
			made++
			require.Same(t, h, table.entries[clientAddr(i)])
		} else {
			refused++
			require.Len(t, before, 8)
			require.NotContains(t, before, clientAddr(i))
		}
		gone := 0
		for addr, first := range before {
			if !ok {
				require.Less(t, now.Sub(first), 2*handshakeShare)
			}
			if table.entries[addr] == nil {
				gone++
				require.Len(t, before, 8)
				require.GreaterOrEqual(t, now.Sub(first), handshakeShare)
			}
		}
		require.LessOrEqual(t, gone, 1)
		checkRings(t, &table)
	}
	require.NotZero(t, made)
	require.NotZero(t, refused)
}

// checkRings: each handshake stands in one ring, and nothing else does.
func checkRings(t *testing.T, table *handshakes) {
	t.Helper()
	n := 0
	for _, ring := range []*handshake{table.early, table.late} {
		for h := ring.behind; h != ring; h = h.behind {
			require.Same(t, h, h.behind.before)
			require.Same(t, h, table.entries[h.addr])
			n++
		}
	}
	require.Len(t, table.entries, n)
}
