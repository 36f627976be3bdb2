package volley

import (
	"bytes"
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"volley/internal/registry"
	"volley/simnet"
)

// A logBuffer is a log that a test reads.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// lines returns what was written since the last call.
func (l *logBuffer) lines() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := strings.TrimSuffix(l.b.String(), "\n")
	l.b.Reset()
	if s == "" {
		return nil
	}
	return strings.Split(s, "\n")
}

func newLog() (*logBuffer, *slog.Logger) {
	b := new(logBuffer)
	return b, slog.New(slog.NewTextHandler(b, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
}

// A Listener's log tells of limits that are reached, once and then every ten
// seconds with a count, and of the rest when the Listener is over.
func TestListenerLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, logger := newLog()
		_, l, dial := network(t, &ListenConfig{MaxConns: 3, Backlog: 2, MaxMemory: 40_000, Config: &Config{Logger: logger}})
		time.Sleep(time.Minute)
		require.Empty(t, log.lines(), "nothing has happened")
		var conns []*Conn
		defer func() {
			for _, c := range conns {
				c.Close()
			}
		}()
		come := func(n int) {
			for range n {
				conns = append(conns, dial("10.0.0.2:0", &Dialer{Config: &Config{KeepAlive: time.Hour, IdleTimeout: -1}}))
			}
			time.Sleep(time.Second)
		}
		come(5)
		time.Sleep(time.Second)
		require.Equal(t, []string{`level=WARN msg="volley: new peers are turned away, because the Backlog is full: Accept is called too rarely" count=3`}, log.lines())
		come(2)
		time.Sleep(7 * time.Second)
		require.Empty(t, log.lines(), "not before ten seconds")
		time.Sleep(2 * time.Second)
		require.Equal(t, []string{`level=WARN msg="volley: new peers are turned away, because the Backlog is full: Accept is called too rarely" count=2`}, log.lines())
		server := accept(t, l)
		conns = append(conns, server, accept(t, l))
		come(3)
		time.Sleep(time.Second)
		require.Equal(t, []string{`level=WARN msg="volley: new peers are turned away, because MaxConns is reached" count=2 limit=3`}, log.lines())
		require.EqualValues(t, 7, l.Stats().Refused)

		i := slices.IndexFunc(conns, func(c *Conn) bool { return c.LocalAddr().String() == server.RemoteAddr().String() })
		for range 20 { // the server does not read it
			conns[i].Write(make([]byte, 5000))
		}
		time.Sleep(2 * time.Second)
		lines := log.lines()
		require.Len(t, lines, 1)
		require.Regexp(t, `^level=WARN msg="volley: messages are refused, because MaxMemory is reached" count=\d+ limit=40000 held=\d+$`, lines[0])
		come(1)
		l.Close()
		for _, c := range conns {
			c.Close()
		}
		time.Sleep(maxFarewell)
		require.Equal(t, []string{`level=WARN msg="volley: new peers are turned away, because MaxConns is reached" count=1 limit=3`}, log.lines())
		time.Sleep(time.Minute)
		require.Empty(t, log.lines())
	})
}

// A dialed connection's log tells why it ended, unless by Close.
func TestDialedLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, logger := newLog()
		n, _, dial := network(t, &ListenConfig{})
		n.SetDefault(simnet.Link{Loss: 1})
		c := dial("10.0.0.2:5", &Dialer{Config: &Config{Logger: logger}})
		d := dial("10.0.0.2:6", &Dialer{Config: &Config{Logger: logger}})
		require.NoError(t, d.Close())
		time.Sleep(time.Minute)
		require.Equal(t, []string{`level=INFO msg="volley: the connection has ended" remote=10.0.0.1:7777 ` +
			`error="volley: no datagram from the peer within the idle timeout"`}, log.lines())
		c.Close()
	})
}

// A dialed connection counts in the sums of those that have ended, with a Logger as
// without.
func TestDialedSums(t *testing.T) {
	sums := func() (s registry.Totals) {
		for _, g := range registry.Groups() {
			if g.Protocol == "volley" && g.Role == registry.Dialed {
				return g.Totals
			}
		}
		return s
	}
	for _, logged := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			_, _, dial := network(t, &ListenConfig{})
			cfg := &Config{}
			if logged {
				_, cfg.Logger = newLog()
			}
			before := sums()
			c := dial("10.0.0.2:5", &Dialer{Config: cfg})
			_, err := c.Write([]byte("hello"))
			require.NoError(t, err)
			require.NoError(t, c.Close())
			after := sums()
			require.EqualValues(t, 1, after.Conns-before.Conns)
			require.EqualValues(t, 1, after.MessagesSent-before.MessagesSent)
		})
	}
}

// A real socket that is granted less than it asks for tells so at once.
func TestSmallBufferLog(t *testing.T) {
	log, logger := newLog()
	lc := ListenConfig{Config: &Config{Logger: logger, SocketBuffer: 1<<31 - 1}} // no kernel grants that
	l, err := lc.Listen(t.Context(), "udp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	if l.Stats().Transport.ReadBuffer == 0 {
		t.Skip("the platform does not tell")
	}
	lines := log.lines()
	require.Len(t, lines, 1)
	require.Contains(t, lines[0], "the system grants smaller socket buffers than asked for")
	require.Contains(t, lines[0], "wanted=2147483647")
	require.Contains(t, lines[0], "net.core.rmem_max")
	d := Dialer{Config: lc.Config}
	c, err := d.Dial(context.Background(), "udp", l.Addr().String())
	require.NoError(t, err)
	defer c.Close()
	require.Len(t, log.lines(), 1)
}

// A PacketConn's log tells of peers that are too many.
func TestPacketConnLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, logger := newLog()
		n := simnet.New(1)
		defer n.Close()
		inner, err := n.Listen("10.0.0.1:7777")
		require.NoError(t, err)
		pc, err := NewPacketConn(inner, &ListenConfig{MaxConns: 1, Config: &Config{Logger: logger}})
		require.NoError(t, err)
		for range 3 {
			c, err := n.Dial("10.0.0.2:0", "10.0.0.1:7777")
			require.NoError(t, err)
			peer := mustConn(c, nil)
			peer.Write([]byte("hello"))
			defer peer.Close()
		}
		time.Sleep(2 * time.Second)
		require.Equal(t, []string{`level=WARN msg="volley: new peers are turned away, because MaxConns is reached" count=2`}, log.lines())
		pc.Close()
	})
}
