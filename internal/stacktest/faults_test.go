package stacktest

import (
	"context"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"volley"
	"volley/internal/testenv"
	"volley/simnet"
)

// A faultySocket fails once, at one of its calls of a kind.
type faultySocket struct {
	net.PacketConn
	reads, writes atomic.Int64
	failRead      int64 // number of the call that fails; 0: none
	failWrite     int64
	err           error
	failed        atomic.Bool
}

func (s *faultySocket) fail(calls *atomic.Int64, at int64) bool {
	if calls.Add(1) != at {
		return false
	}
	s.failed.Store(true)
	return true
}

func (s *faultySocket) ReadFrom(b []byte) (int, net.Addr, error) {
	if s.fail(&s.reads, s.failRead) {
		return 0, nil, &net.OpError{Op: "read", Err: os.NewSyscallError("recvmsg", s.err)}
	}
	return s.PacketConn.ReadFrom(b)
}

func (s *faultySocket) WriteTo(b []byte, to net.Addr) (int, error) {
	if s.fail(&s.writes, s.failWrite) {
		return 0, &net.OpError{Op: "write", Err: os.NewSyscallError("sendmsg", s.err)}
	}
	return s.PacketConn.WriteTo(b, to)
}

// Whatever error a call of the socket returns, and whichever call that is, messages go on in
// both directions within 200 ms, and the connections close. The bubble of the test ends only
// if no goroutine is stuck.
func TestErrorAtEachCall(t *testing.T) {
	calls := int64(testenv.Sized(12, 1000))
	for _, errno := range []syscall.Errno{
		syscall.ENOBUFS, syscall.EAGAIN, syscall.EINTR, syscall.EIO, syscall.ENOMEM, syscall.EPERM, syscall.EACCES,
		syscall.ECONNREFUSED, syscall.EHOSTUNREACH, syscall.ENETUNREACH, syscall.ENETDOWN, syscall.EMSGSIZE, syscall.EINVAL,
	} {
		for at := int64(1); at <= calls; at += 1 + at/100 {
			for _, server := range []bool{false, true} {
				for _, write := range []bool{false, true} {
					synctest.Test(t, func(t *testing.T) {
						s := &faultySocket{err: errno, failRead: at}
						if write {
							s.failRead, s.failWrite = 0, at
						}
						failOnce(t, s, server, time.Duration(at+30)*20*time.Millisecond)
					})
				}
			}
		}
	}
}

// failOnce has two connections talk for a time, one on a socket that fails.
func failOnce(t *testing.T, s *faultySocket, server bool, length time.Duration) {
	n := simnet.New(1)
	defer n.Close()
	n.SetDefault(simnet.Link{Latency: 10 * time.Millisecond})
	var sockets [2]net.PacketConn
	for i, addr := range []string{"10.0.0.1:7777", "10.0.0.2:1"} {
		pc, err := n.Listen(addr)
		require.NoError(t, err)
		if sockets[i] = pc; server == (i == 0) {
			s.PacketConn = pc
			sockets[i] = s
		}
	}
	l, err := new(volley.ListenConfig).ListenOn(sockets[0])
	require.NoError(t, err)
	defer l.Close()
	c, err := new(volley.Dialer).DialOn(context.Background(), sockets[1], l.Addr())
	require.NoError(t, err)
	defer c.Close()
	c.Write([]byte("first"))
	a := accept(t, l)
	defer a.Close()
	for _, from := range []*volley.Conn{c, a} {
		go func() {
			for until := time.Now().Add(length); time.Now().Before(until); time.Sleep(20 * time.Millisecond) {
				from.Write([]byte("message")) // one that is lost is missed by its reader
			}
			from.Write([]byte("end"))
		}()
	}
	done := make(chan time.Duration)
	for _, to := range []*volley.Conn{c, a} {
		go func() {
			gap, last, b := time.Duration(0), time.Now(), make([]byte, 100)
			for {
				to.SetReadDeadline(time.Now().Add(time.Second))
				k, err := to.Read(b)
				now := time.Now()
				gap, last = max(gap, now.Sub(last)), now
				if err != nil || string(b[:k]) == "end" {
					done <- gap
					return
				}
			}
		}()
	}
	for range 2 {
		require.LessOrEqual(t, <-done, 200*time.Millisecond, "%v", s.err)
	}
	require.True(t, s.failed.Load(), "%v at call %d or %d", s.err, s.failRead, s.failWrite)
}
