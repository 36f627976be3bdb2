package reliable

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"
	"time"

	"volley/internal/testenv"
)

// A flight is a sender, a network that keeps copies, and a receiver. Packets
// are numbered from 0 on by id; the low 16 bits of one are its sequence, also
// behind a restart of the sender, which goes on at a multiple of 65536.
type flight struct {
	t       *testing.T
	rng     *rand.Rand
	to      *Endpoint
	now     time.Time
	heardAt time.Time   // when the last packet was delivered
	first   int         // id with which the sender started
	next    int         // id of the next packet
	times   map[int]int // how often each was delivered
}

// onceLimit is how many later packets make a copy too old for the promise.
const onceLimit = 32_000

func (f *flight) HandleMessage(_ uint16, payload []byte) bool {
	id := int(binary.BigEndian.Uint32(payload))
	f.times[id]++
	if f.times[id] > 1 {
		f.t.Fatalf("packet %d was delivered %d times; the next one is %d", id, f.times[id], f.next)
	}
	f.heardAt = f.now
	return true
}

// arrive delivers a packet, each seventh one in two fragments.
func (f *flight) arrive(id int) Verdict {
	f.now = f.now.Add(time.Duration(f.rng.IntN(1000)) * time.Microsecond)
	payload := append(binary.BigEndian.AppendUint32(nil, uint32(id)), 1, 2)
	h := AppendHeader(nil, Header{Sequence: uint16(id), Ack: 65535})
	if id%7 != 0 {
		return f.to.Receive(f.now, append(h, payload...))
	}
	part := FragmentHeader{Sequence: uint16(id), Count: 2}
	f.to.Receive(f.now, append(append(AppendFragmentHeader(nil, part), h...), payload[:4]...))
	part.ID = 1
	return f.to.Receive(f.now, append(AppendFragmentHeader(nil, part), payload[4:]...))
}

// stream sends n packets, of which a share gets lost. If inOrder, all must
// arrive.
func (f *flight) stream(n int, loss float64, inOrder bool) {
	for range n {
		id := f.next
		f.next++
		if loss > 0 && f.rng.Float64() < loss {
			continue
		}
		if v := f.arrive(id); inOrder && v != Delivered {
			f.t.Fatalf("packet %d in order: %v", id, v)
		}
	}
}

// silent reports whether the receiver may believe what lies behind.
func (f *flight) silent() bool { return f.now.Sub(f.heardAt) > 9*time.Second }

// late delivers copies of up to 300 packets with any spacing, in rising,
// falling or any order.
func (f *flight) late() {
	oldest := max(f.first, f.next-onceLimit)
	id, step := oldest+f.rng.IntN(f.next-oldest), 1+f.rng.IntN(20)
	order := f.rng.IntN(3)
	for range 1 + f.rng.IntN(300) {
		if f.silent() {
			return
		}
		if id >= oldest && id < f.next {
			f.arrive(id)
		}
		switch order {
		case 0:
			id += f.rng.IntN(step + 1)
		case 1:
			id -= f.rng.IntN(step + 1)
		default:
			id = oldest + f.rng.IntN(f.next-oldest)
		}
	}
}

// settle lets the stream go on until the receiver knows its end.
func (f *flight) settle() {
	for range 70_000 {
		f.stream(1, 0, false)
		if f.to.in.seen.Next() == uint16(f.next) {
			return
		}
	}
	f.t.Fatal("the receiver does not find the stream again")
}

// TestAtMostOnce is the promise of docs/reliable.md: a copy is refused unless
// 32,000 later packets have been sent, or nothing was accepted for 10 s.
// Whatever late copies there are, the stream goes on unharmed.
func TestAtMostOnce(t *testing.T) {
	fixed := &Config{JumpGuard: true, FragmentSize: 4, MaxPacketSize: 64}
	growing := connConfig()
	growing.FragmentSize, growing.MaxPacketSize = 4, 64
	small := *growing
	small.MaxWindow = 256
	trials := 25
	if testing.Short() || testenv.Race {
		trials = 3
	}
	for name, cfg := range map[string]*Config{"fixed": fixed, "growing": growing, "small": &small} {
		t.Run(name, func(t *testing.T) {
			for trial := range trials {
				f := &flight{
					t: t, rng: rand.New(rand.NewPCG(9, uint64(trial))),
					now: testTime(0), heardAt: testTime(0), times: make(map[int]int),
				}
				f.to, _ = newEndpoint(cfg, f.now, f)
				f.stream(1+f.rng.IntN(40_000), 0, true)
				for range 40 {
					f.step()
				}
			}
		})
	}
}

// step does one of what may happen to a flight whose receiver is up to date.
func (f *flight) step() {
	rng := f.rng
	switch rng.IntN(12) {
	case 0, 1, 2, 3: // late copies, and then the stream as if nothing had been
		f.late()
		f.stream(1+rng.IntN(500), 0, true)
	case 4: // a stream with losses and late copies
		for range 10 {
			f.stream(1+rng.IntN(300), 0.3, false)
			f.late()
		}
		f.settle()
	case 5: // a pause that is no silence
		f.now = f.now.Add(time.Duration(rng.IntN(8)) * time.Second)
		f.late()
		f.stream(100, 0, true)
	case 6: // a gap, and late copies before it is passed
		f.next += rng.IntN(onceLimit)
		f.late()
		f.gapPassed()
	case 7: // a gap of more than half the range, copies of what is behind it
		f.next += 32_768 + rng.IntN(32_768)
		for range 20 {
			f.stream(rng.IntN(300), 0.1, false)
			f.late()
		}
		f.settle()
	case 8: // the same, and a silence
		f.next += 32_768 + rng.IntN(32_768)
		f.silence()
	case 9: // the sender starts again, after a silence
		f.first = (f.next + 65_535) &^ 65_535
		f.next = f.first
		f.silence()
	default:
		f.stream(rng.IntN(3000), 0, true)
	}
}

// gapPassed sends two packets in order, the second of which is delivered
// wherever a gap of less than half the range has ended.
func (f *flight) gapPassed() {
	f.stream(1, 0, false)
	f.stream(100, 0, true)
}

// silence makes all copies too old. Behind it the second packet is delivered
// wherever it may be, but where the window has taken it for a duplicate.
func (f *flight) silence() {
	f.now = f.now.Add(10 * time.Second)
	w := &f.to.in.seen
	if d := int(w.Next() - 1 - uint16(f.next)); d < w.Len()+2 {
		f.settle()
		return
	}
	f.gapPassed()
	f.first = f.next - 101 // copies of what was before do not live
}
