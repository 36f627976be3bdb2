package datagram

import (
	"fmt"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"volley/internal/deadline"
	"volley/internal/wire"
)

// What a pipe promises.
func TestPipeIs(t *testing.T) {
	a, b := NewPipe(testAddr("a"), testAddr("b"))
	require.Equal(t, Features{Lossless: true, Waits: true}, a.Features())
	require.Equal(t, 65507, a.MaxDatagram())
	require.Equal(t, Stats{}, a.Stats())
	require.Equal(t, testAddr("a"), b.RemoteAddr())
	h := new(fakeHandler)
	require.NoError(t, b.Attach(h))
	var batch wire.Batch
	n, err := a.WriteBatchBy(&batch, deadline.Passed())
	require.NoError(t, err)
	require.Zero(t, n)
	batch.Append([]byte("one"))
	batch.Append([]byte("two"))
	n, err = a.WriteBatchBy(&batch, deadline.Passed())
	require.NoError(t, err)
	require.Equal(t, 2, n)
	require.Equal(t, 2, batch.Len(), "the batch is still the caller's")
	require.Equal(t, "one", string(batch.At(0)))
	require.Equal(t, []string{"one", "two"}, h.received())
	require.NoError(t, a.Close())
	n, err = a.WriteBatchBy(&batch, deadline.Passed())
	require.Equal(t, net.ErrClosed, err)
	require.Equal(t, 2, n)
	batch.Reset()
	require.NoError(t, a.WriteBatch(&batch), "nothing to send is no error")
}

// Attach says whether the Conn is closed, or has a Handler.
func TestPipeAttachErrors(t *testing.T) {
	a, b := NewPipe(testAddr("a"), testAddr("b"))
	require.NoError(t, a.Attach(new(fakeHandler)))
	err := a.Attach(new(fakeHandler))
	require.Error(t, err)
	require.NotErrorIs(t, err, net.ErrClosed)
	require.NoError(t, a.Close())
	require.Equal(t, net.ErrClosed, a.Attach(new(fakeHandler)))
	require.NoError(t, b.Close())
	require.Equal(t, net.ErrClosed, b.Attach(new(fakeHandler)))
}

// Before there is a Handler, what begins within the first 64 KiB is kept; the batches
// that it was written in stay what they are.
func TestPipeEarlyLimit(t *testing.T) {
	a, b := NewPipe(testAddr("a"), testAddr("b"))
	require.NoError(t, write(a, string(make([]byte, 64<<10-1)), "x", "lost"))
	require.NoError(t, write(a, "lost, too"))
	h := new(fakeHandler)
	require.NoError(t, b.Attach(h))
	require.Len(t, h.received(), 2)

	// While the Handler is busy there is no such limit: who writes waits for room.
	b.busy = true
	for i := range 100 {
		require.NoError(t, write(a, string(make([]byte, 1000+i))))
	}
	require.Equal(t, 100, b.queue.Len())
	b.busy = false
}

// While a Handler is given what came before it, what is written waits, and comes next.
func TestPipeEarlyIsFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := NewPipe(testAddr("a"), testAddr("b"))
		require.NoError(t, write(a, "early"))
		let := make(chan struct{})
		h := &fakeHandler{batch: func([][]byte, *wire.Batch) { <-let }}
		go b.Attach(h)
		synctest.Wait()
		go write(a, "later")
		synctest.Wait()
		require.Equal(t, []string{"early"}, h.received())
		let <- struct{}{}
		synctest.Wait()
		require.Equal(t, []string{"early", "later"}, h.received())
		let <- struct{}{}
		synctest.Wait()
		require.NoError(t, a.Close())
		require.NoError(t, b.Close())
	})
}

// The end comes behind all data, once, and not to who has closed. After Close no tick
// comes, and no data.
func TestPipeEndsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := NewPipe(testAddr("a"), testAddr("b"))
		ha, hb := new(fakeHandler), new(fakeHandler)
		require.NoError(t, a.Attach(ha))
		require.NoError(t, b.Attach(hb))
		a.Schedule(time.Now().Add(time.Second))
		for range 3 {
			require.NoError(t, a.Close())
		}
		require.NoError(t, write(b, "nobody hears it"))
		require.Equal(t, []error{io.EOF}, hb.ended())
		require.NoError(t, b.Close())
		require.NoError(t, b.Close())
		time.Sleep(time.Minute)
		require.Empty(t, ha.ended())
		require.Empty(t, ha.received())
		require.Empty(t, ha.ticked())
		require.Len(t, hb.ended(), 1)
	})
	// Both have closed while the one was busy: nobody is told.
	synctest.Test(t, func(t *testing.T) {
		a, b := NewPipe(testAddr("a"), testAddr("b"))
		let := make(chan struct{})
		h := &fakeHandler{batch: func([][]byte, *wire.Batch) { <-let }}
		require.NoError(t, b.Attach(h))
		go write(a, "x")
		synctest.Wait()
		require.NoError(t, write(a, "dropped"))
		require.NoError(t, a.Close())
		require.NoError(t, b.Close())
		close(let)
		synctest.Wait()
		require.Empty(t, h.ended())
		require.Equal(t, []string{"x"}, h.received())
	})
}

// Who waits for room of a side that closes, or whose Handler says so in any form, learns
// that the peer has closed.
func TestPipeRoomOfClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := NewPipe(testAddr("a"), testAddr("b"))
		says := fmt.Errorf("wrapped: %w", net.ErrClosed)
		let := make(chan struct{})
		h := &roomyHandler{wait: func(int, <-chan struct{}) error { return says }}
		h.batch = func([][]byte, *wire.Batch) { <-let }
		require.NoError(t, b.Attach(h))
		require.Equal(t, ErrPeerClosed, a.WaitWritable(1, nil))
		says = io.ErrNoProgress
		require.Equal(t, io.ErrNoProgress, a.WaitWritable(1, nil))
		go write(a, "x")
		synctest.Wait()
		waits := make(chan error, 2)
		for range cap(waits) {
			go func() { waits <- a.WaitWritable(1, nil) }()
		}
		synctest.Wait()
		require.NoError(t, b.Close())
		require.Equal(t, ErrPeerClosed, a.WaitWritable(1, nil), "at once: what is busy does not matter")
		close(let)
		require.Equal(t, ErrPeerClosed, <-waits)
		require.Equal(t, ErrPeerClosed, <-waits)
		require.NoError(t, a.Close())
	})
}
