package core

import (
	"fmt"
	"hash/crc32"
	"testing"

	"volley/internal/tape"
)

// A notebook holds all that is seen of peers from outside: their datagrams,
// what their Handlers are told, when they want to be called, and their figures
// after each step. It is condensed to a line a phase, with a digest and some of
// the figures.
type notebook struct {
	t      testing.TB
	phases []string
	digest uint64
	steps  int
}

// maxSteps is more than a scene takes. Peers that want to be called again and
// again do not end otherwise.
const maxSteps = 100_000

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// note adds to the digest: a kind, numbers and bytes.
func (r *notebook) note(kind byte, b []byte, list ...int64) {
	h := r.digest ^ uint64(kind)<<32 ^ uint64(crc32.Checksum(b, castagnoli))
	for _, x := range list {
		h = (h ^ uint64(x)) * 0x9e3779b97f4a7c15
		h ^= h >> 31
	}
	r.digest = h * 0x9e3779b97f4a7c15
}

func (r *notebook) datagram(n *simNode, b []byte) {
	if r != nil {
		r.note(n.name[0], b, 0, int64(n.s.now), int64(len(b)))
	}
}

func (r *notebook) packet(n *simNode, channel int, b []byte) {
	if r != nil {
		r.note(n.name[0], b, 1, int64(n.s.now), int64(channel), int64(len(b)))
	}
}

func (r *notebook) fate(n *simNode, f Fate) {
	if r != nil {
		r.note(n.name[0], nil, 2, int64(n.s.now), int64(f.Number), int64(f.Channel), int64(f.Mode), int64(f.Size), truth(f.Delivered), int64(f.RTT))
	}
}

func (r *notebook) event(n *simNode, e Event) {
	if r != nil {
		r.note(n.name[0], nil, 3, int64(n.s.now), int64(e))
	}
}

// step notes when a peer next wants to be called, and its figures.
func (r *notebook) step(n *simNode, at Clock, ok bool) {
	if r == nil {
		return
	}
	if r.steps++; r.steps > maxSteps {
		r.t.Fatalf("more than %d steps: %s at %v", maxSteps, n.name, n.s.now)
	}
	p := &n.p
	r.note(n.name[0], nil, 4, int64(at), truth(ok), int64(p.State()), truth(p.pending()), truth(p.Flushed()))
	r.stats(n.name[0], p)
}

func (r *notebook) stats(name byte, p *Peer) {
	s := p.Stats()
	r.note(name, nil, int64(s.Received), int64(s.Invalid), int64(s.OutOfWindow), int64(s.Refused), int64(s.Accepted),
		int64(s.Duplicates), int64(s.OutOfReach), int64(s.Malformed), int64(s.TooLarge), int64(s.Delivered),
		int64(s.FramesSent), int64(s.FramesResent), int64(s.FramesAcked), int64(s.FramesLost), int64(s.Spurious),
		int64(s.Timeouts), int64(s.AcksUnknown), int64(s.FatesDelivered), int64(s.FatesLost),
		int64(s.RTT), int64(s.RTTVar), int64(s.RTTMin), int64(s.RTO), int64(s.Window), int64(s.InFlight),
		int64(s.PacingRate), int64(s.Queued), int64(s.Packets), int64(s.Held), int64(s.SendBandwidth), int64(s.Limit))
	for i := range min(p.cfg.Channels, 8) {
		c := p.ChannelStats(i)
		r.note(name, nil, int64(c.Queued), int64(c.Held), truth(c.High), truth(c.Unread),
			truth(p.Room(i, 1000)), truth(p.Roomy(i)))
	}
}

func truth(b bool) int64 { return tape.Truth(b) }

// phase ends a phase of a scene.
func (r *notebook) phase(name string, now Clock, peers ...*Peer) {
	line := fmt.Sprintf("%s %08x %v", name, r.digest>>32, now)
	for _, p := range peers {
		line += " | " + figures(p)
	}
	r.phases = append(r.phases, line)
	r.digest = 0
}

// figures returns those figures of a peer that are not zero.
func figures(p *Peer) string {
	s := p.Stats()
	out := p.State().String()
	for _, f := range []struct {
		name  string
		value any
	}{
		{"received", s.Received}, {"invalid", s.Invalid}, {"outside", s.OutOfWindow}, {"refused", s.Refused}, {"accepted", s.Accepted},
		{"duplicates", s.Duplicates}, {"unreachable", s.OutOfReach}, {"malformed", s.Malformed}, {"large", s.TooLarge},
		{"delivered", s.Delivered}, {"sent", s.FramesSent}, {"resent", s.FramesResent}, {"acked", s.FramesAcked},
		{"lost", s.FramesLost}, {"spurious", s.Spurious}, {"timeouts", s.Timeouts}, {"unknown", s.AcksUnknown},
		{"arrived", s.FatesDelivered}, {"given up", s.FatesLost}, {"rtt", s.RTT}, {"rto", s.RTO}, {"window", s.Window},
		{"rate", int64(s.PacingRate)}, {"flight", s.InFlight}, {"queued", s.Queued}, {"held", s.Held}, {"limit", int(s.Limit)},
	} {
		if v := fmt.Sprint(f.value); v != "0" && v != "0s" {
			out += ", " + f.name + " " + v
		}
	}
	return out
}

const traceTitle = "What peers do in the scenes of the tests: of each phase its name, a digest of all that was seen of them\n" +
	"(each datagram, packet, fate, event, the time of the next call, the figures after each step), the virtual\n" +
	"time, and the figures at its end."

// A traceFile holds what scenes have to look like.
type traceFile struct{ *tape.Tape }

func openTrace(t *testing.T, name string) traceFile { return traceFile{tape.Open(t, name, traceTitle)} }

// scene runs a scene, and compares it with the file.
func (f traceFile) scene(t *testing.T, name string, play func(r *notebook)) {
	r := &notebook{t: t}
	play(r)
	s := f.Scene("%s", name)
	for _, line := range r.phases {
		s.Line(line)
	}
}
