package stacktest

import (
	"context"
	"encoding/binary"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"volley"
	"volley/porous"
	"volley/secure"
)

// rebind moves a session until it has moved so often; it needs a spare token each time.
func rebind(t *testing.T, session *secure.Conn) {
	t.Helper()
	before := session.LocalAddr().String()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	require.NoError(t, session.Rebind(ctx))
	require.NotEqual(t, before, session.LocalAddr().String())
}

// A session that moves under a volley.Conn loses at most what is under way: each message has one
// fate, what is Delivered has been read, and nothing is read twice.
func TestVolleyMoves(t *testing.T) {
	inner := secureListen(t)
	l := newListener(inner, nil)
	defer l.Close()
	session := secureDial(t, inner)
	client := newConn(session, nil)
	defer client.Close()
	server, err := l.AcceptConn(t.Context())
	require.NoError(t, err)
	defer server.Close()

	read := make(chan map[uint64]int)
	go func() {
		got := make(map[uint64]int)
		for {
			msg, err := server.ReadMessage(context.Background(), nil)
			if err != nil {
				read <- got
				return
			}
			got[binary.LittleEndian.Uint64(msg)]++
		}
	}()
	ids := make(map[uint64]uint64)
	const moves, each = 5, 60
	for n := range uint64(moves * each) {
		if n%each == each/2 {
			rebind(t, session)
			require.Equal(t, session.LocalAddr().String(), client.LocalAddr().String())
			require.Zero(t, client.Stats().RTT, "it begins anew")
		}
		id, err := client.WriteMessage(binary.LittleEndian.AppendUint64(nil, n))
		require.NoError(t, err)
		ids[id] = n
		time.Sleep(2 * time.Millisecond)
	}
	require.Eventually(t, func() bool { return client.Stats().RTT > 0 }, 10*time.Second, 10*time.Millisecond)
	require.EqualValues(t, moves, client.Stats().Moves)
	require.Eventually(t, func() bool { return server.Stats().Moves == moves }, 10*time.Second, time.Millisecond, "the client may know first")
	require.EqualValues(t, moves, session.Stats().Moves)
	require.Contains(t, client.Explain().String(), "The session moved")
	require.Equal(t, client.LocalAddr().String(), server.RemoteAddr().String())
	require.NoError(t, client.Close())
	got := <-read
	delivered := 0
	for _, r := range client.AppendReceipts(nil) {
		n, ok := ids[r.ID]
		require.True(t, ok, "a fate of no message, or a second one")
		delete(ids, r.ID)
		if r.Fate == volley.Delivered {
			delivered++
			require.Equal(t, 1, got[n], "message %d", n)
		}
	}
	require.Empty(t, ids, "each has a fate")
	for n, times := range got {
		require.Equal(t, 1, times, "message %d", n)
	}
	require.Greater(t, delivered, moves*each*9/10)
}

// A porous connection resends what a move has lost, in order.
func TestPorousMoves(t *testing.T) {
	inner := secureListen(t)
	l, err := porous.NewListener(inner, nil)
	require.NoError(t, err)
	defer l.Close()
	session := secureDial(t, inner)
	client, err := porous.NewConn(session, nil)
	require.NoError(t, err)
	defer client.Close()
	server, err := l.AcceptConn(t.Context())
	require.NoError(t, err)
	defer server.Close()
	const moves, each = 4, 100
	go func() {
		for n := range uint64(moves * each) {
			client.Write(binary.LittleEndian.AppendUint64(make([]byte, 0, 1000), n)[:1000])
			time.Sleep(time.Millisecond)
		}
	}()
	b := make([]byte, 2000)
	for n := range uint64(moves * each) {
		if n%each == each/2 {
			rebind(t, session)
		}
		server.SetReadDeadline(time.Now().Add(20 * time.Second))
		_, err := server.Read(b)
		require.NoError(t, err)
		require.Equal(t, n, binary.LittleEndian.Uint64(b))
	}
	require.EqualValues(t, moves, client.Stats().Moves)
	require.Eventually(t, func() bool { return server.Stats().Moves == moves }, 10*time.Second, time.Millisecond, "the client may know first")
	require.True(t, strings.Contains(client.Explain().String(), "The session moved"), client.Explain())
}
