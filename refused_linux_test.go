package volley

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"volley/internal/loopback"
	"volley/reliable"
)

// readRefused reads, with a deadline, until the error is no timeout; meanwhile it
// writes, so that there is something to be refused.
func readRefused(t *testing.T, c *Conn) error {
	t.Helper()
	buf := make([]byte, 100)
	for range 200 {
		c.Write([]byte("anybody?"))
		c.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
		if _, err := c.Read(buf); !errors.Is(err, os.ErrDeadlineExceeded) {
			return err
		}
	}
	return nil
}

// A Read of a dialed connection tells once that nobody listens, however often the
// system says so, and again after the peer was heard. The connection lives on.
func TestRefusedRead(t *testing.T) {
	addr := net.UDPAddr{IP: loopback.Host().AsSlice()}
	pc, err := net.ListenUDP("udp4", &addr)
	require.NoError(t, err)
	addr.Port = pc.LocalAddr().(*net.UDPAddr).Port
	pc.Close()

	c, err := Dial("udp4", addr.String())
	require.NoError(t, err)
	defer c.Close()
	err = readRefused(t, c)
	require.ErrorIs(t, err, syscall.ECONNREFUSED, "the first Read")
	var op *net.OpError
	require.ErrorAs(t, err, &op)
	require.Equal(t, "read", op.Op)
	for range 5 {
		c.Write([]byte("still nobody?"))
		c.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
		_, err = c.Read(make([]byte, 100))
		require.ErrorIs(t, err, os.ErrDeadlineExceeded, "a later Read")
	}
	if last := c.out.Below.Features().Errors.LastError(); !errors.Is(last, syscall.ECONNREFUSED) {
		t.Errorf("the last error is %v", last)
	}

	pc, err = loopback.Again(func() (*net.UDPConn, error) { return net.ListenUDP("udp4", &addr) })
	require.NoError(t, err)
	c.Write([]byte("hello"))
	_, from, err := pc.ReadFromUDPAddrPort(make([]byte, 100))
	require.NoError(t, err)
	_, err = pc.WriteToUDPAddrPort(append(reliable.AppendHeader(nil, reliable.Header{Ack: 65535}), "here"...), from)
	require.NoError(t, err)
	c.SetReadDeadline(time.Time{})
	m, err := c.ReadMessage(context.Background(), nil)
	require.NoError(t, err)
	require.Equal(t, "here", string(m))
	pc.Close()
	require.ErrorIs(t, readRefused(t, c), syscall.ECONNREFUSED, "a Read after the peer was heard, and went")
}

// A refusal wakes a Read that waits.
func TestRefusedWhileReading(t *testing.T) {
	var killed atomic.Bool // then the socket, while it is still open, tells nobody of a restart
	lc := ListenConfig{Filter: func(netip.AddrPort) bool { return !killed.Load() }}
	l, err := lc.Listen(context.Background(), "udp4", loopback.Addr())
	require.NoError(t, err)
	c, err := Dial("udp4", l.Addr().String())
	require.NoError(t, err)
	defer c.Close()
	s, err := l.AcceptConn(context.Background())
	require.NoError(t, err)
	s.Write([]byte("hello"))
	_, err = c.ReadMessage(context.Background(), nil)
	require.NoError(t, err)
	result := make(chan error, 2)
	for range 2 { // one of them reads the socket, or a goroutine behind both does
		go func() {
			_, err := c.ReadMessage(context.Background(), nil)
			result <- err
		}()
	}
	killed.Store(true)
	kill(s)
	l.Close()
	c.Write([]byte("anybody?"))
	require.ErrorIs(t, <-result, syscall.ECONNREFUSED)
	c.Close()
	if err := <-result; !errors.Is(err, syscall.ECONNREFUSED) { // as when an acknowledgement was refused, too
		require.ErrorIs(t, err, net.ErrClosed)
	}
}

// What the socket has told last is a part of the error of the idle timeout.
func TestIdleTimeoutTellsWhy(t *testing.T) {
	pc, err := net.ListenUDP("udp4", &net.UDPAddr{IP: loopback.Host().AsSlice()})
	require.NoError(t, err)
	addr := pc.LocalAddr().String()
	pc.Close()
	d := Dialer{Config: &Config{IdleTimeout: time.Second, KeepAlive: 20 * time.Millisecond}}
	nc, err := d.Dial(context.Background(), "udp4", addr)
	require.NoError(t, err)
	defer nc.Close()
	buf := make([]byte, 100)
	_, err = nc.Read(buf)
	require.ErrorIs(t, err, syscall.ECONNREFUSED, "the first Read")
	require.NotErrorIs(t, err, net.ErrClosed, "the first Read")
	_, err = nc.Read(buf)
	require.ErrorIs(t, err, ErrIdleTimeout, "the second Read")
	require.NotErrorIs(t, err, net.ErrClosed, "the second Read")
	require.NotErrorIs(t, err, syscall.ECONNREFUSED, "only a passing error matches that")
	require.False(t, err.(net.Error).Timeout(), "Timeout of the second Read")
	require.True(t, strings.Contains(err.Error(), "refused") && strings.Contains(err.Error(), "idle timeout"), err.Error())
}
