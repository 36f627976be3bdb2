package main

import (
	"errors"
	"io/fs"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"volley/simnet"
)

// What opens a connection in real time opens one that carries messages over the
// link, and counts what has left.
func TestConnect(t *testing.T) {
	link := path{delay: time.Millisecond}.link()
	for _, p := range peers {
		if p.virtual {
			continue
		}
		t.Run(p.name, func(t *testing.T) {
			n := simnet.New(1)
			defer n.Close()
			n.SetDefault(link)
			c, err := p.connect(n, 1, link)
			if errors.Is(err, errors.ErrUnsupported) || errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist) {
				t.Skip(err)
			}
			require.NoError(t, err)
			defer c.close()
			before := c.sent()
			for _, size := range []int{1, streamSize, bulkSize} {
				msg := make([]byte, size)
				msg[size-1] = 7
				_, err = c.from.Write(msg)
				require.NoError(t, err)
				b, err := c.at.ReadMessage(make([]byte, bulkSize))
				require.NoError(t, err)
				require.Equal(t, msg, b)
			}
			require.Greater(t, c.sent()-before, uint64(bulkSize+streamSize))
		})
	}
}

// A full packet of TCP takes as long and as much room on the link that carries
// it as it would by itself.
func TestCarrying(t *testing.T) {
	link := path{}.link()
	carrier := carrying(link)
	require.InEpsilon(t, float64(tunMTU)/float64(link.Bandwidth), float64(tunMTU+headers)/float64(carrier.Bandwidth), 1e-6)
	require.InEpsilon(t, float64(link.QueueBytes)/tunMTU, float64(carrier.QueueBytes)/(tunMTU+headers), 1e-4)
}
