package reliable

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// A modelPair is an Endpoint and its model, given the same things.
type modelPair struct {
	e     *Endpoint
	m     *model
	rx    []modelPacket
	out   Batch
	inbox [][]byte // datagrams on their way here
	ticks int      // of 1/1024 s
}

func (p *modelPair) HandleMessage(sequence uint16, payload []byte) bool {
	p.rx = append(p.rx, modelPacket{sequence, string(payload)})
	return p.m.accept
}

func newModelPair(t *testing.T, cfg *Config) *modelPair {
	p := &modelPair{m: newModel(*cfg)}
	e, err := newEndpoint(cfg, testTime(0), p)
	if err != nil {
		t.Fatal(err)
	}
	p.e = e
	return p
}

func (p *modelPair) seconds() float64 { return float64(p.ticks) / 1024 }

// modelConfigs are sizes that bring out different rules.
func modelConfigs() map[string]Config {
	base := DefaultConfig()
	base.MaxPacketSize, base.FragmentAbove, base.FragmentSize, base.MaxFragments = 100, 16, 12, 9
	small, odd, tiny := base, base, base
	small.SentBuffer, small.ReceivedBuffer, small.ReassemblyBuffer, small.RTTHistory = 64, 32, 8, 50
	odd.SentBuffer, odd.ReceivedBuffer, odd.ReassemblyBuffer, odd.RTTHistory = 100, 77, 13, 33
	tiny.SentBuffer, tiny.ReceivedBuffer, tiny.ReassemblyBuffer, tiny.AckBuffer = 2, 4, 1, 3
	tiny.FragmentAbove = 5
	bare := odd // packets without a payload then have no bytes
	bare.PacketHeaderSize = -1
	bareTwo := small
	bareTwo.PacketHeaderSize = -1
	return map[string]Config{
		"default": base, "small": small, "odd": odd, "tiny": tiny,
		"bare odd": bare, "bare small": bareTwo,
	}
}

// TestModel compares the endpoint with the model over random operations, at
// every step.
func TestModel(t *testing.T) {
	ops := 300_000
	if testing.Short() {
		ops /= 10
	}
	for name, cfg := range modelConfigs() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(1, uint64(len(name))))
			pairs := [2]*modelPair{newModelPair(t, &cfg), newModelPair(t, &cfg)}
			for i := range ops {
				p, peer := pairs[i&1], pairs[i&1^1]
				if err := p.randomOp(rng, peer); err != nil {
					t.Fatalf("operation %d: %v", i, err)
				}
			}
			if n := pairs[0].e.Counters().PacketsSent; !testing.Short() && n < 2*65536/2 {
				t.Errorf("%d packets sent, too few for the sequence to wrap around", n)
			}
		})
	}
}

func (p *modelPair) randomOp(rng *rand.Rand, peer *modelPair) error {
	switch r := rng.IntN(100); {
	case r < 45:
		return p.randomSend(rng, peer)
	case r < 90 && len(p.inbox) > 0:
		return p.randomReceive(rng)
	case r < 97:
		p.ticks += rng.IntN(40)
		p.e.Update(testTime(p.seconds()))
		p.m.update(p.seconds())
		return p.compareStats()
	case r < 99:
		p.e.ClearAcks()
		p.m.acks = p.m.acks[:0]
	default:
		p.m.accept = rng.IntN(10) > 0
	}
	return nil
}

func (p *modelPair) randomSend(rng *rand.Rand, peer *modelPair) error {
	size := rng.IntN(16)
	if rng.IntN(5) == 0 {
		size = rng.IntN(103)
	}
	payload := testPayload(size, rng.Uint32())
	p.out.Reset()
	_, _ = p.e.Send(testTime(p.m.now), payload, &p.out)
	want := p.m.send(payload)
	if p.out.Len() != len(want) {
		return fmt.Errorf("%d datagrams, want %d", p.out.Len(), len(want))
	}
	for i, d := range want {
		if !bytes.Equal(p.out.At(i), d) {
			return fmt.Errorf("datagram %d = %x, want %x", i, p.out.At(i), d)
		}
		if rng.IntN(100) >= 15 { // the rest is lost
			peer.inbox = append(peer.inbox, d)
		}
	}
	if len(peer.inbox) > 60 { // so many are overtaken by all others
		peer.inbox = peer.inbox[len(peer.inbox)-60:]
	}
	return nil
}

// randomReceive takes a datagram, mostly the oldest, and mostly once.
func (p *modelPair) randomReceive(rng *rand.Rand) error {
	i := 0
	if rng.IntN(4) == 0 {
		i = rng.IntN(len(p.inbox))
	}
	d := p.inbox[i]
	if rng.IntN(10) > 0 {
		p.inbox = slices.Delete(p.inbox, i, i+1)
	}
	if rng.IntN(50) == 0 {
		d = mutate(rng, d)
	}
	p.rx, p.m.rx = p.rx[:0], p.m.rx[:0]
	p.e.Receive(testTime(p.m.now), d)
	p.m.receive(d)
	if !slices.Equal(p.rx, p.m.rx) {
		return fmt.Errorf("receive %x: delivered %v, want %v", d, p.rx, p.m.rx)
	}
	if !slices.Equal(p.e.Acks(), p.m.acks) {
		return fmt.Errorf("receive %x: acks %v, want %v", d, p.e.Acks(), p.m.acks)
	}
	if p.e.Counters() != p.m.counters {
		return fmt.Errorf("receive %x: counters %+v, want %+v", d, p.e.Counters(), p.m.counters)
	}
	return nil
}

// mutate returns a damaged copy of d.
func mutate(rng *rand.Rand, d []byte) []byte {
	d = bytes.Clone(d)
	switch rng.IntN(4) {
	case 0:
		return d[:rng.IntN(len(d)+1)]
	case 1:
		return append(d, byte(rng.Uint32()))
	case 2:
		if len(d) > 3 { // a little ahead or behind
			d[1] += byte(rng.IntN(64) - 32)
		}
		return d
	}
	if len(d) > 0 {
		d[rng.IntN(min(len(d), 12))] ^= 1 << rng.IntN(8)
	}
	return d
}

func (p *modelPair) compareStats() error {
	got, want := statList(p.e.Stats()), statList(p.m.stats)
	for i := range got {
		if !close32(got[i], want[i]) {
			return fmt.Errorf("figure %d = %v, want %v", i, got[i], want[i])
		}
	}
	return nil
}

// TestEveryFragmentOrder delivers up to 6 fragments in every order, with every
// one of them repeated at every later place.
func TestEveryFragmentOrder(t *testing.T) {
	cfg := &Config{MaxPacketSize: 48, FragmentAbove: 1, FragmentSize: 8}
	for count := 1; count <= 6; count++ {
		for _, size := range []int{8*count - 7, 8 * count} {
			payload := testPayload(max(size, 2), uint32(count))
			sender, _ := newEndpoint(cfg, testTime(0), nil)
			var out Batch
			mustSend(t, sender, testTime(0), payload, &out)
			eachOrder(out.Len(), func(order []int) {
				checkOrder(t, cfg, &out, order, payload)
				for i := range order {
					for j := i + 1; j <= len(order); j++ {
						checkOrder(t, cfg, &out, slices.Insert(slices.Clone(order), j, order[i]), payload)
					}
				}
			})
		}
	}
}

// eachOrder calls f with every permutation of 0..n-1.
func eachOrder(n int, f func([]int)) {
	order := make([]int, 0, n)
	var next func()
	next = func() {
		if len(order) == n {
			f(order)
			return
		}
		for i := range n {
			if !slices.Contains(order, i) {
				order = append(order, i)
				next()
				order = order[:len(order)-1]
			}
		}
	}
	next()
}

func checkOrder(t *testing.T, cfg *Config, out *Batch, order []int, payload []byte) {
	t.Helper()
	var got []string
	e, _ := newEndpoint(cfg, testTime(0), HandlerFunc(func(_ uint16, p []byte) bool {
		got = append(got, string(p))
		return true
	}))
	for _, i := range order {
		e.Receive(testTime(0), out.At(i))
	}
	if len(got) != 1 || got[0] != string(payload) {
		t.Fatalf("order %v: delivered %s, want the payload once", order, strings.Join(got, "|"))
	}
}
