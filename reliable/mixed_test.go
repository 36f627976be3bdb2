package reliable

import (
	"bytes"
	"encoding/binary"
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

// Two packets may have the same sequence if the other side has started anew. Once a fragment
// differs from one with the same number, neither is put together. The reference would mix them.
func TestFragmentsOfTwoPackets(t *testing.T) {
	const n = 3
	msg, of := fragmentsOf(t, 5, n, 'a')
	_, other := fragmentsOf(t, 5, n, 'b')
	header := slices.Clone(of[0])
	header[FragmentHeaderSize+3] ^= 1 // its ack
	longer := append(slices.Clone(of[n-1]), 'a')
	empty := of[n-1][:FragmentHeaderSize]
	for name, test := range map[string]struct {
		datagrams [][]byte
		spoiled   int // the index of the datagram that shows it, or 0
		got       bool
	}{
		"the first":               {[][]byte{of[0], other[0], of[1], of[2]}, 1, false},
		"another one":             {[][]byte{of[0], other[1], of[1], of[2]}, 2, false},
		"out of order":            {[][]byte{of[2], other[1], of[1], of[0]}, 2, false},
		"out of order, the first": {[][]byte{of[2], of[0], other[0], of[1]}, 2, false},
		"the last":                {[][]byte{of[0], of[2], other[2], of[1]}, 2, false},
		"another header":          {[][]byte{of[0], header, of[1], of[2]}, 1, false},
		"another length":          {[][]byte{of[0], of[2], longer, of[1]}, 2, false},
		"an empty one":            {[][]byte{of[0], of[2], empty, of[1]}, 2, false},
		"first an empty one":      {[][]byte{of[0], empty, of[2], of[1]}, 2, false},
		"copies":                  {[][]byte{of[0], of[0], of[1], of[1], of[0], of[2], of[2]}, 0, true},
		"copies out of order":     {[][]byte{of[2], of[0], of[2], of[0], of[1]}, 0, true},
		"copies of an empty one":  {[][]byte{empty, of[0], empty, of[0], of[1]}, 0, true},
	} {
		for _, midStream := range []bool{true, false} {
			var got [][]byte
			to, err := newEndpoint(&Config{JumpGuard: true, MidStream: midStream}, testTime(0), HandlerFunc(func(_ uint16, b []byte) bool {
				got = append(got, slices.Clone(b))
				return true
			}))
			require.NoError(t, err)
			for i, d := range test.datagrams {
				v := to.Receive(testTime(0), d)
				require.Equal(t, midStream && test.spoiled > 0 && i >= test.spoiled, v == Invalid, "%s, datagram %d: %v", name, i, v)
			}
			if !midStream {
				require.Len(t, got, 1, name)
				continue
			}
			require.Equal(t, test.got, len(got) == 1, name)
			for _, d := range copied(6, of) { // in the buffer from before
				to.Receive(testTime(0), d)
			}
			require.Equal(t, msg, got[len(got)-1], "%s: the next", name)
		}
	}
}

// copied returns fragments as those of packet s.
func copied(s uint16, fragments [][]byte) (all [][]byte) {
	for _, f := range fragments {
		f = slices.Clone(f)
		binary.LittleEndian.PutUint16(f[1:], s)
		if f[3] == 0 {
			binary.LittleEndian.PutUint16(f[FragmentHeaderSize+1:], s)
		}
		all = append(all, f)
	}
	return all
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
