package reliable

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

// fragmentsOf returns a message of 3000 bytes of the value p and the fragments in
// which it leaves as packet id.
func fragmentsOf(t *testing.T, id uint64, p byte) (msg []byte, fragments [][]byte) {
	t.Helper()
	from, err := New(nil, testTime(0), nil)
	require.NoError(t, err)
	startAt(from, id)
	msg = bytes.Repeat([]byte{p}, 3000)
	var out Batch
	mustSend(t, from, testTime(0), msg, &out)
	for i := range out.Len() {
		fragments = append(fragments, bytes.Clone(out.At(i)))
	}
	require.Len(t, fragments, 3)
	return msg, fragments
}

// Fragments of two messages may mix, however alike their headers are: those of
// packets 261 and 517 differ in the high byte of the sequence alone, and the number
// of a fragment stands beside that.
func TestFragmentsMix(t *testing.T) {
	a, ofA := fragmentsOf(t, 261, 'a')
	b, ofB := fragmentsOf(t, 517, 'b')
	for _, order := range []string{"a0 b1 a1 a2 b0 b2", "a0 b0 a1 b1 a2 b2", "b0 a1 b1 a2 b2 a0", "b0 b1 a2 b2 a1 a0"} {
		var got [][]byte
		to, err := New(&Config{ReceivedBuffer: 1024, ReassemblyBuffer: 1000, JumpGuard: true}, testTime(0),
			HandlerFunc(func(_ uint16, payload []byte) bool {
				got = append(got, bytes.Clone(payload))
				return true
			}))
		require.NoError(t, err)
		for i := 0; i < len(order); i += 3 {
			of := map[byte][][]byte{'a': ofA, 'b': ofB}[order[i]]
			v := to.Receive(testTime(0), of[order[i+1]-'0'])
			require.Contains(t, []Verdict{FragmentStored, Delivered}, v, "%s of %s", order[i:i+2], order)
		}
		require.ElementsMatch(t, [][]byte{a, b}, got, order)
		require.Zero(t, to.Counters().FragmentsInvalid)
	}
}

// A jump that was confirmed confirms no other one, although nothing was taken
// since, and an endpoint without AckDelay has nothing to acknowledge for it.
func TestJumpConfirmsOne(t *testing.T) {
	taking := true
	to, err := New(&Config{JumpGuard: true}, testTime(0), HandlerFunc(func(uint16, []byte) bool { return taking }))
	require.NoError(t, err)
	now := testTime(0)
	receive := func(s uint16) Verdict {
		return to.Receive(now, append(AppendHeader(nil, Header{s, 65535, 0}), 'x'))
	}
	require.Equal(t, Delivered, receive(0))
	require.Equal(t, Parked, receive(20000))
	taking = false
	require.Equal(t, Refused, receive(20001))
	now = testTime(11) // so that nothing is stale
	require.Equal(t, Parked, receive(3), "a packet that comes alone")
	require.Equal(t, Refused, receive(4))
	require.Nil(t, to.talk)
}
