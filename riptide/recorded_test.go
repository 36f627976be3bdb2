package riptide

import (
	"fmt"
	"math"
	"testing"
	"time"

	"volley/internal/tape"
	"volley/internal/wire"
)

// A stageSet is two connections of a recorded scene, and the network between them. All
// that comes out of them is noted, at each step.
type stageSet struct {
	t      *testing.T
	tape   *tape.Scene
	rng    tape.Rand
	now    time.Duration
	ends   [2]*actor
	flight []arrival

	latency, jitter time.Duration
	loss, dup       int // of a thousand
	dark            bool
	late            time.Duration // at most so much later than asked for is a tick
	unread          int           // of a thousand ticks
	mangle          int           // of a thousand datagrams
	steps           int
	closed, over    bool // as of the last phase
}

type arrival struct {
	at   time.Duration
	to   side
	data []byte
}

// An actor is one end of a scene.
type actor struct {
	*stageSet
	connection
	name   string
	refuse int // of a thousand messages
	asked  time.Time
	wake   time.Duration
	out    wire.Batch
	count  int // reliable messages delivered, requests, and so on: what it was told
}

func (a *actor) told(kind int64, body []byte, values ...int64) {
	a.count++
	a.tape.Note(kind, int64(a.side), int64(a.now))
	a.tape.Note(values...)
	a.tape.Data(body)
}

func (a *actor) received(m Mode, body []byte) bool {
	take := !a.rng.Chance(a.refuse)
	a.told(1, body, int64(m)-1, tape.Truth(take))
	return take
}

func (a *actor) client(id uint16, here bool) bool {
	take := !a.rng.Chance(a.refuse)
	a.told(2, nil, int64(id), tape.Truth(here), tape.Truth(take))
	return take
}
func (a *actor) delivered(id uint16) { a.told(3, nil, int64(id)) }
func (a *actor) connected(id uint16) { a.told(4, nil, int64(id)) }
func (a *actor) request(data []byte) { a.told(5, data) }
func (a *actor) notifyFate(id uint16, delivered, known bool) {
	a.told(6, nil, int64(id), tape.Truth(delivered), tape.Truth(known))
}
func (a *actor) ended(reason endReason, rejected rejectReason, data []byte) {
	a.told(7, data, int64(reason), int64(rejected))
}

// newStage begins a scene: two ends that have not said anything yet.
func newStage(t *testing.T, p *tape.Tape, cfg *Config, format string, args ...any) *stageSet {
	t.Helper()
	name := fmt.Sprintf(format, args...)
	w := &stageSet{t: t, tape: p.Scene("%s", name), latency: 20 * ms, jitter: 5 * ms}
	for _, c := range name {
		w.rng = w.rng*31 + tape.Rand(c)
	}
	for i := range w.ends {
		set, err := newSettings(cfg)
		if err != nil {
			t.Fatal(err)
		}
		a := &actor{stageSet: w, name: []string{"client", "server"}[i]}
		a.init(set, side(i), start, a)
		w.ends[i] = a
	}
	return w
}

func (w *stageSet) client() *actor { return w.ends[clientSide] }
func (w *stageSet) server() *actor { return w.ends[serverSide] }

// clock returns the time that the ends are told.
func (w *stageSet) clock() time.Time { return start.Add(w.now) }

// do calls something of an end, and notes what comes of it.
func (a *actor) do(f func(now time.Time, out *wire.Batch)) {
	a.out.Reset()
	f(a.clock(), &a.out)
	a.send(&a.out)
	a.note()
}

// note notes what can be seen of an end.
func (a *actor) note() {
	if next := a.next(); !next.Equal(a.asked) {
		a.asked = next
		if a.wake = next.Sub(start); a.late > 0 {
			a.wake += time.Duration(a.rng.Below(int(a.late)))
		}
	}
	s := a.stats()
	n := a.tape
	n.Note(int64(a.side), int64(a.now), int64(a.state), int64(a.id), tape.Truth(a.asked.IsZero()), int64(a.asked.Sub(start)))
	for m := Unreliable; m < numModes; m++ {
		n.Note(int64(s.MessagesSent[m]), int64(s.BytesSent[m]), int64(s.MessagesReceived[m]), int64(s.BytesReceived[m]))
	}
	n.Note(int64(s.MessagesResent), int64(s.Duplicates), int64(s.UnreliableDuplicates), int64(s.Late), int64(s.MessagesRefused), int64(s.PacketsInvalid),
		int64(s.MessagesDelivered), int64(s.NotifyDelivered), int64(s.NotifyLost), int64(s.NotifyUnknown), int64(recordedRTT(s.LastRTT)), int64(recordedRTT(s.RTT)),
		int64(s.Unacknowledged), int64(s.QueuedBytes), int64(math.Float64bits(s.MeanSends)), int64(math.Float64bits(s.NotifyLoss)))
	// What it keeps.
	n.Note(tape.Truth(a.sender.slots != nil), int64(a.sender.queue.bytes()), tape.Truth(a.recent.ring != nil),
		int64(a.history.bits.Size()), int64(a.pace().full), tape.Truth(a.data != nil))
}

// send puts what an end has appended on the network.
func (a *actor) send(out *wire.Batch) {
	w := a.stageSet
	for i := range out.Len() {
		b := out.At(i)
		w.tape.Note(int64(a.side), int64(w.now))
		w.tape.Data(b)
		for range 1 + tape.Truth(w.rng.Chance(w.dup)) {
			lost := w.rng.Chance(w.loss)
			delay := w.latency + time.Duration(w.rng.Below(int(w.jitter)+1))
			if !lost && !w.dark {
				w.deliver(1-a.side, w.now+delay, w.mangled(b))
			}
		}
	}
}

// mangled returns a copy, which may be changed, but does not end the connection.
func (w *stageSet) mangled(b []byte) []byte {
	b = append([]byte(nil), b...)
	if !w.rng.Chance(w.mangle) {
		return b
	}
	defer func(first byte) {
		if packetType(b[0]&0xf) == typeDisconnect {
			b[0] = first
		}
	}(b[0])
	switch i := w.rng.Below(len(b)); w.rng.Below(4) {
	case 0:
		return b[:i]
	case 1:
		b[i] ^= 1 << w.rng.Below(8)
	case 2:
		b[min(i, 6)] = byte(w.rng.Uint64())
	case 3:
		b[0] = b[0]&0xf0 | byte(w.rng.Below(16))
	}
	return b
}

// deliver lets a datagram arrive at a time.
func (w *stageSet) deliver(to side, at time.Duration, b []byte) {
	i := len(w.flight)
	for i > 0 && w.flight[i-1].at > at {
		i--
	}
	w.flight = append(w.flight, arrival{})
	copy(w.flight[i+1:], w.flight[i:])
	w.flight[i] = arrival{at, to, b}
}

// pass lets time pass.
func (w *stageSet) pass(d time.Duration) {
	until := w.now + d
	for {
		if w.steps++; w.steps > 200_000 {
			w.t.Fatalf("a scene that does not end: %v", w.now)
		}
		at, who := until, (*actor)(nil)
		for _, a := range w.ends {
			if !a.asked.IsZero() && a.wake < at {
				at, who = a.wake, a
			}
		}
		if len(w.flight) > 0 && w.flight[0].at <= at && w.flight[0].at < until {
			d := w.flight[0]
			w.flight = w.flight[1:]
			w.now = max(w.now, d.at)
			w.ends[d.to].do(func(now time.Time, out *wire.Batch) { w.ends[d.to].receive(now, d.data, out) })
			continue
		}
		if who == nil {
			break
		}
		w.now = max(w.now, at)
		who.do(func(now time.Time, out *wire.Batch) {
			next := who.tick(now, w.rng.Chance(w.unread), out)
			w.tape.Note(tape.Truth(next.IsZero()), int64(next.Sub(start)))
			who.asked = time.Time{}.Add(1) // so that a tick is asked for anew
		})
	}
	w.now = until
}

// say sends a message of n bytes from an end.
func (a *actor) say(m Mode, n int) {
	body := make([]byte, n)
	a.rng.Bytes(body)
	a.do(func(now time.Time, out *wire.Batch) {
		id, err := a.connection.send(now, m, body, out)
		a.tape.Note(int64(id), tape.Truth(err != nil), tape.Truth(err == ErrSendBuffer))
	})
}

// phase ends a phase of the scene. After both ends have closed there is one more.
func (w *stageSet) phase(name string) {
	w.t.Helper()
	if w.over {
		return
	}
	w.over = w.client().state == stateClosed && w.server().state == stateClosed && w.closed
	w.closed = w.client().state == stateClosed && w.server().state == stateClosed
	figures := []any{"time", w.now}
	for _, a := range w.ends {
		s := a.stats()
		figures = append(figures, a.name, [...]string{"connecting", "pending", "connected", "closed"}[a.state], "told", a.count,
			"sent", s.MessagesSent[Unreliable]+s.MessagesSent[Notify]+s.MessagesSent[Reliable], "bytes", s.BytesSent[Unreliable]+s.BytesSent[Notify]+s.BytesSent[Reliable],
			"received", s.MessagesReceived[Unreliable]+s.MessagesReceived[Notify]+s.MessagesReceived[Reliable], "resends", s.MessagesResent,
			"duplicates", s.Duplicates, "equal", s.UnreliableDuplicates, "late", s.Late, "refused", s.MessagesRefused, "dropped", s.PacketsInvalid,
			"delivered", s.MessagesDelivered, "arrived", s.NotifyDelivered, "lost", s.NotifyLost, "unknown", s.NotifyUnknown,
			"rtt", recordedRTT(s.RTT), "waiting", s.Unacknowledged, "queued", s.QueuedBytes)
	}
	w.tape.Phase(name, figures...)
}

// join connects the ends.
func (w *stageSet) join() {
	w.t.Helper()
	w.begin([]byte{0x10, 2, 3})
	w.pass(100 * ms)
	w.server().do(func(now time.Time, out *wire.Batch) { w.server().accept(now, 3, out) })
	w.pass(300 * ms)
}

// begin sends the first connect.
func (w *stageSet) begin(data []byte) {
	w.client().do(func(now time.Time, out *wire.Batch) { w.client().connect(now, data, out) })
	w.server().note()
}

// talk lets both sides send for a while: each time that so much has passed, some
// messages.
func (w *stageSet) talk(d, every time.Duration, most int) {
	for end := w.now + d; w.now < end; w.pass(every) {
		for _, a := range w.ends {
			for range w.rng.Below(most + 1) {
				size := 2 + w.rng.Below(40)
				if w.rng.Chance(50) {
					size = 2 + w.rng.Below(990)
				}
				a.say(recordedMode(w.rng.Below(3)), size)
			}
		}
	}
}

// recordedRTT returns a round-trip time as recordings have it: negative if it is
// not known.
func recordedRTT(d time.Duration) time.Duration {
	if d == 0 {
		return -time.Millisecond
	}
	return d
}

// The names of recordings.

func (l layout) String() string { return enumName("Layout", int(l), "packed", "notes") }

func (r rejectReason) String() string {
	return recordedName(int(r), "no answer", "already connected", "server full", "rejected", "rejected with data")
}

func (r endReason) String() string {
	return recordedName(int(r), "never connected", "connection rejected", "transport error", "timed out",
		"kicked", "server stopped", "disconnected", "poor connection")
}

func recordedName(i int, names ...string) string {
	if i < len(names) {
		return names[i]
	}
	return fmt.Sprint("reason ", i)
}

func versionName(v21 bool) string {
	if v21 {
		return "2.1"
	}
	return "2.2"
}

func modeName(i int) string {
	if m := recordedMode(i); m < numModes {
		return m.String()
	}
	return fmt.Sprintf("Mode(%d)", i)
}
