package netplay_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"volley/internal/testenv"
	"volley/netplay"
)

// newTCP returns the two ends of a TCP connection.
func newTCP(t testing.TB) (a, b net.Conn) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer ln.Close()
	a, err = net.Dial("tcp", ln.Addr().String())
	require.NoError(t, err)
	b = accept(t, ln)
	t.Cleanup(func() { a.Close(); b.Close() })
	return a, b
}

// fill makes data that tells frames apart.
func fill(b []byte, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 1))
	for len(b) >= 8 {
		binary.BigEndian.PutUint64(b, r.Uint64())
		b = b[8:]
	}
}

// TestFramesOfEveryLength has frames of each length that exists cross a TCP
// connection. A blob of n bytes makes a frame of n+7; those of 5 and 6 bytes,
// whose length fields hold 3 and 4, are made by hand.
func TestFramesOfEveryLength(t *testing.T) {
	if testing.Short() {
		t.Skip("2 GB")
	}
	x, y := newTCP(t)
	a, b := newConn(t, x, nil), newConn(t, y, nil)
	step := 1
	const limit = 65530
	if testenv.Race {
		step = 97
	}
	written := make(chan error, 1)
	go func() {
		data := make([]byte, limit)
		fill(data, 1)
		for n := 0; n <= limit; n += step {
			if err := a.WriteMessage(context.Background(), &blob{data[limit-n:]}); err != nil {
				written <- fmt.Errorf("%d bytes: %w", n, err)
				return
			}
		}
		written <- nil
	}()
	data := make([]byte, limit)
	fill(data, 1)
	for n := 0; n <= limit; n += step {
		m := read(t, b).(*blob)
		if !bytes.Equal(data[limit-n:], m.Data) {
			t.Fatalf("%d bytes arrived as %d, or changed", n, len(m.Data))
		}
	}
	require.NoError(t, <-written)
	x, y = newTCP(t)
	b = newConn(t, y, nil)
	for n := range 2 {
		frame, err := netplay.AppendFrame(nil, netplay.Frame{Type: typeEmpty, Payload: make([]byte, n)})
		require.NoError(t, err)
		_, err = x.Write(frame)
		require.NoError(t, err)
		require.Equal(t, &empty{}, read(t, b))
	}
}

// TestFramesCut writes frames of lengths around every boundary in two parts, cut
// at every byte, of the longest at every 499th; TestFramesCutAnywhere leaves
// none out.
func TestFramesCut(t *testing.T) {
	for _, n := range []int{5, 6, 7, 8, 1023, 1024, 1025, 1026, 2048, 2049, 65536, 65537} {
		for _, compressed := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d compressed=%v", n, compressed), func(t *testing.T) {
				testCuts(t, n, compressed)
			})
		}
	}
}

func testCuts(t *testing.T, n int, compressed bool) {
	frame, want := frameOf(t, n, compressed)
	x, y := newTCP(t)
	b := newConn(t, y, nil)
	step := 1
	switch {
	case len(frame) > 5000 && (testenv.Race || testing.Short()):
		step = 4999
	case len(frame) > 5000:
		step = 499
	case len(frame) > 500 && (testenv.Race || testing.Short()):
		step = 37
	}
	next := make(chan struct{}, 1)
	var writer sync.WaitGroup
	defer writer.Wait()
	writer.Go(func() {
		for cut := 0; cut <= len(frame); cut += step {
			x.Write(frame[:cut])
			x.Write(frame[cut:])
			<-next // so that the reader waits in the middle of a frame, as a rule
		}
	})
	for cut := 0; cut <= len(frame); cut += step {
		m := read(t, b)
		if want == nil {
			require.Equal(t, &empty{}, m)
		} else if got := m.(*blob); !bytes.Equal(want, got.Data) {
			t.Errorf("cut at %d: other data", cut)
		}
		next <- struct{}{}
	}
}

// frameOf returns a frame of n bytes and the data in it.
func frameOf(t *testing.T, n int, compressed bool) (frame, data []byte) {
	if n < 7 {
		frame, err := netplay.AppendFrame(nil, netplay.Frame{Type: typeEmpty, Payload: make([]byte, n-5)})
		require.NoError(t, err)
		return frame, nil
	}
	if !compressed {
		data = make([]byte, n-7)
		fill(data, uint64(n))
	} else {
		data = compressible(t, n)
	}
	codec, err := netplay.NewCodec(newRegistry(netplay.Compress(1)), nil)
	require.NoError(t, err)
	frame, err = codec.Append(nil, &blob{data})
	require.NoError(t, err)
	if !compressed || n < 100 {
		require.Len(t, frame, n)
	} else {
		require.Equal(t, netplay.Compressed, uint8(frame[2]))
		require.InDelta(t, n, len(frame), 300)
	}
	return frame, data
}

// compressible returns data of which the compressed frame has about n bytes:
// noise, and zeros that take next to nothing.
func compressible(t *testing.T, n int) []byte {
	if n < 100 {
		return make([]byte, n-7)
	}
	noise := min(n-60, 65300)
	data := make([]byte, min(65535, noise+500))
	fill(data[:noise], uint64(n))
	return data
}

// TestServerOverTCP has clients with and without appetite: who reads gets
// everything, and what waits for the others stays within the bound until they
// end as the policy says.
func TestServerOverTCP(t *testing.T) {
	const clients, slow, buffer = 40, 8, 256 << 10
	ended := make(chan error, clients)
	srv := &netplay.Server{
		Registry:     newRegistry(),
		SendBuffer:   buffer,
		WriteTimeout: -1, // it is the queue that fills, however long that takes
		OnDisconnect: func(_ *netplay.Conn, err error) { ended <- err },
	}
	joined := make(chan struct{}, clients)
	netplay.Handle(srv, func(c *netplay.Conn, m *empty) error { joined <- struct{}{}; return nil })
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	served := make(chan error, 1)
	go func() { served <- srv.Serve(ln) }()

	received := make(chan int, 2*clients)
	var conns []*netplay.Conn
	for i := range clients {
		c, err := netplay.Dial("tcp", ln.Addr().String(), newRegistry())
		require.NoError(t, err)
		conns = append(conns, c)
		require.NoError(t, c.WriteMessage(context.Background(), &empty{}))
		if i < slow {
			continue
		}
		go func() {
			defer func() { received <- -1 }() // after Shutdown
			for n := 0; ; n++ {
				if _, err := c.ReadMessage(context.Background()); err != nil {
					return
				}
				received <- n
			}
		}()
	}
	for range clients {
		<-joined
	}
	// The system's own buffers take some megabytes before a queue fills.
	message := &blob{make([]byte, 60<<10)}
	rounds := 0
	for ; int(srv.Stats().Slow) < slow; rounds++ {
		require.NoError(t, srv.Broadcast(message))
		for range clients - slow {
			require.Equal(t, rounds, <-received, "everybody gets this one before the next is sent")
		}
		require.LessOrEqual(t, srv.Stats().Queued, slow*buffer+(clients-slow)*buffer)
	}
	for range slow {
		require.ErrorIs(t, <-ended, netplay.ErrSlowReader)
	}
	require.Len(t, srv.Conns(), clients-slow)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	require.NoError(t, srv.Broadcast(&empty{}))
	shut := make(chan error, 1)
	go func() { shut <- srv.Shutdown(ctx) }()
	last := 0
	for range 2 * (clients - slow) {
		if <-received == rounds {
			last++
		}
	}
	require.Equal(t, clients-slow, last, "also after Shutdown")
	for _, c := range conns {
		c.Close()
	}
	require.NoError(t, <-shut)
	require.ErrorIs(t, <-served, netplay.ErrServerClosed)
}
