package reliable

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"
	"unsafe"
)

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
	taken := !chance(&s.st.rng, s.refuse)
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
	e, err := newEndpoint(s.cfg, s.st.time(), h)
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
	if p.reassemblies != &noReassemblies {
		parts += tableSize(len(p.table)) - len(p.table)
	}
	all = parts
	if s.e.acks.talk != nil && s.e.cfg.AckDelay > 0 {
		all += talkSize
	}
	return parts, all
}

// look notes what the endpoint says of itself.
func (s *actor) look() {
	e, now := s.e, s.st.time()
	wait, ok := e.ControlDue(now)
	s.ask.n++
	s.ask.add(uint64(wait), bit(ok)|bit(e.Inner().ControlPresses())<<1|bit(e.Inner().AckOwed())<<2|bit(e.Acked())<<3, uint64(e.InFlight()))
	s.control = ok && !s.mute
	s.controlAt = s.st.now + wait
	if lag := s.st.lag; lag > 0 && wait > 0 {
		s.controlAt += lag - s.controlAt%lag
	}
	loss, ok := e.Inner().LossDue(now)
	parts, ok2 := e.Inner().ReassemblyDue(now)
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
	next := uint16(e.NextID())
	for _, d := range []uint16{0, 1, 2, 17, 40, 300} {
		s.fig.add(bit(e.Inner().Unacknowledged(next - d)))
	}
	s.fig.add(uint64(e.Inner().RTTVariation()), uint64(e.Inner().AckedAt().UnixNano()), uint64(e.Inner().Elapsed()), uint64(e.Time().UnixNano()))
}

// send sends a message of n bytes.
func (s *actor) send(n int) {
	out := &s.st.out
	out.Reset()
	at := s.st.rng.Below(len(noise) - n)
	if n > len(noise)/2 {
		at = 0
	}
	id, err := s.e.Send(s.st.time(), noise[at:at+n], out)
	s.out.add(id, bit(err != nil))
	var large *MessageTooLargeError
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
	if s.e.Inner().InquiryDue(s.st.time()) {
		s.st.out.Reset()
		s.e.Inner().SendInquiry(s.st.time(), &s.st.out)
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
		n := s.st.rng.Between(t.min, t.max)
		if chance(&s.st.rng, t.empty) {
			n = 0
		}
		if chance(&s.st.rng, t.edges) {
			n = s.edge()
		}
		s.send(n)
	}
	s.nextSend += t.every
	if t.shake > 0 {
		s.nextSend += time.Duration(s.st.rng.Below(int(t.shake)))
	}
}

// edge returns a size of a message at which something changes.
func (s *actor) edge() int {
	e := s.e
	sizes := []int32{1, e.fragmentAbove, e.fragmentSize, 2 * e.fragmentSize, e.maxPacket}
	return int(sizes[s.st.rng.Below(len(sizes))]) + s.st.rng.Between(-1, 1)
}

// report returns the line of a phase, and begins the next.
func (s *actor) report(phase string) string {
	s.e.Inner().SentFates(func(id uint64, fate uint8, rtt time.Duration) { s.fig.add(id, uint64(fate), uint64(rtt)) })
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
