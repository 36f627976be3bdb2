package netplay_test

import (
	"context"
	"io"
	"net"
	"runtime"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"volley/internal/testenv"
	"volley/netplay"
)

// TestAllocations counts what encoding and decoding allocate: nothing, and what
// the message itself is made of.
func TestAllocations(t *testing.T) {
	if testenv.Race {
		t.Skip("the race detector allocates")
	}
	want := map[string]float64{
		"chat":    2,                  // strings
		"friends": 1 + 3,              // the slice, strings
		"player":  1,                  // a string
		"nested":  2 + 1 + 30*(1+1+2), // slices and the map's name; 30 structs with a name and two structs each
	}
	reg := new(netplay.Registry)
	for i, m := range benchMessages {
		reg.MustAdd(i, m.message, netplay.Compress(1))
	}
	codec, err := netplay.NewCodec(reg, nil)
	require.NoError(t, err)
	for _, m := range benchMessages {
		buf := make([]byte, 0, 4096)
		require.Zero(t, testing.AllocsPerRun(100, func() {
			if _, err := netplay.Append(buf, m.message); err != nil {
				t.Error(err)
			}
			if _, err := codec.Append(buf, m.message); err != nil {
				t.Error(err)
			}
		}), "to encode %s", m.name)
		body, err := netplay.Marshal(m.message)
		require.NoError(t, err)
		into := m.empty()
		require.Equal(t, want[m.name], testing.AllocsPerRun(100, func() {
			if err := netplay.Unmarshal(body, into); err != nil {
				t.Error(err)
			}
		}), "to decode %s", m.name)
		require.Equal(t, m.message, into)

		frame, err := codec.Append(nil, m.message)
		require.NoError(t, err)
		f, _, err := netplay.ParseFrame(frame)
		require.NoError(t, err)
		// Package flate allocates tables for some streams.
		require.LessOrEqual(t, testing.AllocsPerRun(100, func() {
			if err := codec.Unmarshal(f, into); err != nil {
				t.Error(err)
			}
		}), want[m.name]+2, "to expand and decode %s", m.name)
	}
}

// TestConnAllocations counts what messages allocate that cross connections and
// a server: the received message and no more.
func TestConnAllocations(t *testing.T) {
	if testenv.Race {
		t.Skip("the race detector allocates")
	}
	x, y := newTCP(t)
	a, b := newConn(t, x, nil), newConn(t, y, nil)
	m := &blob{make([]byte, 100)}
	got := testing.AllocsPerRun(200, func() {
		if err := a.WriteMessage(context.Background(), m); err != nil {
			t.Error(err)
		}
		if _, err := b.ReadMessage(context.Background()); err != nil {
			t.Error(err)
		}
	})
	require.LessOrEqual(t, got, 2.0, "the message and its slice")
}

// TestBroadcastAllocations checks that a broadcast costs nothing a client.
func TestBroadcastAllocations(t *testing.T) {
	if testenv.Race {
		t.Skip("the race detector allocates")
	}
	const clients = 20
	srv := &netplay.Server{Registry: newRegistry()}
	ready := make(chan struct{}, clients)
	netplay.Handle(srv, func(*netplay.Conn, *empty) error { ready <- struct{}{}; return nil })
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	served := make(chan error, 1)
	go func() { served <- srv.Serve(ln) }()
	m := &blob{make([]byte, 100)}
	received := make(chan struct{}, clients)
	for range clients {
		c, err := netplay.Dial("tcp", ln.Addr().String(), newRegistry())
		require.NoError(t, err)
		require.NoError(t, c.WriteMessage(context.Background(), &empty{}))
		<-ready
		go func() {
			defer c.Close()
			buf := make([]byte, 100+7)
			for {
				if _, err := io.ReadFull(c.NetConn(), buf); err != nil {
					return
				}
				received <- struct{}{}
			}
		}()
	}
	got := testing.AllocsPerRun(200, func() {
		if err := srv.Broadcast(m); err != nil {
			t.Error(err)
		}
		for range clients {
			<-received
		}
	})
	require.Less(t, got, 1.0)
	require.NoError(t, srv.Shutdown(t.Context()))
	require.ErrorIs(t, <-served, netplay.ErrServerClosed)
}

// TestServerQueueMemory checks that what waits takes about the memory that it
// counts, although the buffers of large messages are used again meanwhile.
func TestServerQueueMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := &netplay.Server{Registry: newRegistry(), WriteTimeout: -1}
		ln := serve(t, srv)
		ln.join(t) // and reads nothing
		synctest.Wait()
		slow := srv.Conns()[0]
		fast := ln.join(t)
		synctest.Wait()
		large := &blob{make([]byte, 60_000)}
		const messages = 500
		before := liveHeap()
		for range messages {
			require.NoError(t, srv.Broadcast(large, slow))
			_, err := fast.ReadMessage(context.Background())
			require.NoError(t, err)
			synctest.Wait()
			require.NoError(t, slow.WriteMessage(context.Background(), &empty{}))
		}
		require.Equal(t, messages, slow.Stats().QueuedMessages)
		grown := liveHeap() - before
		require.Less(t, grown, int64(4<<20), "bytes for %d that wait", slow.Stats().QueuedBytes)
	})
}

// liveHeap returns the bytes that are in use, those of pools left out.
func liveHeap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
