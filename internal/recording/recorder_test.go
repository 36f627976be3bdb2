package recording_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"volley/capture"
	"volley/internal/recording"
	"volley/internal/replay"
	"volley/internal/testenv"
)

// An adder is a core for tests: it answers each datagram by one with the sum of
// all bytes so far, and by the message itself.
type adder struct {
	Start int
	sum   int
}

func (a *adder) answer(b []byte) []byte {
	for _, x := range b {
		a.sum += int(x)
	}
	return fmt.Appendf(nil, "sum:%d", a.sum)
}

func (a *adder) Call(r *recording.Record, out *recording.Outputs) error {
	switch r.Kind {
	case recording.Receive:
		b := r.Whole()
		out.Datagram(a.answer(b), 4)
		out.Delivered(uint64(r.Size), b)
		ok, _ := r.Answer()
		v, _ := r.Arg()
		if ok {
			out.Result(v)
		}
	case recording.Close:
		out.Fate(7, 1, time.Second)
		out.Asked(9)
	default:
		return errors.New("no such call")
	}
	return nil
}

// Memory is a hundred bytes.
func (a *adder) Memory() int { return 100 }

// A recorded is an adder that is recorded.
type recorded struct {
	adder
	s  *recording.Stream
	at time.Duration
}

var epoch = time.Date(2020, 2, 20, 20, 20, 20, 20, time.UTC)

func record(r *recording.Recorder, start int) *recorded {
	j, _ := json.Marshal(adder{Start: start})
	c := &recorded{adder: adder{sum: start}}
	c.s = r.Open(recording.Connection{Protocol: "adder", Local: "192.0.2.1:1", Remote: "192.0.2.2:2", Start: epoch, Config: j})
	return c
}

func (c *recorded) receive(b []byte) {
	c.at += time.Millisecond
	c.s.Begin(recording.Receive, c.at)
	c.s.Arg(-5)
	c.s.Data(b, 1)
	answer := c.answer(b)
	if out := c.s.Outputs(); out != nil {
		out.Datagram(answer, 4)
		out.Delivered(uint64(len(b)), b)
		c.s.Answer(true)
		out.Result(-5)
	}
	c.s.End()
}

func (c *recorded) close() {
	c.s.Begin(recording.Close, c.at)
	if out := c.s.Outputs(); out != nil {
		out.Fate(7, 1, time.Second)
		out.Asked(9)
	}
	c.s.End()
	c.s.Close()
}

func replayAdders(b []byte) (*capture.Report, error) { return replayWith(b, replay.MaxMemory) }

func replayWith(b []byte, memory int) (*capture.Report, error) {
	return replay.Replay(bytes.NewReader(b), "adder", memory, func(info *recording.Connection) (replay.Core, error) {
		a := new(adder)
		err := json.Unmarshal(info.Config, a)
		a.sum = a.Start
		return a, err
	})
}

func newRecorder(t testing.TB, cfg *recording.Config) *recording.Recorder {
	t.Helper()
	if cfg == nil {
		cfg = new(recording.Config)
	}
	return recording.NewRecorder(*cfg)
}

func contents(t testing.TB, r *recording.Recorder) []byte {
	t.Helper()
	var b bytes.Buffer
	n, err := r.WriteTo(&b)
	require.NoError(t, err)
	require.EqualValues(t, b.Len(), n)
	require.EqualValues(t, b.Len(), r.Stats().Bytes)
	return b.Bytes()
}

func TestRecordAndReplay(t *testing.T) {
	for _, omit := range []bool{false, true} {
		r := newRecorder(t, &recording.Config{OmitPayload: omit})
		require.Equal(t, omit, r.Omitted())
		x, y := record(r, 0), record(r, 1000)
		secret := []byte("\x00secret")
		if omit {
			secret = make([]byte, 7) // what an adder would look into is zero in the replay
		}
		for range 3 {
			x.receive(secret)
			y.receive(nil)
		}
		x.close()
		y.receive([]byte{0})
		b := contents(t, r)
		report, err := replayAdders(b)
		require.NoError(t, err)
		require.True(t, report.Same(), report)
		require.Len(t, report.Connections, 2)
		c := report.Connections[0]
		require.Equal(t, []int{4, 3, 3, 3}, []int{c.Calls, c.Messages, c.Sent, c.Received})
		require.Equal(t, 3*time.Millisecond, c.Elapsed)
		require.Equal(t, c.Recorded, c.Digest)
		require.NotZero(t, c.Digest)
		require.NotEqual(t, report.Connections[1].Digest, c.Digest)
		require.True(t, c.Start.Equal(epoch))
		require.Equal(t, &capture.End{}, report.End)
		require.Equal(t, omit, report.Header.Omitted)
		require.Equal(t, !omit, bytes.Contains(b, []byte("secret")))
		require.NotEmpty(t, report.Header.Library)

		s := r.Stats()
		s.Bytes = 0
		require.Equal(t, recording.Stats{Calls: 8, Connections: 2}, s)
	}
}

func TestOthersAreCounted(t *testing.T) {
	r := newRecorder(t, nil)
	record(r, 0).receive(nil)
	report, err := replay.Replay(bytes.NewReader(contents(t, r)), "other", replay.MaxMemory, nil)
	require.NoError(t, err)
	require.Equal(t, 1, report.Others)
	require.False(t, report.Same(), "there was nothing to replay")
}

// The limit of memory is for the cores that there are: those of connections that
// have ended, or diverged, or cannot be replayed are not.
func TestReplayMemory(t *testing.T) {
	r := newRecorder(t, nil)
	for i := range 10 {
		record(r, 0).close()
		c := record(r, 0)
		c.receive([]byte{1})
		c.sum++
		c.receive([]byte{1})
		if i == 5 {
			record(r, 0)
		}
	}
	b := contents(t, r)
	_, err := replayWith(b, 200)
	require.NoError(t, err)
	report, err := replayWith(b, 199)
	var fe *capture.FormatError
	require.ErrorAs(t, err, &fe)
	require.ErrorContains(t, err, "more memory is needed than replays may take")
	require.Len(t, report.Connections, 14)

	r = newRecorder(t, &recording.Config{MaxBytes: recording.MinBytes, Ring: true})
	for range 2 {
		c := record(r, 0)
		c.receive(nil)
		c.receive(make([]byte, 2*recording.MinBytes))
		c.receive(nil)
	}
	report, err = replayWith(contents(t, r), 100)
	require.NoError(t, err)
	require.True(t, report.Connections[1].Incomplete)
}

// Data that were left out are zeros, also after others that were not.
func TestWhole(t *testing.T) {
	var w recording.Whole
	for _, size := range []int{5, 3, 0, 9, 4} {
		b := w.Of([]byte("abcd")[:min(size, 2)], size)
		require.Equal(t, append([]byte("abcd")[:min(size, 2):min(size, 2)], make([]byte, size-min(size, 2))...), b)
	}
	big := w.Of(nil, recording.MaxFrame)
	require.Same(t, &big[0], &w.Of([]byte{1}, recording.MaxFrame)[0], "they are made once")
}

// The first answer that differs is told.
func TestDivergence(t *testing.T) {
	r := newRecorder(t, nil)
	c := record(r, 0)
	c.receive([]byte{1})
	c.sum++ // which no replay knows
	c.receive([]byte{1})
	c.receive([]byte{1})
	report, err := replayAdders(contents(t, r))
	require.NoError(t, err)
	require.False(t, report.Same())
	d := report.Connections[0].Divergence
	require.NotNil(t, d)
	require.Equal(t, []any{2, 2 * time.Millisecond, "receive"}, []any{d.Call, d.At, d.Kind})
	require.Contains(t, d.Recorded, "output 1: sends 5 bytes: 73756d3a33")
	require.Contains(t, d.Replayed, "73756d3a32 (byte 4: 0x32, was 0x33)")
	require.Equal(t, 3, report.Connections[0].Calls)
	require.NotEqual(t, report.Connections[0].Recorded, report.Connections[0].Digest)
	require.Contains(t, report.String(), "diverges at call 2 (receive)")

	var a, b recording.Outputs
	a.Result(1)
	a.Result(2)
	b.Result(1)
	was, is := recording.Difference(a.Bytes(), b.Bytes())
	require.Equal(t, [2]string{"output 2: returns 2", "nothing more"}, [2]string{was, is})
	was, is = recording.Difference(b.Bytes(), a.Bytes())
	require.Equal(t, [2]string{"output 2: nothing more", "returns 2"}, [2]string{was, is})
}

// Without a ring the beginning stays, up to the limit and no byte more.
func TestLimit(t *testing.T) {
	for _, limit := range []int64{recording.MinBytes, 100_001, 1 << 20, 16 << 20} {
		for _, size := range []int{0, 100, 1500, 20_000} {
			r := newRecorder(t, &recording.Config{MaxBytes: limit})
			if limit == 16<<20 { // the default
				if size < 20_000 {
					continue
				}
				r = newRecorder(t, &recording.Config{})
			}
			c := record(r, 0)
			for n := 0; n < 1<<20 && r.Err() == nil; n++ {
				c.receive(make([]byte, size))
				require.LessOrEqual(t, r.Stats().Bytes, limit)
			}
			require.Equal(t, recording.ErrLimit, r.Err())
			before := r.Stats()
			require.Greater(t, before.Bytes, limit*3/5, "size %d", size)
			c.receive(nil)
			c.close()
			require.Nil(t, r.Open(recording.Connection{}))
			require.Equal(t, before.Dropped+2, r.Stats().Dropped)
			report, err := replayAdders(contents(t, r))
			require.NoError(t, err)
			require.True(t, report.Same(), report)
			require.Equal(t, &capture.End{Dropped: 3, Limit: true}, report.End)
			require.EqualValues(t, before.Calls, report.Connections[0].Calls)
		}
	}
}

// A connection that found no room is none of those recorded.
func TestLimitOfConnections(t *testing.T) {
	r := newRecorder(t, &recording.Config{MaxBytes: recording.MinBytes})
	for r.Err() == nil {
		record(r, 0)
	}
	report, err := replayAdders(contents(t, r))
	require.NoError(t, err)
	require.EqualValues(t, len(report.Connections), r.Stats().Connections)
}

// A ring keeps the newest, within the limit. Who began in it can be replayed,
// others are told as incomplete.
func TestRing(t *testing.T) {
	const limit = 100_000
	r := newRecorder(t, &recording.Config{MaxBytes: limit, Ring: true})
	old := record(r, 0)
	for n := range 20_000 {
		old.receive([]byte{byte(n), byte(n >> 8)})
		if n%100 == 0 {
			require.LessOrEqual(t, r.Stats().Bytes, int64(limit))
		}
	}
	young := record(r, 1)
	for n := range 200 {
		old.receive([]byte{byte(n), 0xaa})
		young.receive([]byte{byte(n), 0xbb})
	}
	require.NoError(t, r.Err())
	b := contents(t, r)
	require.LessOrEqual(t, len(b), limit)
	require.Greater(t, len(b), limit/2)
	require.Positive(t, r.Stats().Forgotten)
	report, err := replayAdders(b)
	require.NoError(t, err)
	require.Len(t, report.Connections, 2)
	require.True(t, report.Connections[0].Incomplete)
	require.Equal(t, 20_200, report.Connections[0].Calls, "calls are counted from the beginning")
	require.Equal(t, 20_200*time.Millisecond, report.Connections[0].Elapsed)
	require.True(t, report.Connections[1].Same())
	require.Equal(t, 200, report.Connections[1].Calls)
	require.False(t, report.Same())
	require.Contains(t, report.String(), "not replayed")

	// All the newest calls are there, in order, and each follows the one before.
	c, err := recording.NewReader(bytes.NewReader(b))
	require.NoError(t, err)
	var times []time.Duration
	for {
		record, err := c.Next()
		if err == io.EOF {
			break
		}
		require.NoError(t, err)
		if record.Kind == recording.Receive && record.Conn.ID == 1 {
			times = append(times, record.At)
		}
	}
	for i, at := range times {
		require.Equal(t, old.at-time.Duration(len(times)-1-i)*time.Millisecond, at)
	}
}

// A record that a ring has no room for is missing, and that shows.
func TestRingTooLarge(t *testing.T) {
	r := newRecorder(t, &recording.Config{MaxBytes: recording.MinBytes, Ring: true})
	c, d := record(r, 0), record(r, 0)
	c.receive([]byte{1})
	c.receive(make([]byte, 2*recording.MinBytes))
	c.receive([]byte{2})
	d.receive([]byte{2})
	require.EqualValues(t, 1, r.Stats().Dropped)
	report, err := replayAdders(contents(t, r))
	require.NoError(t, err)
	require.True(t, report.Connections[0].Incomplete)
	require.True(t, report.Connections[1].Same(), report)
}

// A ring forgets all that WriteTo is writing, and does not use it for what is new.
func TestWriteToWhileForgetting(t *testing.T) {
	r := newRecorder(t, &recording.Config{MaxBytes: recording.MinBytes, Ring: true})
	c := record(r, 0)
	c.receive([]byte("first"))
	var b bytes.Buffer
	n, err := r.WriteTo(writerFunc(func(p []byte) (int, error) {
		for range 2000 {
			c.receive([]byte("later"))
		}
		return b.Write(p)
	}))
	require.NoError(t, err)
	require.EqualValues(t, b.Len(), n)
	require.Greater(t, r.Stats().Forgotten, int64(recording.MinBytes))
	report, err := replayAdders(b.Bytes())
	require.NoError(t, err)
	require.True(t, report.Same(), report)
	require.Equal(t, 1, report.Connections[0].Calls)
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

// WriteTo may go on while others record, and while a ring forgets.
func TestWriteToWhileRecording(t *testing.T) {
	for _, ring := range []bool{false, true} {
		r := newRecorder(t, &recording.Config{MaxBytes: 200_000, Ring: ring})
		var wg sync.WaitGroup
		for i := range 3 {
			wg.Go(func() {
				var c *recorded
				for n := range 3000 {
					if n%1000 == 0 {
						if c != nil {
							c.close()
						}
						if c = record(r, i); c.s == nil {
							return
						}
					}
					c.receive(bytes.Repeat([]byte{byte(n)}, n%50))
				}
			})
		}
		for range 20 {
			var file bytes.Buffer
			_, err := r.WriteTo(&file)
			require.NoError(t, err)
			b := file.Bytes()
			require.LessOrEqual(t, len(b), 200_000)
			report, err := replayAdders(b)
			require.NoError(t, err)
			for _, c := range report.Connections {
				require.True(t, c.Same() || ring && c.Incomplete, report)
			}
		}
		wg.Wait()
	}
}

// A connection without a Recorder is not recorded.
func TestNoRecorder(t *testing.T) {
	require.Nil(t, (*recording.Recorder)(nil).Open(recording.Connection{}))
	require.False(t, (*recording.Recorder)(nil).Omitted())
	require.Nil(t, (*recording.Stream)(nil).Outputs())
}

// A lock makes a buffer safe for the goroutine of a sink.
type locked struct {
	mu   sync.Mutex
	b    bytes.Buffer
	room int // bytes until the disk is full
	gate chan struct{}
}

var errFull = errors.New("no space left on device")

func (l *locked) Write(b []byte) (int, error) {
	if l.gate != nil {
		<-l.gate
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(b) > l.room {
		n, _ := l.b.Write(b[:l.room])
		return n, errFull
	}
	l.room -= len(b)
	return l.b.Write(b)
}

func TestOutput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := &locked{room: 1 << 30}
		r := newRecorder(t, &recording.Config{Output: disk, MaxBytes: 1 << 30})
		c := record(r, 0)
		for range 1000 {
			c.receive([]byte{1})
		}
		synctest.Wait() // what was recorded is written without recording.Close
		report, err := replayAdders(disk.b.Bytes())
		require.NoError(t, err)
		require.True(t, report.Same())
		require.Nil(t, report.End, "the program may die now")
		require.Equal(t, 1000, report.Connections[0].Calls)
		_, err = r.WriteTo(io.Discard)
		require.Error(t, err)
		c.close()
		require.NoError(t, r.Close())
		require.NoError(t, r.Close())
		require.Equal(t, net.ErrClosed, r.Err())
		require.EqualValues(t, disk.b.Len(), r.Stats().Bytes)
		report, err = replayAdders(disk.b.Bytes())
		require.NoError(t, err)
		require.Equal(t, &capture.End{}, report.End)
		require.True(t, report.Same())
	})
}

// A full disk stops the recording, and is told; who records does not notice.
func TestOutputFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := &locked{room: 5000}
		r := newRecorder(t, &recording.Config{Output: disk})
		c := record(r, 0)
		for range 1000 {
			c.receive([]byte{1})
			synctest.Wait()
		}
		require.Equal(t, errFull, r.Err())
		require.True(t, r.Stats().Stopped)
		require.EqualValues(t, 1000, r.Stats().Dropped+r.Stats().Calls)
		require.Equal(t, errFull, r.Close())
		report, err := replayAdders(disk.b.Bytes())
		require.ErrorIs(t, err, io.ErrUnexpectedEOF)
		require.True(t, report.Same(), "what is there is sound")
	})
}

// An output that blocks holds up nobody. When too much waits, recording stops.
func TestOutputTooSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := &locked{room: 1 << 30, gate: make(chan struct{})}
		r := newRecorder(t, &recording.Config{Output: disk, MaxBytes: 1 << 30})
		c := record(r, 0)
		for range 10_000 {
			c.receive(make([]byte, 1000))
		}
		require.Equal(t, recording.ErrTooSlow, r.Err())
		require.InDelta(t, recording.MaxWaiting, r.Stats().Bytes, 5000)
		close(disk.gate)
		require.NoError(t, r.Close())
		require.EqualValues(t, disk.b.Len(), r.Stats().Bytes)
		report, err := replayAdders(disk.b.Bytes())
		require.NoError(t, err)
		require.True(t, report.Same())
		require.True(t, report.End.Failed)
	})
}

// A message larger than all that may wait is no reason to stop, also while the
// name of its connection waits; what comes behind it before it is written is.
func TestOutputLarge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := &locked{room: 1 << 30, gate: make(chan struct{})}
		r := newRecorder(t, &recording.Config{Output: disk, MaxBytes: 1 << 30})
		synctest.Wait()
		c := record(r, 0) // waits, since the disk is busy with the header
		c.receive(make([]byte, recording.MaxWaiting))
		require.NoError(t, r.Err())
		for range 2 { // the header; the name and the message
			disk.gate <- struct{}{}
			synctest.Wait()
		}
		c.receive(make([]byte, recording.MaxWaiting))
		require.NoError(t, r.Err())
		synctest.Wait() // it is being written
		c.receive([]byte{1})
		require.Equal(t, recording.ErrTooSlow, r.Err())
		close(disk.gate)
		require.NoError(t, r.Close())
		report, err := replayAdders(disk.b.Bytes())
		require.NoError(t, err)
		require.True(t, report.Same())
		require.Equal(t, 2, report.Connections[0].Messages)
	})
}

func TestOutputLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := &locked{room: 1 << 30}
		r := newRecorder(t, &recording.Config{Output: disk, MaxBytes: recording.MinBytes})
		c := record(r, 0)
		for range 1000 {
			c.receive(make([]byte, 1000))
			synctest.Wait()
		}
		require.Equal(t, recording.ErrLimit, r.Err())
		require.NoError(t, r.Close())
		require.LessOrEqual(t, disk.b.Len(), recording.MinBytes)
		require.Greater(t, disk.b.Len(), recording.MinBytes-1500)
	})
}

// Nothing is allocated for a call once buffers have grown, in a ring too.
func TestNoAllocations(t *testing.T) {
	r := newRecorder(t, &recording.Config{MaxBytes: 1 << 20, Ring: true})
	c := record(r, 0)
	b := make([]byte, 1000)
	answer := []byte("sum:12345")
	call := func() {
		c.at++
		c.s.Begin(recording.Receive, c.at)
		c.s.Data(b, 10)
		out := c.s.Outputs()
		out.Datagram(answer, 4)
		out.Delivered(1, b)
		c.s.Answer(true)
		out.Fate(1, 1, 1)
		c.s.End()
	}
	for range 5000 {
		call()
	}
	if !testenv.Race { // where a sync.Pool forgets on purpose
		require.Less(t, testing.AllocsPerRun(10_000, call), 0.1)
	}
	r.Close()
	require.Zero(t, testing.AllocsPerRun(100, call))
}
