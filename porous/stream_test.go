package porous

import (
	"bytes"
	"context"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/nettest"

	"volley/simnet"
)

// A stream is a net.Conn in every respect, on channel 0 and on another one.
func TestNettestStream(t *testing.T) {
	for name, pair := range pairs {
		for channel := range 2 {
			t.Run(name, func(t *testing.T) {
				nettest.TestConn(t, func() (c1, c2 net.Conn, stop func(), err error) {
					a, b := pair(t, &Config{Channels: 2, SendBuffer: 256 << 10, ReceiveBuffer: 256 << 10})
					return a.Channel(channel).Stream(), b.Channel(channel).Stream(), func() { a.Abort(); b.Abort() }, nil
				})
			})
		}
	}
}

func closeWrite(t *testing.T, s net.Conn) {
	t.Helper()
	require.NoError(t, s.(interface{ CloseWrite() error }).CloseWrite())
}

// Bytes arrive in order, whatever the sizes of Writes and Reads are, on a link that
// loses; the end of one direction leaves the other one open.
func TestStreamBytes(t *testing.T) {
	bubbles(t, func(t *testing.T, pair pairing) {
		a, b, _ := pair(t, badLink, &Config{Channels: 3, MaxMessageSize: 20_000})
		defer abort(a, b)
		x, y := a.Channel(1).Stream(), b.Channel(1).Stream()
		sent := make([]byte, 500_000)
		for i := range sent {
			sent[i] = byte(rand.Int())
		}
		go func() {
			for rest := sent; len(rest) > 0; {
				n := min(1+rand.IntN(1<<rand.IntN(18)), len(rest))
				m, err := x.Write(rest[:n])
				if m != n || err != nil {
					t.Errorf("Write of %d bytes: %d, %v", n, m, err)
					return
				}
				rest = rest[n:]
			}
			closeWrite(t, x)
		}()
		var got []byte
		buf := make([]byte, 30_000)
		for {
			n, err := y.Read(buf[:1+rand.IntN(1<<rand.IntN(14))])
			got = append(got, buf[:n]...)
			if err != nil {
				require.Equal(t, io.EOF, err)
				break
			}
			require.NotZero(t, n)
		}
		require.True(t, bytes.Equal(sent, got))
		_, err := y.Read(buf)
		require.Equal(t, io.EOF, err, "again")
		n, err := y.Read(nil)
		require.Zero(t, n)
		require.NoError(t, err)

		_, err = x.Write([]byte("more"))
		require.ErrorIs(t, err, net.ErrClosed)
		_, err = y.Write([]byte("the other direction"))
		require.NoError(t, err)
		n, err = io.ReadFull(x, buf[:5])
		require.NoError(t, err)
		require.Equal(t, "the o", string(buf[:n]))
		require.NoError(t, y.Close())
		require.NoError(t, y.Close())
		rest, err := io.ReadAll(x)
		require.NoError(t, err)
		require.Equal(t, "ther direction", string(rest))
		require.NoError(t, x.Close())
		_, err = x.Read(buf)
		require.ErrorIs(t, err, net.ErrClosed)
		require.ErrorIs(t, x.SetDeadline(time.Time{}), net.ErrClosed)
		_, err = a.Write([]byte("the connection lives"))
		require.NoError(t, err)
		require.Equal(t, "the connection lives", readString(t, b))
	})
}

// Close ends a Write that waits for room, and tells the peer when there is some; if
// there is none for Config.CloseTimeout, it gives up.
func TestStreamCloseWithoutRoom(t *testing.T) {
	for _, reads := range []bool{true, false} {
		bubble(t, func(t *testing.T) {
			x, y := simnet.Pair(1, simnet.Link{Latency: time.Millisecond}, simnet.Link{Latency: time.Millisecond})
			cfg := &Config{Channels: 2, MaxMessageSize: 1000, SendBuffer: 20_000, ReceiveBuffer: 100_000, CloseTimeout: time.Second}
			a, b := wrapped(x, cfg), wrapped(y, cfg)
			defer abort(a, b)
			s := a.Channel(1).Stream()
			written := make(chan error, 1)
			accepted := 0
			go func() {
				n, err := s.Write(make([]byte, 1<<20))
				accepted = n
				written <- err
			}()
			time.Sleep(time.Minute)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			for err := error(nil); err == nil; { // not even an empty message has room
				_, err = a.Channel(1).WriteMessage(ctx, nil, Reliable)
			}
			if reads {
				time.AfterFunc(time.Second/2, func() { go io.Copy(io.Discard, b.Channel(1).Stream()) })
			}
			begin := time.Now()
			err := s.Close()
			require.ErrorIs(t, <-written, net.ErrClosed)
			require.NotZero(t, accepted)
			if reads {
				require.NoError(t, err)
				require.Less(t, time.Since(begin), time.Second)
			} else {
				require.ErrorIs(t, err, context.DeadlineExceeded)
				require.Equal(t, time.Second, time.Since(begin))
			}
			synctest.Wait()
		})
	}
}

// The deadline counts for bytes that wait, too, and Close of the stream of channel 0 is
// that of the connection.
func TestStreamOfConn(t *testing.T) {
	bubbles(t, func(t *testing.T, pair pairing) {
		a, b, _ := pair(t, simnet.Link{Latency: time.Millisecond}, nil)
		x, y := a.Stream(), b.Stream()
		_, err := x.Write([]byte("hello"))
		require.NoError(t, err)
		buf := make([]byte, 2)
		n, err := y.Read(buf)
		require.NoError(t, err)
		require.Equal(t, "he", string(buf[:n]))
		require.NoError(t, y.SetReadDeadline(time.Now().Add(-1)))
		_, err = y.Read(buf)
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		require.NoError(t, y.SetDeadline(time.Time{}))
		require.NoError(t, x.Close())
		require.ErrorIs(t, a.Flush(t.Context()), net.ErrClosed)
		rest, err := io.ReadAll(y)
		require.NoError(t, err)
		require.Equal(t, "llo", string(rest))
		_, err = y.Write(nil)
		require.NoError(t, err)
		_, err = y.Write(buf)
		require.ErrorIs(t, err, io.ErrClosedPipe)
		require.Equal(t, a.LocalAddr(), x.LocalAddr())
		require.Equal(t, a.RemoteAddr(), x.RemoteAddr())
		require.NoError(t, y.Close())
	})
}
