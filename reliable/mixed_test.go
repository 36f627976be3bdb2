package reliable

import (
	"bytes"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// fragmentsOf returns a message of n fragments of the value p, and the fragments as
// those of packet id.
func fragmentsOf(t *testing.T, id uint64, n int, p byte) (msg []byte, fragments [][]byte) {
	t.Helper()
	from, err := newEndpoint(nil, testTime(0), nil)
	require.NoError(t, err)
	startAt(from, id)
	msg = bytes.Repeat([]byte{p}, n*defaultFragmentSize-7)
	var out Batch
	mustSend(t, from, testTime(0), msg, &out)
	for i := range out.Len() {
		fragments = append(fragments, bytes.Clone(out.At(i)))
	}
	require.Len(t, fragments, n)
	return msg, fragments
}

// Fragments of two messages may mix, however alike their headers are: the
// sequences here differ in the high byte alone, and beside that stands the number
// of the fragment, which is sometimes that byte of the other one.
func TestFragmentsMix(t *testing.T) {
	const n = 8
	for high := range uint64(n) {
		a, ofA := fragmentsOf(t, high<<8|5, n, 'a')
		b, ofB := fragmentsOf(t, 0x805, n, 'b')
		for split := range n {
			var got [][]byte
			to, err := newEndpoint(&Config{ReceivedBuffer: 4096, ReassemblyBuffer: 3000, JumpGuard: true}, testTime(0),
				HandlerFunc(func(_ uint16, payload []byte) bool {
					got = append(got, bytes.Clone(payload))
					return true
				}))
			require.NoError(t, err)
			mixed := slices.Concat(ofA[:split], ofB[split:split+1], ofA[split:], ofB[:split], ofB[split+1:])
			for i, fragment := range mixed {
				v := to.Receive(testTime(0), fragment)
				require.Contains(t, []Verdict{fragmentStored, Delivered}, v, "fragment %d of %d, split at %d", i, high, split)
			}
			require.ElementsMatch(t, [][]byte{a, b}, got, "%d, split at %d", high, split)
			require.Zero(t, to.Counters().FragmentsInvalid)
		}
	}
}

// A jump that was confirmed confirms no other one, although nothing was taken
// since, and an endpoint without AckDelay has nothing to acknowledge for it.
func TestJumpConfirmsOne(t *testing.T) {
	taking := true
	to, err := newEndpoint(&Config{JumpGuard: true}, testTime(0), HandlerFunc(func(uint16, []byte) bool { return taking }))
	require.NoError(t, err)
	now := testTime(0)
	receive := func(s uint16) Verdict {
		return to.Receive(now, append(AppendHeader(nil, Header{s, 65535, 0}), 'x'))
	}
	require.Equal(t, Delivered, receive(0))
	require.Equal(t, parked, receive(20000))
	taking = false
	require.Equal(t, Refused, receive(20001))
	now = testTime(11) // so that nothing is stale
	require.Equal(t, parked, receive(3), "a packet that comes alone")
	require.Equal(t, Refused, receive(4))
	require.Nil(t, to.acks.talk)
}
