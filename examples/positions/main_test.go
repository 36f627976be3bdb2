package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"volley"
	"volley/simnet"
)

// 200 players see each other at 30 Hz over a network that loses, delays and reorders,
// and no state is used after a newer one. When the server stops, they are told.
func TestPositions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := simnet.New(1)
		defer n.Close()
		n.SetDefault(simnet.Link{Latency: 20 * time.Millisecond, Jitter: 20 * time.Millisecond, Loss: 0.05})
		pc, err := n.Listen("10.0.0.1:7777")
		require.NoError(t, err)
		ln, err := (&volley.ListenConfig{MaxConns: maxPlayers}).ListenOn(pc)
		require.NoError(t, err)
		ctx, stop := context.WithTimeout(t.Context(), 2*time.Second)
		defer stop()
		var lines []string
		served := make(chan error)
		go func() {
			served <- newWorld(ln).run(ctx, func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) })
		}()

		seen := make(chan view)
		for i := range maxPlayers {
			go func() {
				from := netip.AddrFrom4([4]byte{10, 0, 1, byte(i)})
				pc, err := n.Listen(netip.AddrPortFrom(from, 5000).String())
				if err != nil {
					panic(err)
				}
				c, err := new(volley.Dialer).DialOn(t.Context(), pc, ln.Addr())
				if err != nil {
					panic(err)
				}
				seen <- play(t.Context(), c, float64(i))
			}()
		}
		late := 0
		for range maxPlayers {
			v := <-seen
			require.Equal(t, maxPlayers, v.players)
			require.Greater(t, v.states, 2*rate*8/10, "of 2 s, with 5 %% of loss")
			late += v.late
			var ce *volley.CloseError
			if errors.As(v.err, &ce) {
				require.Equal(t, "the server stops", ce.Reason)
			}
		}
		require.NotZero(t, late, "jitter has messages overtake each other")
		require.NoError(t, <-served)
		require.Len(t, lines, 2)
		require.Contains(t, lines[1], "200 players, round trip at most ")
	})
}

// A server that gets something else than a position ends that connection.
func TestOtherMessages(t *testing.T) {
	ln, err := volley.Listen("udp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error)
	go func() { served <- newWorld(ln).run(ctx, t.Logf) }()
	c, err := volley.Dial("udp", ln.Addr().String())
	require.NoError(t, err)
	defer c.Close()
	_, err = c.Write([]byte("hello"))
	require.NoError(t, err)
	c.SetReadDeadline(time.Now().Add(30 * time.Second))
	for err == nil {
		_, err = c.Read(make([]byte, 1000))
	}
	require.ErrorIs(t, err, io.EOF)
	stop()
	require.NoError(t, <-served)
}

// Without arguments, the program shows how to run it.
func TestUsage(t *testing.T) {
	var out strings.Builder
	flag.CommandLine.SetOutput(&out)
	defer flag.CommandLine.SetOutput(nil)
	usage()
	require.Contains(t, out.String(), "positions -listen 127.0.0.1:7777")
	require.Contains(t, out.String(), "positions -players 200 127.0.0.1:7777")
}
