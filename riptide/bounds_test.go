package riptide

import (
	"bytes"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"volley/internal/tape"
)

func TestReasonNames(t *testing.T) {
	for r, want := range map[Reason]string{
		0: "unknown reason", NoAnswer: "no answer", AlreadyConnected: "already connected", ServerFull: "server full", Rejected: "rejected",
		TransportError: "transport error", TimedOut: "timed out", Kicked: "kicked", ServerStopped: "server stopped",
		Disconnected: "disconnected", PoorConnection: "poor connection", 200: "Reason(200)",
	} {
		require.Equal(t, want, r.String())
	}
}

// Numbers of the wire become reasons; unknown numbers become 0.
func TestReasonsOfEnds(t *testing.T) {
	for e, want := range map[*end]Reason{
		{reason: endUnconnected}:                    NoAnswer,
		{reason: endTimeout}:                        TimedOut,
		{reason: endPoor}:                           PoorConnection,
		{reason: endPoor + 1}:                       0,
		{reason: 255}:                               0,
		{reason: endRejected, rejected: 1}:          AlreadyConnected,
		{reason: endRejected, rejected: rejectFull}: ServerFull,
		{reason: endRejected, rejected: rejectData}: Rejected,
		{reason: endRejected, rejected: 5}:          0,
		{reason: endRejected, rejected: 200}:        0,
	} {
		require.Equal(t, want, e.why(), "%+v", *e)
	}
}

// A Message is used again and again: the memory that it has is enough for what is
// not longer.
func TestMessageUsedAgain(t *testing.T) {
	var m Message
	m.load(packed, Unreliable, make([]byte, 64-slack))
	first := &m.buf[0]
	for n := range 64 - slack + 1 {
		body := make([]byte, n)
		for i := range body {
			body[i] = 0xff
		}
		m.load(packed, Unreliable, body)
		require.Same(t, first, &m.buf[0], "%d bytes", n)
	}
}

// An acknowledgement of an id that is not newer moves nothing, whatever it adds.
func TestAckRecordOfOlder(t *testing.T) {
	r := ackRecord{newest: 100}
	for _, newest := range []uint16{100, 99, 70, 69, 68, 0, 65436} {
		news, moved := r.update(ack{newest: newest, bits: 0xffff})
		require.Zero(t, news)
		require.False(t, moved, "%d after 100", newest)
		require.EqualValues(t, 100, r.newest)
	}
	news, moved := r.update(ack{newest: 101, bits: 1})
	require.True(t, moved)
	require.Zero(t, news, "which was known")
}

// Round-trip times are told in milliseconds, of which there are 32767 at most.
func TestToMillis(t *testing.T) {
	for d, want := range map[time.Duration]int16{
		-time.Second: 0, 0: 0, 1999 * time.Microsecond: 1, 32767 * time.Millisecond: 32767,
		32768 * time.Millisecond: 32767, 65535 * time.Millisecond: 32767, time.Hour: 32767,
	} {
		require.Equal(t, want, toMillis(d), "%v", d)
	}
}

// What acknowledgements take at most is their mean and four times what they vary
// by, or an eighth beyond the worst one.
func TestAckTimeLimit(t *testing.T) {
	require.EqualValues(t, 140, (&ackTime{smooth: 100, variance: 10, worst: 80}).limit())
	require.EqualValues(t, 180, (&ackTime{smooth: 100, variance: 10, worst: 160}).limit())
}

// What acknowledgements mostly take is a quarter more than their mean, or more where
// they vary by more.
func TestAckTimeSoon(t *testing.T) {
	require.Zero(t, (&ackTime{}).soon())
	require.EqualValues(t, 125, (&ackTime{smooth: 100, variance: 6}).soon())
	require.EqualValues(t, 128, (&ackTime{smooth: 100, variance: 7}).soon())
}

// Each counter of a Server is the sum of those of its connections.
func TestStatsPlus(t *testing.T) {
	numbered := func(step uint64) (s Stats) {
		n := uint64(0)
		var fill func(v reflect.Value)
		fill = func(v reflect.Value) {
			switch v.Kind() {
			case reflect.Struct:
				for i := range v.NumField() {
					fill(v.Field(i))
				}
			case reflect.Array:
				for i := range v.Len() {
					fill(v.Index(i))
				}
			case reflect.Uint64:
				n++
				v.SetUint(n * step)
			}
		}
		fill(reflect.ValueOf(&s).Elem())
		require.EqualValues(t, 2*2*numModes+10, n, "counters")
		return s
	}
	sum, other := numbered(10), numbered(1)
	sum.plus(&other)
	require.Equal(t, numbered(11), sum)
}

// Bits take as many as there are, and in the notes layout whole bytes.
func TestBitsTake(t *testing.T) {
	for n := 1; n <= 64; n++ {
		for layout, want := range map[layout]int{packed: n, notes: (n + 7) / 8 * 8} {
			m := (&Config{NotesLayout: layout == notes, MaxPayload: 100}).NewMessage(Unreliable, 1)
			before := m.end
			m.AddBits(1, n)
			require.Equal(t, want, m.end-before, "%d bits", n)
			reserveBits(m, n)
			require.Equal(t, 2*want, m.end-before, "%d bits", n)
			require.EqualValues(t, 1, m.ReadBits(n))
			require.Equal(t, want, m.pos-before)
		}
	}
}

// memory is what a queue holds, in bytes.
func (q *queue) memory() (n int) {
	for _, p := range q.pieces {
		n += cap(p)
	}
	return n
}

// bytes is what the messages in a queue take with their headers.
func (q *queue) bytes() int {
	n := -q.start
	for _, p := range q.pieces {
		n += len(p)
	}
	return n
}

// However many messages wait one after the other, and however long they are, a queue
// that is never empty uses the same memory again.
func TestQueueTakesNoMoreRoom(t *testing.T) {
	for _, size := range []int{0, 10, 1000} {
		var q queue
		in, out, room := 0, 0, 0
		push := func() {
			q.push(typeReliable, bytes.Repeat([]byte{byte(in)}, size+in%7))
			in++
		}
		for range 10 {
			push()
		}
		for i := range 500 {
			push()
			kind, body := q.pop()
			require.Equal(t, typeReliable, kind)
			require.True(t, bytes.Equal(bytes.Repeat([]byte{byte(out)}, size+out%7), body), "message %d", out)
			out++
			require.Equal(t, 10, q.len())
			if i == 100 {
				room = q.memory()
			}
		}
		require.Equal(t, room, q.memory(), "messages of %d bytes", size)
		require.LessOrEqual(t, room, 64+4*11*(queueHeader+size+6))
	}
}

// A queue never holds much more memory than its messages are charged, while it grows and
// while it empties. Large messages take at most twice their size. All come out as they went in.
func TestQueueMemory(t *testing.T) {
	const most = 1225
	for _, large := range []int{0, 40_000, maxMaxPayload} {
		r := rand.New(rand.NewPCG(1, uint64(large)))
		text := make([]byte, maxMaxPayload+256)
		for i := range text {
			text[i] = byte(r.Uint32())
		}
		var q queue
		var sizes []int
		first, charged := 0, 0
		body := func(i int) []byte { return text[i%256:][:sizes[i]] }
		for step := range 6000 {
			grows := step/1000%2 == 0 // and then it empties
			if q.len() == 0 || r.Float64() < 0.05+0.9*float64(tape.Truth(grows)) {
				size := r.IntN(most)
				if large > 0 && r.IntN(10) == 0 {
					size = r.IntN(large)
				}
				sizes = append(sizes, size)
				charged += size + messageCost
				q.push(typeReliable, body(len(sizes)-1))
			} else {
				kind, b := q.pop()
				require.Equal(t, typeReliable, kind)
				require.True(t, bytes.Equal(body(first), b), "message %d", first)
				charged -= len(b) + messageCost
				first++
			}
			require.Equal(t, len(sizes)-first, q.len())
			require.Equal(t, charged-q.len()*(messageCost-queueHeader), q.bytes())
			limit := charged + 2*pieceSize
			if large > 0 {
				limit = 2*charged + 2*max(pieceSize, large)
			}
			require.LessOrEqual(t, q.memory(), limit, "%d messages of %d bytes wait", q.len(), charged)
		}
	}
}
