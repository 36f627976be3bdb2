package main

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"volley"
)

// Two native players are in a room, and see each other until one leaves.
func TestRoom(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ln, err := volley.Listen("udp", "127.0.0.1:0")
	require.NoError(t, err)
	defer ln.Close()
	r := newRoom()
	go r.accept(ctx, ln)
	go r.run(ctx)

	first, leave := context.WithCancel(ctx)
	gone := make(chan error, 1)
	go func() { gone <- walk(first, ln.Addr().String(), io.Discard) }()
	c, err := volley.Dial("udp", ln.Addr().String())
	require.NoError(t, err)
	defer c.Close()
	see := func(players int) {
		t.Helper()
		c.SetReadDeadline(time.Now().Add(20 * time.Second))
		for {
			c.Write(place{0.25, 1}.append(nil))
			m, err := c.ReadMessage(ctx, nil)
			require.NoError(t, err)
			if countPlayers(m) == players {
				return
			}
		}
	}
	see(2)
	leave()
	require.NoError(t, <-gone)
	see(1)
}

func TestHandler(t *testing.T) {
	h := handler("https://127.0.0.1:1/join", "abc")
	for path, want := range map[string]string{"/": "<canvas", "/volley.js": "export async function dial", "/gate.json": `"certificateHash":"abc"`} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		require.Equal(t, http.StatusOK, w.Code)
		require.Contains(t, w.Body.String(), want)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/other", nil))
	require.Equal(t, http.StatusNotFound, w.Code)
}

// A place survives the wire, and serve says what is wrong with an address.
func TestPlace(t *testing.T) {
	p := parsePlace(place{0.25, 1}.append(nil))
	require.InDelta(t, 0.25, p.x, 1e-4)
	require.InDelta(t, 1, p.y, 1e-4)
	var oe *net.OpError
	err := serve(t.Context(), "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:none")
	require.True(t, errors.As(err, &oe) || strings.Contains(err.Error(), "none"), "%v", err)
}
