package main

import (
	"bytes"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"volley"
	"volley/simnet"
)

// testOptions are those of a short run. Nothing starts again on its port: that
// takes connections older than a busy machine's pauses.
func testOptions() options {
	return options{duration: 1500 * time.Millisecond, conns: 6, rate: 60, bytes: 200, large: 3000, every: 16, seed: 1,
		link: simnet.Link{Latency: 5 * time.Millisecond, Jitter: 2 * time.Millisecond, Loss: 0.05, Duplicate: 0.05,
			Reorder: 0.05, ReorderBy: 20 * time.Millisecond},
		events: []event{kill, rebind, turnOut}, settled: time.Second, life: 300 * time.Millisecond,
		away: 200 * time.Millisecond, interval: 500 * time.Millisecond, drain: 500 * time.Millisecond,
		linger: 20 * time.Second, maxSlope: 1, judged: time.Hour}
}

func needsLinux(t *testing.T) {
	if !supported {
		t.Skip("needs Linux")
	}
}

// TestShort runs for a moment, with all that happens to connections.
func TestShort(t *testing.T) {
	needsLinux(t)
	var out strings.Builder
	o := testOptions()
	o.until = func(s *soak) bool {
		c := &s.counted
		return s.book.tally.delivered.Load() > 100 && c.kills.Load()*c.rebinds.Load()*c.closes.Load() > 0
	}
	r, err := run(o, &out)
	require.NoError(t, err)
	require.Empty(t, r.red(), "%v\n%v", r, &out)
	require.Contains(t, r.String(), "verdict: green")
	require.NotZero(t, r.sent)
	require.LessOrEqual(t, r.delivered, r.read+r.unread)
	require.Equal(t, r.sent, r.delivered+r.lost, "each message has a receipt")
	require.Equal(t, r.sent-r.missing, r.sent-r.lost+r.falseLost-r.unread, "losses add up")
}

// TestServerRestart runs while the server starts again, and its clients with it.
func TestServerRestart(t *testing.T) {
	needsLinux(t)
	o := testOptions()
	o.life, o.restart = 0, 500*time.Millisecond
	o.until = func(s *soak) bool { return s.counted.accepted.Load() > uint64(2*o.conns) }
	r, err := run(o, io.Discard)
	require.NoError(t, err)
	require.Empty(t, r.red(), "%v", r)
	require.NotContains(t, r.ends, " 0 restarts of the server")
	require.NotContains(t, r.ends, "; 0 ended by themselves")
}

// TestNothingArrives is a run over links that lose everything.
func TestNothingArrives(t *testing.T) {
	needsLinux(t)
	var out, errors bytes.Buffer
	status := command([]string{"-conns", "2", "-duration", "200ms", "-drain", "1ms", "-loss", "1", "-seed", "2"}, &out, &errors)
	require.Equal(t, 1, status)
	require.Contains(t, out.String(), "RED: nothing was read and acknowledged")
	require.Empty(t, errors.String())
}

func TestOptions(t *testing.T) {
	needsLinux(t)
	for args, want := range map[string]string{
		"-duration 0":     "-duration",
		"-interval 0":     "-interval",
		"-conns 0":        "-conns",
		"-conns 10001":    "-conns",
		"-rate 1001":      "-rate",
		"-bytes 23":       "-bytes",
		"-large 16385":    "-large",
		"-every -1":       "-every",
		"-events nothing": "-events",
	} {
		var out, errors bytes.Buffer
		require.Equal(t, 2, command(strings.Fields(args), &out, &errors), args)
		require.Contains(t, errors.String(), want)
	}
}

// A wire is a book with one connection of a client, and a reader of it.
type wire struct {
	*book
	flow   *flow
	reader *reader
	id     uint64 // the library's number of the last message
}

func newWire() *wire {
	b := newBook(2, 60)
	return &wire{book: b, flow: b.open(0, client), reader: newReader(b, client, -1)}
}

// write writes n messages and returns the last, with its number.
func (w *wire) write(n int) ([]byte, uint64) {
	var msg []byte
	var number uint64
	for range n {
		number = w.flow.begin()
		msg = appendMessage(nil, w.flow.name, number, 100)
		w.id += 2 // some numbers are not of messages
		w.flow.wrote(number, w.id)
	}
	return msg, number
}

func (w *wire) tell(id uint64, fate volley.Fate) {
	w.flow.receipts([]volley.Receipt{{ID: id, Fate: fate}})
}

// finish ends the connection, and judges what is left.
func (w *wire) finish() {
	w.flow.end()
	w.settle(w.now() + time.Second)
}

// TestFaults commits each fault that messages and receipts can have, and looks
// for it in the verdict; and for none where all is well.
func TestFaults(t *testing.T) {
	for name, test := range map[string]struct {
		do   func(w *wire)
		want []fault
	}{
		"all is well": {func(w *wire) {
			for range 3 * w.window {
				msg, _ := w.write(1)
				w.reader.take(msg)
				w.tell(w.id, volley.Delivered)
			}
		}, nil},
		"lost": {func(w *wire) { w.write(1); w.tell(w.id, volley.Lost) }, nil},
		"read and called lost": {func(w *wire) {
			msg, _ := w.write(1)
			w.reader.take(msg)
			w.tell(w.id, volley.Lost)
		}, nil},
		"read by two connections": {func(w *wire) {
			msg, _ := w.write(1)
			w.reader.take(msg)
			newReader(w.book, client, -1).take(msg)
			w.tell(w.id, volley.Delivered)
		}, nil},
		"doubled": {func(w *wire) {
			msg, _ := w.write(1)
			w.reader.take(msg)
			w.reader.take(msg)
			w.tell(w.id, volley.Delivered)
		}, []fault{doubled}},
		"doubled behind others": {func(w *wire) {
			first, _ := w.write(1)
			w.reader.take(first)
			w.tell(w.id, volley.Delivered)
			for range w.window - 1 {
				msg, _ := w.write(1)
				w.reader.take(msg)
				w.tell(w.id, volley.Delivered)
			}
			w.reader.take(first)
		}, []fault{doubled}},
		"ancient": {func(w *wire) {
			first, _ := w.write(1)
			w.reader.take(first)
			w.tell(w.id, volley.Delivered)
			for range w.window {
				msg, _ := w.write(1)
				w.reader.take(msg)
				w.tell(w.id, volley.Delivered)
			}
			w.reader.take(first)
		}, []fault{ancient}},
		"corrupt": {func(w *wire) {
			msg, _ := w.write(1)
			msg[50] ^= 1
			w.reader.take(msg)
			w.tell(w.id, volley.Lost)
		}, []fault{corrupt}},
		"cut": {func(w *wire) {
			msg, _ := w.write(1)
			w.reader.take(msg[:20])
			w.tell(w.id, volley.Lost)
		}, []fault{corrupt}},
		"of another client": {func(w *wire) {
			other := w.open(1, client)
			w.reader.take(appendMessage(nil, other.name, 0, 100))
			other.end()
			msg, _ := w.write(1)
			w.reader.take(msg)
			w.tell(w.id, volley.Lost)
		}, []fault{foreign, unwritten}},
		"of a client that does not exist": {func(w *wire) {
			w.reader.take(appendMessage(nil, name{2, client, 1}, 0, 100))
		}, []fault{foreign}},
		"of the own side": {func(w *wire) {
			own := w.open(0, server)
			w.reader.take(appendMessage(nil, own.name, 0, 100))
			own.end()
		}, []fault{foreign}},
		"of no connection": {func(w *wire) {
			w.reader.take(appendMessage(nil, name{0, client, 7}, 0, 100))
		}, []fault{unknown}},
		"not written": {func(w *wire) {
			w.reader.take(appendMessage(nil, w.flow.name, 5, 100))
		}, []fault{unwritten}},
		"Delivered and not read": {func(w *wire) { w.write(1); w.tell(w.id, volley.Delivered) }, []fault{falseDelivered}},
		"Delivered and not read long ago": {func(w *wire) {
			w.write(1)
			w.tell(w.id, volley.Delivered)
			for range w.window {
				w.write(1)
				w.tell(w.id, volley.Lost)
			}
		}, []fault{falseDelivered}},
		"two receipts": {func(w *wire) {
			w.write(1)
			w.tell(w.id, volley.Lost)
			w.tell(w.id, volley.Lost)
		}, []fault{twoFates}},
		"Lost, and Delivered later": {func(w *wire) {
			msg, _ := w.write(1)
			w.reader.take(msg)
			w.tell(w.id, volley.Lost)
			w.tell(w.id, volley.Delivered)
		}, []fault{twoFates}},
		"no receipt":        {func(w *wire) { w.write(1) }, []fault{noFate}},
		"a strange receipt": {func(w *wire) { w.write(1); w.tell(w.id, volley.Lost); w.tell(w.id-1, volley.Lost) }, []fault{strangeReceipt}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWire()
			test.do(w)
			w.finish()
			got, _ := w.tally.found()
			for f := range faults {
				if slices.Contains(test.want, f) != (got[f] > 0) {
					t.Errorf("%d × %s, want some: %t", got[f], faultNames[f], got[f] == 0)
				}
			}
			r := &result{counts: counts{read: 1, delivered: 1}, faults: got}
			if red := strings.Join(r.red(), "; "); len(test.want) > 0 != strings.Contains(r.String(), "RED") {
				t.Errorf("the verdict is %q", red)
			}
			require.Zero(t, w.flows(), "what is settled is forgotten")
		})
	}
}

// pipeEnds returns a wire over a pipe: both ends, of which the server's is not
// read.
func pipeEnds(t *testing.T, cfg *volley.Config) (w *wire, from, to *end) {
	a, b := volley.Pipe(cfg)
	t.Cleanup(func() { a.Close(); b.Close() })
	w = newWire()
	from = newEnd(w.book, a, newReader(w.book, server, 0))
	from.flow = w.flow
	w.reader.slot.Store(0)
	to = &end{book: w.book, conn: b, reader: w.reader}
	close(w.reader.done)
	for range 3 {
		n := w.flow.begin()
		id, err := a.WriteMessage(appendMessage(nil, w.flow.name, n, 100))
		require.NoError(t, err)
		w.flow.wrote(n, id)
	}
	return w, from, to
}

// TestUnread closes a connection that has not read everything. So many messages
// may be Delivered, and not one more.
func TestUnread(t *testing.T) {
	for _, more := range []int{0, 1} {
		w, from, to := pipeEnds(t, nil)
		rs, err := from.conn.WaitReceipts(t.Context(), nil)
		for err == nil && len(rs) < 3 {
			rs, err = from.conn.WaitReceipts(t.Context(), rs)
		}
		require.NoError(t, err)
		w.flow.receipts(rs)
		to.close()
		from.close()
		for range more {
			n := w.flow.begin()
			w.flow.wrote(n, 1<<20)
			w.tell(1<<20, volley.Delivered)
		}
		w.finish()
		found, _ := w.tally.found()
		require.EqualValues(t, more, found[falseDelivered])
		require.EqualValues(t, 3, w.tally.counts().unread)
		require.EqualValues(t, 3, w.tally.counts().closedOn)
	}
}

// TestExcuse excuses only what was written shortly before a close.
func TestExcuse(t *testing.T) {
	b := newBook(1, 60)
	s := b.slots[0]
	s.closings[client] = []closing{{at: time.Minute, left: 1}}
	require.False(t, s.excuse(client, time.Minute+1), "written later")
	require.False(t, s.excuse(client, time.Minute-excusable-1), "written long before")
	require.False(t, s.excuse(server, time.Minute), "the other way")
	require.True(t, s.excuse(client, time.Minute-time.Second))
	require.False(t, s.excuse(client, time.Minute-time.Second), "only one")
}

// TestEndFaults commits the faults of connections.
func TestEndFaults(t *testing.T) {
	w, from, to := pipeEnds(t, &volley.Config{Receipts: 1})
	to.reader.read = 4
	to.close()
	from.close()
	from.explain(from.reader.err)
	found, _ := w.tally.found()
	require.EqualValues(t, 1, found[miscounted])
	require.EqualValues(t, 1, found[dropped])
	require.EqualValues(t, 1, found[unexplained])
	w.slots[0].disturb(w.book)
	from.explain(from.reader.err)
	found, _ = w.tally.found()
	require.EqualValues(t, 1, found[unexplained], "there was a reason")
}

// TestVerdict looks at what is not about single messages.
func TestVerdict(t *testing.T) {
	good := func() *result {
		return &result{options: options{duration: time.Hour, judged: time.Minute, maxSlope: 1},
			counts: counts{sent: 1, read: 1, delivered: 1}, before: resources{goroutines: 2, files: 3},
			after: resources{goroutines: 2, files: 3}, heapSlope: 1}
	}
	require.Empty(t, good().red())
	for want, spoil := range map[string]func(r *result){
		"nothing was read":  func(r *result) { r.read = 0 },
		"goroutines left":   func(r *result) { r.after.goroutines++ },
		"files left":        func(r *result) { r.after.files++ },
		"the heap grows by": func(r *result) { r.heapSlope = 1.1 },
	} {
		r := good()
		spoil(r)
		require.Len(t, r.red(), 1)
		require.Contains(t, r.red()[0], want)
		require.Contains(t, r.String(), "verdict: RED: "+r.red()[0])
	}
	short := good()
	short.heapSlope, short.duration = 100, time.Second
	require.Empty(t, short.red(), "too short for a slope")
}

func TestSlope(t *testing.T) {
	for _, restart := range []time.Duration{0, 10 * time.Minute, 11 * time.Minute} {
		var samples []sample
		for at := time.Duration(0); at < time.Hour; at += time.Minute {
			s := sample{at: at, age: at, heap: 100 + 3*at.Hours(), rss: 50}
			if at < 5*time.Minute {
				s.heap = 20 * at.Minutes() // it begins small
			}
			if restart > 0 {
				s.age = at % restart
				s.heap += 3 * s.age.Minutes() // and grows in each life of the server
				if at < restart {
					s.heap -= 50
				}
			}
			if at == 33*time.Minute {
				s.heap -= 30 // something is away
			}
			samples = append(samples, s)
		}
		require.InDelta(t, 3, slope(samples, func(s sample) float64 { return s.heap }), 0.1, restart)
		require.InDelta(t, 0, slope(samples, func(s sample) float64 { return s.rss }), 1e-9)
	}
	var samples []sample
	for at := time.Duration(0); at < 10*time.Minute; at += time.Minute { // shorter than a life of the server
		samples = append(samples, sample{at: at, age: at, heap: 10, rss: 10 + 2*at.Hours()})
	}
	require.InDelta(t, 2, slope(samples, func(s sample) float64 { return s.rss }), 0.1)
	require.Zero(t, slope(nil, func(s sample) float64 { return s.rss }))
	require.Zero(t, slope(samples[:1], func(s sample) float64 { return s.rss }))
}

func TestMessage(t *testing.T) {
	of := name{517, server, 1 << 30}
	for _, size := range []int{headerSize, 200, largestSize} {
		msg := appendMessage(nil, of, 1<<40+255, size)
		require.Len(t, msg, size)
		got, n, intact := parseMessage(msg)
		require.True(t, intact)
		require.Equal(t, of, got)
		require.EqualValues(t, uint64(1<<40+255), n)
		for i := range msg {
			msg[i] ^= 0x10
			_, _, intact := parseMessage(msg)
			require.False(t, intact, "byte %d", i)
			msg[i] ^= 0x10
		}
	}
}
