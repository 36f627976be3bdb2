package reliable

import (
	"errors"
	"flag"
	"fmt"
	"hash/crc32"
	"math"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unsafe"
)

var record = flag.Bool("record", false, "write testdata/recorded.txt anew")

const recordedFile = "testdata/recorded.txt"

const recordedHead = `# What comes out of two endpoints in the scenes of recorded_scenes_test.go, a line for
# each side of each phase: plain figures, and digests (after a colon) of all that left,
# at which time and in which order. TestRecorded compares it.
#
# Write it anew with
#
#	go test -run TestRecorded ./reliable -record
#
# when a change of behaviour is intended, and when scenes change. The difference of
# the figures is then part of the change, and whoever reads it should be able to
# explain it.
`

// TestRecorded plays scenes in virtual time and compares all that comes out of
// their endpoints with what came out when the scenes were recorded.
func TestRecorded(t *testing.T) {
	if runtime.GOARCH != "amd64" && runtime.GOARCH != "386" {
		t.Skip("the digests hold every bit of the figures, and other processors may multiply and add in one step")
	}
	old, err := os.ReadFile(recordedFile)
	if err != nil && !*record {
		t.Fatal(err)
	}
	want := make(map[string][]string)
	for line := range strings.Lines(string(old)) {
		if name, _, ok := strings.Cut(strings.TrimRight(line, "\n"), "/"); ok && line[0] != '#' {
			want[name] = append(want[name], strings.TrimRight(line, "\n"))
		}
	}
	var all []string
	for _, sc := range scenes {
		t.Run(sc.name, func(t *testing.T) {
			if strconv.IntSize < 64 && strings.HasSuffix(sc.name, only64) {
				t.Skip("limits in bytes mean something else with pointers of 4 bytes")
			}
			if raceEnabled && slices.Contains(longScenes, sc.name) {
				t.Skip("too long beside the race detector, which finds nothing where there is one goroutine")
			}
			got := sc.run(t)
			all = append(all, got...)
			if !*record {
				compareRecorded(t, got, want[sc.name])
			}
		})
	}
	if *record && !raceEnabled && !t.Failed() {
		if err := os.WriteFile(recordedFile, []byte(recordedHead+strings.Join(all, "\n")+"\n"), 0o666); err != nil {
			t.Fatal(err)
		}
	}
}

// longScenes are those with the most packets.
var longScenes = []string{
	"reference-odd", "reference-tiny", "reference-guarded", "reference-one", "flood", "one-way", "grid", "echo",
	"clockwork-midstream", "clockwork-reference", "restart-midstream", "game-slow-acks", "pieces-plain", "silence",
}

// compareRecorded reports the first line that differs, and how.
func compareRecorded(t *testing.T, got, want []string) {
	t.Helper()
	for i, line := range got {
		if i >= len(want) {
			t.Fatalf("%s is recorded nowhere: run with -record", line)
		}
		if line == want[i] {
			continue
		}
		g, w := strings.Fields(line), strings.Fields(want[i])
		if g[0] != w[0] {
			t.Fatalf("phase %s, want %s", g[0], w[0])
		}
		var more, less []string
		for _, x := range g {
			if !slices.Contains(w, x) {
				more = append(more, x)
			}
		}
		for _, x := range w {
			if !slices.Contains(g, x) {
				less = append(less, x)
			}
		}
		t.Fatalf("%s is the first phase that differs:\n got %s\nwant %s", g[0], strings.Join(more, " "), strings.Join(less, " "))
	}
	if len(got) < len(want) {
		t.Fatalf("there are %d lines, want %d", len(got), len(want))
	}
}

// splitmix is the generator SplitMix64.
type splitmix uint64

func (r *splitmix) next() uint64 {
	*r += 0x9e3779b97f4a7c15
	z := uint64(*r)
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// below returns a number from 0 to n-1.
func (r *splitmix) below(n int) int { return int(r.next() % uint64(n)) }

// chance is true so many times of a thousand.
func (r *splitmix) chance(n int) bool { return n > 0 && r.below(1000) < n }

// between returns a number from lo to hi.
func (r *splitmix) between(lo, hi int) int { return lo + r.below(hi-lo+1) }

var noise = func() []byte {
	r := splitmix(1)
	b := make([]byte, 1<<16)
	for i := range b {
		b[i] = byte(r.next())
	}
	return b
}()

// A tally counts something and keeps a digest of it.
type tally struct {
	n, bytes int
	sum      uint64
}

func (t *tally) add(values ...uint64) {
	for _, v := range values {
		t.sum = (t.sum ^ v) * 0x9e3779b97f4a7c15
		t.sum ^= t.sum >> 29
	}
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func (t *tally) data(b []byte, values ...uint64) {
	t.n++
	t.bytes += len(b)
	t.add(values...)
	t.add(uint64(len(b)), uint64(crc32.Checksum(b, castagnoli)))
}

func (t *tally) digest() string { return fmt.Sprintf("%06x", (t.sum^t.sum>>32)&0xffffff) }

func bit(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

// A road is what happens to datagrams that leave a side. Numbers are of a thousand.
type road struct {
	delay, jitter time.Duration
	loss, dup     int
	burst         int // so many more are lost with one
	late          int // so many take lateBy longer
	lateBy        time.Duration
	dead          bool
}

// A traffic is the messages that a side sends.
type traffic struct {
	every, shake time.Duration // between two bursts, and so much more at most; none if every is 0
	burst        int           // messages beyond the first one
	min, max     int           // bytes
	empty        int           // so many of a thousand are ack-only packets
	edges        int           // and so many of a size at which something changes
}

// An actor is one endpoint of a scene.
type actor struct {
	e       *Endpoint
	cfg     *Config
	st      *stage
	index   int
	name    string
	plain   bool // is told no fates
	road    road
	losing  int
	traffic traffic
	answer  bool // every message with one of the same size
	refuse  int  // so many of a thousand messages
	deny    bool // Config.Reserve refuses
	denyNew bool // and only before the first ack
	keep    bool // acks stay on the list
	mute    bool // asks for no control packets

	nextSend  time.Duration
	answers   []int
	controlAt time.Duration
	control   bool
	hasty     int // control packets at this very time
	reserved  int
	inside    []byte // a datagram that is given to Receive in a callback

	out, in, got, fate, ask, fig, res tally
	lost, acks                        int
	last                              Counters
}

type silentActor struct{ *actor }

func (s silentActor) HandleMessage(sequence uint16, payload []byte) bool {
	return s.message(sequence, payload)
}

type tellingActor struct{ *actor }

func (s tellingActor) HandleMessage(sequence uint16, payload []byte) bool {
	return s.message(sequence, payload)
}

func (s tellingActor) HandleFate(id uint64, fate Fate, rtt time.Duration) {
	s.fate.n++
	if fate == FateLost {
		s.lost++
	}
	s.fate.add(id, uint64(fate), uint64(rtt), uint64(s.st.now))
	s.reenter()
}

// reenter gives the endpoint a datagram from inside a callback.
func (s *actor) reenter() {
	if s.inside != nil {
		s.in.add(uint64(s.e.Receive(s.st.time(), s.inside)))
	}
}

func (s *actor) message(sequence uint16, payload []byte) bool {
	taken := !s.st.rng.chance(s.refuse)
	s.got.data(payload, uint64(sequence), bit(taken), uint64(s.st.now))
	if taken && s.answer && len(payload) > 0 {
		s.answers = append(s.answers, len(payload))
	}
	s.reenter()
	return taken
}

// reserve is Config.Reserve.
func (s *actor) reserve(n int, acked bool) bool {
	if n > 0 && (s.deny || s.denyNew && !acked) {
		s.res.add(bit(acked), 2)
		return false
	}
	s.res.n++
	s.res.add(bit(acked), bit(n > 0))
	s.reserved += n
	return true
}

// start makes a new endpoint.
func (s *actor) start() {
	var h Handler = tellingActor{s}
	if s.plain {
		h = silentActor{s}
	}
	s.reserved, s.last = 0, Counters{}
	e, err := New(s.cfg, s.st.time(), h)
	if err != nil {
		s.st.t.Fatal(err)
	}
	s.e = e
	s.look()
}

// structs is the memory of structures, which differs with the size of pointers.
func (s *actor) structs() (parts, all int) {
	p := s.e.parts
	parts = (p.open + len(p.spare)) * int(unsafe.Sizeof(reassembly{}))
	if p != &noReassemblies {
		parts += tableSize(len(p.table)) - len(p.table)
	}
	all = parts
	if s.e.talk != nil && s.e.cfg.AckDelay > 0 {
		all += talkSize
	}
	return parts, all
}

// look notes what the endpoint says of itself.
func (s *actor) look() {
	e, now := s.e, s.st.time()
	wait, ok := e.ControlDue(now)
	s.ask.n++
	s.ask.add(uint64(wait), bit(ok)|bit(e.ControlPresses())<<1|bit(e.AckOwed())<<2|bit(e.Acked())<<3, uint64(e.InFlight()))
	s.control = ok && !s.mute
	s.controlAt = s.st.now + wait
	if lag := s.st.lag; lag > 0 && wait > 0 {
		s.controlAt += lag - s.controlAt%lag
	}
	loss, ok := e.LossDue(now)
	parts, ok2 := e.ReassemblyDue(now)
	_, all := s.structs()
	s.ask.add(uint64(loss), uint64(parts), bit(ok)|bit(ok2)<<1, uint64(e.MemoryUsage()-all), e.NextID())
	for _, seq := range e.Acks() {
		s.ask.add(uint64(seq))
	}
	s.acks += len(e.Acks())
	if !s.keep {
		e.ClearAcks()
	}
}

// ponder notes what is asked more rarely, and the figures.
func (s *actor) ponder() {
	e := s.e
	st := statList(e.Stats())
	for _, x := range st {
		s.fig.add(uint64(math.Float32bits(x)))
	}
	next := e.NextSequence()
	for _, d := range []uint16{0, 1, 2, 17, 40, 300} {
		s.fig.add(bit(e.Unacknowledged(next - d)))
	}
	s.fig.add(uint64(e.RTTVariation()), uint64(e.AckedAt().UnixNano()), uint64(e.Elapsed()), uint64(e.Time().UnixNano()))
}

// send sends a message of n bytes.
func (s *actor) send(n int) {
	out := &s.st.out
	out.Reset()
	at := s.st.rng.below(len(noise) - n)
	if n > len(noise)/2 {
		at = 0
	}
	id, err := s.e.Send(s.st.time(), noise[at:at+n], out)
	s.out.add(id, bit(err != nil))
	var large *PacketTooLargeError
	if errors.As(err, &large) {
		s.out.add(uint64(large.Size), uint64(large.Max))
	}
	s.transmit()
}

// transmit sends off what is in out.
func (s *actor) transmit() {
	out := &s.st.out
	for i := range out.Len() {
		d := out.At(i)
		s.out.data(d, uint64(s.st.now))
		s.st.post(s, d)
	}
	s.look()
}

// sendControl sends a control packet.
func (s *actor) sendControl() {
	s.st.out.Reset()
	s.e.SendControl(s.st.time(), &s.st.out)
	s.transmit()
	if s.hasty++; s.hasty > 4 {
		s.controlAt = max(s.controlAt, s.st.now+time.Millisecond)
	}
}

// receive takes a datagram, and answers.
func (s *actor) receive(d []byte) Verdict {
	v := s.e.Receive(s.st.time(), d)
	s.in.data(d, uint64(v), uint64(s.st.now))
	s.look()
	if s.e.InquiryDue(s.st.time()) {
		s.st.out.Reset()
		s.e.SendInquiry(s.st.time(), &s.st.out)
		s.transmit()
	}
	for len(s.answers) > 0 {
		n := s.answers[0]
		s.answers = s.answers[1:]
		s.send(n)
	}
	return v
}

// begin has the side send messages, the first one soon.
func (s *actor) begin(t traffic) {
	s.traffic = t
	s.nextSend = s.st.now + t.every/3
}

// turn sends what the traffic wants now.
func (s *actor) turn() {
	t := s.traffic
	for range 1 + t.burst {
		n := s.st.rng.between(t.min, t.max)
		if s.st.rng.chance(t.empty) {
			n = 0
		}
		if s.st.rng.chance(t.edges) {
			n = s.edge()
		}
		s.send(n)
	}
	s.nextSend += t.every
	if t.shake > 0 {
		s.nextSend += time.Duration(s.st.rng.below(int(t.shake)))
	}
}

// edge returns a size of a message at which something changes.
func (s *actor) edge() int {
	e := s.e
	sizes := []int32{1, e.fragmentAbove, e.fragmentSize, 2 * e.fragmentSize, e.maxPacket}
	return int(sizes[s.st.rng.below(len(sizes))]) + s.st.rng.between(-1, 1)
}

// report returns the line of a phase, and begins the next.
func (s *actor) report(phase string) string {
	s.e.SentFates(func(id uint64, fate Fate, rtt time.Duration) { s.fig.add(id, uint64(fate), uint64(rtt)) })
	s.ponder()
	parts, all := s.structs()
	var b strings.Builder
	fmt.Fprintf(&b, "%s/%s/%s out=%d:%s bytes=%d in=%d:%s", s.st.name, phase, s.name, s.out.n, s.out.digest(), s.out.bytes, s.in.n, s.in.digest())
	for _, t := range []struct {
		name string
		tally
	}{{"got", s.got}, {"fates", s.fate}} {
		if t.n > 0 {
			fmt.Fprintf(&b, " %s=%d:%s", t.name, t.n, t.digest())
		}
	}
	for _, n := range []struct {
		name string
		n    int
	}{{"lost", s.lost}, {"acks", s.acks}} {
		if n.n > 0 {
			fmt.Fprintf(&b, " %s=%d", n.name, n.n)
		}
	}
	fmt.Fprintf(&b, " asked=%d:%s", s.ask.n, s.ask.digest())
	if s.cfg != nil && s.cfg.Reserve != nil {
		fmt.Fprintf(&b, " reserve=%d:%s reserved=%d", s.res.n, s.res.digest(), s.reserved-parts)
	}
	fmt.Fprintf(&b, " next=%d flight=%d mem=%d", s.e.NextID(), s.e.InFlight(), s.e.MemoryUsage()-all)
	st := statList(s.e.Stats())
	for i, name := range []string{"rtt", "min", "max", "avg", "jitter", "jmax", "jdev", "loss", "sent", "rcvd", "ackd"} {
		if st[i] != 0 {
			fmt.Fprintf(&b, " %s=%.5g", name, st[i])
		}
	}
	fmt.Fprintf(&b, " figures=:%s", s.fig.digest())
	c := s.e.Counters()
	now, before := counterList(c), counterList(s.last)
	for i, name := range counterNames {
		name = strings.NewReplacer("packets_", "p_", "fragments_", "f_").Replace(name)
		if now[i] < before[i] { // they have begun anew
			before[i] = 0
		}
		if now[i] != before[i] {
			fmt.Fprintf(&b, " %s=%d", name, now[i]-before[i])
		}
	}
	if c.AcksInvalid != s.last.AcksInvalid {
		fmt.Fprintf(&b, " acks_invalid=%d", c.AcksInvalid-s.last.AcksInvalid)
	}
	s.last = c
	s.out, s.in, s.got, s.fate, s.ask, s.fig, s.res = tally{}, tally{}, tally{}, tally{}, tally{}, tally{}, tally{}
	s.lost, s.acks = 0, 0
	return b.String()
}

// A letter is a datagram under way.
type letter struct {
	at time.Duration
	to int
	d  []byte
}

// A stage is where a scene is played.
type stage struct {
	t     *testing.T
	name  string
	rng   splitmix
	now   time.Duration
	tick  time.Duration // between two updates; 0 for none
	lag   time.Duration // timers go off at multiples of this
	next  time.Duration // update
	sides [2]*actor
	post  func(from *actor, d []byte)
	under []letter // under way, by time
	old   []letter // the newest of those that came
	out   Batch
	lines []string
}

// A scene is what happens between two endpoints.
type scene struct {
	name string
	a, b Config
	play func(s *stage, a, b *actor)
}

func (sc *scene) run(t *testing.T) []string {
	s := &stage{t: t, name: sc.name, rng: splitmix(crc32.ChecksumIEEE([]byte(sc.name))), tick: time.Second / 60}
	s.post = s.carry
	for i, cfg := range []Config{sc.a, sc.b} {
		x := &actor{st: s, index: i, name: string(rune('a' + i)), cfg: &cfg}
		if cfg.Reserve != nil {
			cfg.Reserve = x.reserve
		}
		s.sides[i] = x
	}
	s.sides[0].start()
	s.sides[1].start()
	sc.play(s, s.sides[0], s.sides[1])
	return s.lines
}

func (s *stage) time() time.Time { return testTime(0).Add(s.now) }

// carry sends a datagram on its way to the other side.
func (s *stage) carry(from *actor, d []byte) {
	r := from.road
	if r.dead {
		return
	}
	copies := 1
	if s.rng.chance(r.dup) {
		copies = 2
	}
	for range copies {
		if from.losing > 0 {
			from.losing--
			continue
		}
		if s.rng.chance(r.loss) {
			from.losing = r.burst
			continue
		}
		at := s.now + r.delay
		if r.jitter > 0 {
			at += time.Duration(s.rng.below(int(r.jitter)))
		}
		if s.rng.chance(r.late) {
			at += r.lateBy
		}
		s.put(letter{at, from.index ^ 1, slices.Clone(d)})
	}
}

func (s *stage) put(l letter) {
	i := len(s.under)
	for i > 0 && s.under[i-1].at > l.at {
		i--
	}
	s.under = slices.Insert(s.under, i, l)
}

// roads sets both directions.
func (s *stage) roads(r road) { s.sides[0].road, s.sides[1].road = r, r }

// run lets time pass.
func (s *stage) run(d time.Duration) {
	end := s.now + d
	for {
		at, do := end, func() {}
		consider := func(when time.Duration, f func()) {
			if when < at {
				at, do = max(when, s.now), f
			}
		}
		if len(s.under) > 0 {
			consider(s.under[0].at, s.deliver)
		}
		for _, x := range s.sides {
			if x.control {
				consider(x.controlAt, x.sendControl)
			}
			if x.traffic.every > 0 {
				consider(x.nextSend, x.turn)
			}
		}
		if s.tick > 0 {
			consider(s.next, s.update)
		}
		if at > s.now {
			s.sides[0].hasty, s.sides[1].hasty = 0, 0
		}
		s.now = at
		if at == end {
			return
		}
		do()
	}
}

func (s *stage) deliver() {
	l := s.under[0]
	s.under = s.under[1:]
	s.old = append(s.old, l)
	if len(s.old) > 2000 {
		s.old = slices.Clone(s.old[1000:])
	}
	s.sides[l.to].receive(l.d)
}

func (s *stage) update() {
	for s.next <= s.now {
		s.next += s.tick
	}
	for _, x := range s.sides {
		x.e.Update(s.time())
		x.look()
		x.ponder()
	}
}

// phase runs for a time and ends a phase.
func (s *stage) phase(name string, d time.Duration) {
	s.run(d)
	for _, x := range s.sides {
		s.lines = append(s.lines, x.report(name))
	}
}

// each calls f for both sides.
func (s *stage) each(f func(x *actor)) {
	f(s.sides[0])
	f(s.sides[1])
}
