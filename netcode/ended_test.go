package netcode

import (
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"volley/internal/datagram"
	"volley/internal/wire"
)

// An upperLayer notes what it is told.
type upperLayer struct {
	datagram.Handler
	got    []string
	closed []error
}

func (u *upperLayer) HandleBatch(_ time.Time, bufs [][]byte, _ *wire.Batch) {
	for _, b := range bufs {
		u.got = append(u.got, string(b))
	}
}

func (u *upperLayer) HandleClose(err error) { u.closed = append(u.closed, err) }

// After the peer's disconnect nothing is received any more, although packets that
// it has sent before may come late: the layer above has been told of the end.
func TestNothingBehindDisconnect(t *testing.T) {
	client, server := Pipe(1, nil)
	defer client.Close()
	defer server.Close()
	upper := new(upperLayer)
	server.upper = upper
	now := time.Now()
	var out wire.Batch
	s := &client.sess.send
	s.send(now, packetPayload, []byte("first"), &out)
	s.send(now, packetPayload, []byte("late"), &out)
	s.send(now, packetDisconnect, nil, &out)
	handle := func(i int) { (*handler)(server).HandleBatch(now, [][]byte{out.At(i)}, nil) }
	handle(0)
	handle(2)
	handle(1)
	require.Equal(t, []string{"first"}, upper.got)
	require.Equal(t, []error{io.EOF}, upper.closed)
	require.EqualValues(t, 1, server.Stats().MessagesReceived)
}
