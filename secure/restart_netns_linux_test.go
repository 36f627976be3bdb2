package secure

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"volley/internal/netnstest"
)

func init() {
	processes["restarted"] = func(args []string) { serveUntilSignal(args[0]) }
}

// serveUntilSignal sends back what comes, until SIGTERM. Then it sends its clients away.
func serveUntilSignal(keyFile string) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM)
	l := must(Listen("udp4", natServer+":7777", &ListenConfig{KeyFile: keyFile}))
	go l.Serve(Handler{Message: func(c *Conn, msg []byte) { c.Write(msg) }})
	fmt.Println(l.URL(natServer))
	go func() {
		untilEnd()
		os.Exit(0)
	}()
	<-signals
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	l.Drain(ctx, "", nil)
	l.Close()
}

// startServer starts a server in the server's namespace, and returns its URL.
func startServer(t *testing.T, n *testNAT, keyFile string) (p *process, url string) {
	t.Helper()
	p = prepare(t, "restarted", keyFile)
	var err error
	n.server.Run(func() { err = p.cmd.Start() })
	require.NoError(t, err)
	return p, p.line(t)
}

// roundTrip reports when a session brought a message there and back, or the error of its end.
func roundTrip(c *Conn) (at time.Time, err error) {
	b := make([]byte, 100)
	for {
		if _, err := c.Write([]byte("are you there?")); err != nil && c.Err() != nil {
			return at, c.Err()
		}
		c.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
		switch _, err := c.Read(b); {
		case err == nil:
			return time.Now(), nil
		case c.Err() != nil:
			return at, c.Err()
		case !errors.Is(err, os.ErrDeadlineExceeded):
			return at, err
		}
	}
}

// A client goes on with a server that was restarted, whether that was planned or not, and although
// the router has forgotten the client meanwhile.
func TestNextWhenServerProcessEnds(t *testing.T) {
	if !netnstest.Inside(t, natCommands...) {
		return
	}
	n := newTestNAT(t)
	key := filepath.Join(t.TempDir(), "key")
	p, url := startServer(t, n, key)
	c, err := Dial(t.Context(), url)
	require.NoError(t, err)
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL, syscall.SIGTERM} {
		awaitSpares(t, c)
		last, err := roundTrip(c)
		require.NoError(t, err)
		ended := make(chan error, 1)
		go func() {
			for {
				if _, err := roundTrip(c); err != nil {
					ended <- err
					return
				}
				time.Sleep(askInterval)
			}
		}()
		require.NoError(t, p.cmd.Process.Signal(sig))
		err = p.cmd.Wait()
		if sig == syscall.SIGTERM {
			require.NoError(t, err)
			require.Equal(t, ErrMoved, <-ended)
		}
		gone := time.Since(last)
		n.rebind(t)
		p, _ = startServer(t, n, key)
		up := time.Since(last)
		if sig == syscall.SIGKILL {
			var refused *RefusedError
			require.ErrorAs(t, <-ended, &refused, "the server does not know the session")
		}
		former := c
		c, err = c.Next(t.Context())
		require.NoError(t, err)
		at, err := roundTrip(c)
		require.NoError(t, err)
		require.NoError(t, former.Close())
		t.Logf("%v: the server was away from %v to %v, and the client is back after %v", sig, gone, up, at.Sub(last))
	}
	c.Close()
	p.end(t)
}
