package webgate

import (
	"context"
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A fakeLink is a client of the test. What is sent to it waits while it is held.
type fakeLink struct {
	mu     sync.Mutex
	got    []byte // the first byte of each datagram
	held   chan struct{}
	failed error
	in     chan []byte
	end    chan struct{}
	once   sync.Once
}

func newFake() *fakeLink { return &fakeLink{in: make(chan []byte), end: make(chan struct{})} }

func (l *fakeLink) receive(ctx context.Context) ([]byte, error) {
	select {
	case b := <-l.in:
		return b, nil
	case <-l.end:
		return nil, io.EOF
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (l *fakeLink) send(b []byte) error {
	l.mu.Lock()
	held := l.held
	l.mu.Unlock()
	if held != nil {
		select {
		case <-held:
		case <-l.end:
			return net.ErrClosed
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.got = append(l.got, b[0])
	return l.failed
}

func (l *fakeLink) gone() <-chan struct{} { return l.end }
func (l *fakeLink) close()                { l.once.Do(func() { close(l.end) }) }
func (l *fakeLink) addrs() (local, remote net.Addr) {
	return addr{overWebTransport, "here"}, addr{overWebTransport, "there"}
}

func newFakeConn(l *fakeLink) (*Conn, *Gate) {
	g := &Gate{sessions: 1}
	return newConn(g, l), g
}

// To a client that takes nothing, Write does not wait, and the oldest go.
func TestSlowClient(t *testing.T) {
	l := newFake()
	l.held = make(chan struct{})
	c, g := newFakeConn(l)
	const size, writes = 1000, 200
	for i := range writes {
		_, err := c.Write(append([]byte{byte(i)}, make([]byte, size-1)...))
		require.NoError(t, err)
	}
	c.mu.Lock()
	queued, waiting := c.queued, len(c.queue)
	c.mu.Unlock()
	require.LessOrEqual(t, queued, maxQueued)
	require.Equal(t, maxQueued/(size+overhead), waiting)
	dropped := int(g.Stats().Dropped)
	close(l.held)
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		l.mu.Lock()
		got := l.got
		l.mu.Unlock()
		if len(got) == writes-dropped {
			require.EqualValues(t, writes-1, got[len(got)-1])
			require.EqualValues(t, writes-waiting, got[len(got)-waiting])
			break
		}
		require.True(t, time.Now().Before(end), "%d of %d", len(got), writes-dropped)
	}
	l.close()
	require.NoError(t, c.Close())
	g.await(t, func(s Stats) bool { return s.Sessions == 0 })
}

// Close sends what waits, does not wait itself, and ends a session that takes nothing.
func TestConnClose(t *testing.T) {
	for _, held := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) { closeConn(t, held) })
	}
}

func closeConn(t *testing.T, held bool) {
	l := newFake()
	if held {
		l.held = make(chan struct{})
	}
	c, g := newFakeConn(l)
	for i := range 10 {
		c.Write([]byte{byte(i)})
	}
	start := time.Now()
	require.NoError(t, c.Close())
	require.Zero(t, time.Since(start))
	g.await(t, func(s Stats) bool { return s.Sessions == 0 })
	<-l.end
	if !held {
		require.Len(t, l.got, 10)
	}
	_, err := c.Read(make([]byte, 1))
	require.ErrorIs(t, err, net.ErrClosed)
	_, err = c.Write([]byte{1})
	require.ErrorIs(t, err, net.ErrClosed)
	require.ErrorIs(t, c.Close(), net.ErrClosed)
	require.ErrorIs(t, c.SetDeadline(time.Time{}), net.ErrClosed)
}

func TestConnRead(t *testing.T) {
	l := newFake()
	c, _ := newFakeConn(l)
	defer c.Close()
	buf := make([]byte, 4)
	require.NoError(t, c.SetReadDeadline(time.Now().Add(10*time.Millisecond)))
	_, err := c.Read(buf)
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	require.NoError(t, c.SetReadDeadline(time.Now().Add(-time.Second)))
	_, err = c.Read(buf)
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	require.NoError(t, c.SetReadDeadline(time.Time{}))
	go func() { l.in <- []byte("abc"); l.in <- []byte("abcdef") }()
	n, err := c.Read(buf)
	require.NoError(t, err)
	require.Equal(t, "abc", string(buf[:n]))
	n, err = c.Read(buf)
	require.ErrorIs(t, err, io.ErrShortBuffer)
	require.Equal(t, "abcd", string(buf[:n]))
	l.failed = net.ErrClosed
	c.Write([]byte{1})
	for end := time.Now().Add(patience); err != nil && err != io.ErrShortBuffer || time.Now().Before(end); time.Sleep(time.Millisecond) {
		if _, err = c.Write([]byte{1}); err != nil {
			break
		}
	}
	require.ErrorIs(t, err, net.ErrClosed)
	l.close()
	_, err = c.Read(buf)
	require.ErrorIs(t, err, io.EOF)
}
