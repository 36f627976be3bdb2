package recording_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"volley/capture"
	"volley/internal/recording"
	"volley/internal/replay"
)

const openedAdder = "\x01\x05" + `{"protocol":"adder","start":"2020-01-01T00:00:00Z","config":{}}`

// lacking returns the record of a call whose data claim a size, of which the first
// kept bytes are there.
func lacking(size, kept int) string {
	b := []byte("\x03\x05\x01\x00\x00")
	b = binary.AppendUvarint(b, uint64(size))
	b = recording.AppendBlob(b, make([]byte, kept))
	return string(append(b, 0))
}

// framesOf is frames with OmitPayload, or without.
func framesOf(omit bool, bodies ...string) []byte {
	h := recording.NewHeader(&recording.Config{OmitPayload: omit})
	b := recording.AppendStart(nil, &h)
	for _, body := range bodies {
		b = recording.AppendFrame(b, []byte(body))
	}
	return b
}

// Data may be left out where the header says so, and only in proportion to what is
// there.
func TestDataThatLack(t *testing.T) {
	for _, c := range []struct {
		omit       bool
		size, kept int
		ok         bool
	}{
		{false, 4, 4, true},
		{false, 5, 4, false},
		{true, 5, 4, true},
		{true, recording.Omitted, 0, true},
		{true, recording.Omitted + 1, 0, false},
		{true, recording.Omitted + 4, 4, true},
		{true, 1 << 20, 255, true},
		{true, 1 << 20, 240, false},
		{true, recording.MaxFrame, 0, false},
	} {
		_, err := replayAdders(framesOf(c.omit, openedAdder, lacking(c.size, c.kept)))
		if c.ok {
			require.NoError(t, err, c)
			continue
		}
		var fe *capture.FormatError
		require.ErrorAs(t, err, &fe, c)
		require.ErrorContains(t, err, fmt.Sprintf("a call that lacks %d bytes", c.size-c.kept))
	}
}

// A small file takes little memory, whatever it claims.
func TestReaderMemory(t *testing.T) {
	for _, omit := range []bool{false, true} {
		for _, size := range []int{recording.Omitted, recording.Omitted + 1, 16 << 20, recording.MaxFrame} {
			b := framesOf(omit, openedAdder, lacking(size, 0))
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			replayAdders(b)
			runtime.ReadMemStats(&after)
			require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(256<<10), "%d bytes, of which one record claims %d", len(b), size)
		}
	}
}

// Cores are given no more than in proportion to the file.
func TestReplayWork(t *testing.T) {
	for _, omit := range []bool{false, true} {
		for _, size := range []int{1, recording.Omitted, 1 << 20, 16 << 20} {
			bodies := []string{openedAdder}
			for range 1000 {
				bodies = append(bodies, lacking(size, 0))
			}
			b := framesOf(omit, bodies...)
			var w worker
			replay.Replay(bytes.NewReader(b), "adder", replay.MaxMemory, func(*recording.Connection) (replay.Core, error) { return &w, nil })
			require.LessOrEqual(t, int(w), 5120*len(b))
			if omit && size <= recording.Omitted {
				require.Equal(t, 1000*size, int(w))
			}
		}
	}
}

// A worker counts the bytes that it is given.
type worker int

func (w *worker) Call(r *recording.Record, out *recording.Outputs) error {
	*w += worker(len(r.Whole()))
	return nil
}

func (w *worker) Memory() int { return 0 }

// What is recorded without contents can be read, however large messages are.
func TestOmittedLarge(t *testing.T) {
	r := newRecorder(t, &recording.Config{OmitPayload: true})
	c := record(r, 0)
	sizes := []int{0, 1, recording.Omitted, recording.Omitted + 1, recording.Omitted + 2, 1 << 20, 1<<20 + 4096, 3<<20 + 1}
	for _, size := range sizes {
		c.receive(make([]byte, size))
	}
	require.Less(t, r.Stats().Bytes, int64(32<<10), "it stays small")
	b := contents(t, r)
	report, err := replayAdders(b)
	require.NoError(t, err)
	require.True(t, report.Same(), report)
	require.Equal(t, len(sizes), report.Connections[0].Received)
	reader, err := recording.NewReader(bytes.NewReader(b))
	require.NoError(t, err)
	_, err = reader.Next()
	require.NoError(t, err)
	for _, size := range sizes {
		record, err := reader.Next()
		require.NoError(t, err)
		require.Equal(t, size, record.Size)
		require.Len(t, record.Whole(), size)
	}
}

// Connections that have recorded large calls keep nothing of that.
func TestIdleMemory(t *testing.T) {
	const conns, limit = 400, 1 << 20
	for _, ring := range []bool{false, true} {
		before := heap()
		r := newRecorder(t, &recording.Config{MaxBytes: limit, Ring: ring})
		all := make([]*recorded, 0, conns)
		for range conns {
			c := record(r, 0)
			if c.s == nil {
				break
			}
			c.receive(make([]byte, 30<<10))
			all = append(all, c)
		}
		if ring {
			require.Len(t, all, conns)
		}
		held := heap() - before
		require.Less(t, held, limit+len(all)*1024+64<<10)
		runtime.KeepAlive(all)
	}
}

// heap returns the bytes that the process holds.
func heap() int {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // for what a sync.Pool still has
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// A ring holds no more than its limit, also when records of many sizes take turns.
func TestRingMemory(t *testing.T) {
	const limit = 1 << 20
	before := heap()
	r := newRecorder(t, &recording.Config{MaxBytes: limit, Ring: true})
	c := record(r, 0)
	for n := range 150 {
		c.receive(make([]byte, n%3*150<<10))
		if n%15 == 0 {
			require.Less(t, heap()-before, limit+32<<10)
		}
		if held, spare := r.Held(); spare > 0 {
			require.LessOrEqual(t, held+int64(spare), int64(limit))
		}
	}
	runtime.KeepAlive(r)
}

// A large call's buffers do not wait for the next one.
func TestLargeCall(t *testing.T) {
	r := newRecorder(t, nil)
	c := record(r, 0)
	c.receive(make([]byte, 1<<20))
	c.s.Begin(recording.Receive, c.at)
	body, data := c.s.Caps()
	require.Less(t, body, 4*recording.MaxKept)
	require.Less(t, data, 4*recording.MaxKept)
}
