package netcode

import (
	"testing"

	"github.com/stretchr/testify/require"

	"volley/internal/datagram"
	"volley/internal/deadline"
	"volley/internal/wire"
)

// TestStackedWriteAtOnce: who must not wait, as the reader of the layer above,
// still sends where nobody has to wait.
func TestStackedWriteAtOnce(t *testing.T) {
	a, b := Pipe(1, nil)
	defer a.Close()
	defer b.Close()
	var batch wire.Batch
	batch.Append([]byte("an acknowledgement"))
	n, err := datagram.Below(a).WriteBatchBy(&batch, deadline.Passed())
	require.NoError(t, err)
	require.Equal(t, 1, n)
	wantRead(t, b, "an acknowledgement")
}
