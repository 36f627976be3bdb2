package volleydebug

import (
	"bufio"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A pipes is a listener of connections in memory, which keep nothing: a write
// waits until it is read.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	c, ok := <-p
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}

func (p pipes) Close() error {
	close(p) // once, by the server
	return nil
}

func (p pipes) Addr() net.Addr { return &net.UnixAddr{Net: "unix"} }

// request asks for a path, and reads nothing.
func (p pipes) request(t *testing.T, path string) net.Conn {
	here, there := net.Pipe()
	t.Cleanup(func() { here.Close() })
	p <- there
	_, err := here.Write([]byte("GET " + path + " HTTP/1.1\r\nHost: localhost\r\n\r\n"))
	require.NoError(t, err)
	synctest.Wait()
	return here
}

// status reads the answer's first line.
func status(t *testing.T, c net.Conn) int {
	r, err := http.ReadResponse(bufio.NewReader(c), nil)
	require.NoError(t, err)
	return r.StatusCode
}

// Clients that read nothing hold as many answers as Config.MaxStreams says, for ten
// seconds each, and no goroutine after that; also such of the page's files.
func TestSlowReaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fakes(t, 1000, 1) // so that an answer is more than a buffer
		p := make(pipes)
		srv := &http.Server{Handler: (&Config{MaxStreams: 3, Allow: func(*http.Request) bool { return true }}).Handler()}
		go srv.Serve(p)
		defer srv.Close()
		h := srv.Handler.(*handler).hub
		answers := func() int {
			h.mu.Lock()
			defer h.mu.Unlock()
			return h.answers
		}
		for range 3 {
			p.request(t, "/json")
		}
		require.Equal(t, 3, answers())
		require.Equal(t, 503, status(t, p.request(t, "/json")))
		file := p.request(t, "/uplot.js")
		require.Equal(t, 200, status(t, p.request(t, "/events")), "those who watch have places of their own")

		time.Sleep(writeTimeout - time.Millisecond)
		require.Equal(t, 3, answers())
		time.Sleep(time.Millisecond)
		synctest.Wait()
		require.Zero(t, answers())
		_, err := file.Write([]byte("x"))
		require.Error(t, err, "the server has given up")

		// Who reads slowly is not cut off.
		slow := p.request(t, "/json")
		b := make([]byte, 32<<10)
		for n := 0; n < 200<<10; {
			time.Sleep(writeTimeout / 8)
			m, err := slow.Read(b)
			require.NoError(t, err)
			n += m
		}
		require.Equal(t, 1, answers())
		slow.Close()
		synctest.Wait()
		require.Zero(t, answers())
	})
}
