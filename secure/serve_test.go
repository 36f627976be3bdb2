package secure

import (
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"volley/internal/sideband"

	"volley/simnet"
)

// A Handler is told of each session, its messages and its end, by Serve and by Poll.
func TestServeAndPoll(t *testing.T) {
	for _, name := range []string{"Serve", "Poll"} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, simnet.Link{Latency: time.Millisecond}, func(t *testing.T, w *world) {
				l := w.listen(t, &ListenConfig{Authorize: player})
				var opened, closed []*Conn
				var last error
				h := Handler{
					Open: func(c *Conn) { opened = append(opened, c) },
					Message: func(c *Conn, msg []byte) {
						if string(msg) == "kick me" {
							c.CloseWithReason("as you wish")
							return
						}
						c.Write(msg)
					},
					Closed: func(c *Conn, err error) { closed, last = append(closed, c), err },
				}
				done := make(chan error)
				go func() {
					if name == "Serve" {
						done <- l.Serve(h)
						return
					}
					var err error
					for err = l.Poll(h); err == nil; err = l.Poll(h) {
						time.Sleep(10 * time.Millisecond)
					}
					done <- err
				}()
				url := l.URL("10.0.0.1")
				first, err := w.dialer().Dial(t.Context(), url)
				require.NoError(t, err)
				first.Write([]byte("hello"))
				b, err := first.ReadMessage(t.Context(), nil)
				require.NoError(t, err)
				require.Equal(t, "hello", string(b))

				second, err := w.dialer().Dial(t.Context(), url)
				require.NoError(t, err)
				second.Write([]byte("hello"))
				closedBy(t, first, anotherLogin)
				second.Write([]byte("kick me"))
				closedBy(t, second, "as you wish")
				for range 3 {
					c, err := w.dialer().Dial(t.Context(), url)
					require.NoError(t, err)
					c.Write([]byte("x"))
					time.Sleep(100 * time.Millisecond)
					require.NoError(t, c.Close())
					time.Sleep(100 * time.Millisecond)
				}
				synctest.Wait()
				require.Len(t, opened, 5)
				require.ElementsMatch(t, opened, closed)
				require.True(t, errors.Is(last, io.EOF))
				require.Equal(t, uint64(7), opened[0].ClientID())
				require.NoError(t, l.Close())
				require.ErrorIs(t, <-done, net.ErrClosed)
				first.Close()
				second.Close()
			})
		})
	}
	l := newServer(t, nil)
	require.Error(t, l.Serve(Handler{}))
}

// A reason has at most 64 bytes, and is one line of text: it cannot write to a terminal or a log what it likes.
func TestReasonIsClipped(t *testing.T) {
	l := newServer(t, nil)
	for in, want := range map[string]string{
		"":                                 "",
		strings.Repeat("x", 64):            strings.Repeat("x", 64),
		strings.Repeat("x", 65):            strings.Repeat("x", 64),
		strings.Repeat("x", 63) + "\u00fc": strings.Repeat("x", 63),
		strings.Repeat("\u20ac", 30):       strings.Repeat("\u20ac", 21),
		"a\xffb":                           "a\uFFFDb",
		"\x1b[31mred\r\nroot: no\x00":      "[31mred  root: no",
	} {
		require.Equal(t, want, clean(in, maxReason))
		if want == "" {
			continue
		}
		client, server := newSession(t, l)
		require.NoError(t, sideband.Of(client.Conn).CloseWith(append([]byte{controlBye}, in...)))
		closedBy(t, server, want)
		require.NoError(t, server.Close())
		client, server = newSession(t, l)
		require.NoError(t, server.CloseWithReason(in+strings.Repeat(" ", 2000)))
		closedBy(t, client, want)
	}
}
