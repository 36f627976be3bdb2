package porous

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"runtime"
	"runtime/pprof"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func contextFor(t *testing.T, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(t.Context(), d)
}

// TestLoneReaderReadsTheSocket: who is alone in Read reads the socket itself, on
// whichever channel, and then no other goroutine does.
func TestLoneReaderReadsTheSocket(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only on Linux do readers take turns at a socket")
	}
	a, b := udpPair(t, &Config{Channels: 3})
	defer abort(a, b)
	for n := range 3 {
		got := make(chan error, 1)
		ch := a.Channel(n)
		go func() {
			_, err := ch.ReadMessage(context.Background(), nil)
			got <- err
		}()
		var stacks bytes.Buffer
		for end := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
			stacks.Reset()
			pprof.Lookup("goroutine").WriteTo(&stacks, 1)
			if bytes.Contains(stacks.Bytes(), []byte("turns).readInline")) {
				break
			}
			require.True(t, time.Now().Before(end), "channel %d: %s", n, &stacks)
		}
		_, err := b.Channel(n).Write([]byte("x"))
		require.NoError(t, err)
		require.NoError(t, <-got)
	}
}

// TestReadersOfManyChannels: readers of several channels, with and without
// deadlines, that come and go, miss nothing; nor does the peer wait for them.
func TestReadersOfManyChannels(t *testing.T) {
	const channels, messages = 4, 300
	a, b := udpPair(t, &Config{Channels: channels})
	defer abort(a, b)
	for _, pair := range [][2]*Conn{{a, b}, {b, a}} {
		reader, writer := pair[0], pair[1]
		errs := make(chan error, channels)
		var wg sync.WaitGroup
		for n := range channels {
			ch := reader.Channel(n)
			wg.Go(func() {
				for i := 0; i < messages; {
					if n%2 == 0 {
						ch.SetReadDeadline(time.Now().Add(time.Duration(n+1) * time.Millisecond))
					}
					m, err := ch.ReadMessage(context.Background(), nil)
					switch {
					case err == nil && int(binary.BigEndian.Uint32(m)) == i:
						i++
					case !os.IsTimeout(err):
						errs <- fmt.Errorf("channel %d, message %d: %x, %v", n, i, m, err)
						return
					}
				}
			})
		}
		for i := range messages {
			for n := range channels {
				_, err := writer.Channel(n).Write(binary.BigEndian.AppendUint32(nil, uint32(i)))
				require.NoError(t, err)
			}
			if i%7 == 0 {
				time.Sleep(time.Duration(i%11) * time.Millisecond)
			}
		}
		ctx, cancel := contextFor(t, 30*time.Second)
		require.NoError(t, writer.Flush(ctx))
		cancel()
		wg.Wait()
		select {
		case err := <-errs:
			t.Fatal(err)
		default:
		}
	}
}

// TestAcksWithoutReader: who has read, and is away from Read, acknowledges what
// comes meanwhile.
func TestAcksWithoutReader(t *testing.T) {
	a, b := udpPair(t, nil)
	defer abort(a, b)
	for range 5 {
		for _, pair := range [][2]*Conn{{a, b}, {b, a}} {
			reader, writer := pair[0], pair[1]
			_, err := writer.Write([]byte("read me"))
			require.NoError(t, err)
			require.Equal(t, "read me", readString(t, reader))
			for range 100 {
				_, err := writer.Write([]byte("nobody reads this for a while"))
				require.NoError(t, err)
			}
			ctx, cancel := contextFor(t, 30*time.Second)
			require.NoError(t, writer.Flush(ctx))
			cancel()
			for range 100 {
				readString(t, reader)
			}
		}
	}
}
