package reliable

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A flowRun has one endpoint send packets of some bytes, lower headers included, to
// another, both with the figures of a Conn, which updates them 60 times a second.
type flowRun struct {
	t        *testing.T
	from, to *Endpoint
	now      time.Duration
	next     time.Duration // update
	acks     uint16
	each     func()
}

const flowBytes = 235

func newFlowRun(t *testing.T) *flowRun {
	cfg := &Config{MaxWindow: 16384, AckBuffer: -1, SmoothingInterval: time.Second / 60}
	r := &flowRun{t: t, each: func() {}}
	r.from, _ = newEndpoint(cfg, testTime(0), nil)
	r.to, _ = newEndpoint(cfg, testTime(0), nil)
	return r
}

func (r *flowRun) time() time.Time { return testTime(0).Add(r.now) }

// until lets time go by.
func (r *flowRun) until(at time.Duration) {
	for ; r.next <= at; r.next += time.Second / 60 {
		r.now = max(r.now, r.next)
		r.from.Update(r.time())
		r.to.Update(r.time())
		r.each()
	}
	r.now = at
}

// packet returns the datagram of the next packet.
func (r *flowRun) packet() []byte {
	var out Batch
	h := Header{Sequence: uint16(r.from.NextID()), Ack: 65535}
	mustSend(r.t, r.from, r.time(), make([]byte, flowBytes-28-h.size()), &out)
	return out.At(0)
}

// cross has a packet arrive, and its acknowledgement.
func (r *flowRun) cross() {
	require.Equal(r.t, Delivered, r.to.Receive(r.time(), r.packet()))
	ack := Header{Sequence: r.acks, Ack: uint16(r.from.NextID()) - 1, AckBits: 1<<32 - 1}
	require.Equal(r.t, Delivered, r.from.Receive(r.time(), AppendHeader(nil, ack)))
	r.acks++
}

// A flow of steady packets has their rate, from the second second on.
func TestBandwidthOfSteadyPackets(t *testing.T) {
	for _, rate := range []int{1, 5, 10, 20, 60, 128, 1000} {
		r := newFlowRun(t)
		n := max(30, 4*rate)
		for i := range n {
			r.until(time.Duration(i) * time.Second / time.Duration(rate))
			r.cross()
		}
		r.until(r.now)
		sent, received := r.from.Stats(), r.to.Stats()
		kbps := float64(rate) * flowBytes * 8 / 1000
		require.InEpsilon(t, kbps, received.ReceivedBandwidth, 0.03, "received at %d/s", rate)
		require.Greater(t, float64(sent.SentBandwidth), kbps*0.95, "sent at %d/s", rate)
		require.Less(t, float64(sent.SentBandwidth), kbps, "sent at %d/s", rate)
		require.InEpsilon(t, sent.SentBandwidth, sent.AckedBandwidth, 0.001, "acknowledged at %d/s", rate)
	}
}

// What a stall holds back arrives at once, and is taken over the stall; updates fall
// into the burst, too.
func TestBandwidthAfterStall(t *testing.T) {
	const rate, kbps = 60, 60 * flowBytes * 8.0 / 1000
	for _, stall := range []time.Duration{100 * time.Millisecond, time.Second, 3 * time.Second, 10 * time.Second} {
		r := newFlowRun(t)
		most := float32(0)
		r.each = func() { most = max(most, r.to.Stats().ReceivedBandwidth) }
		var held [][]byte
		for i := range 15 * rate {
			r.until(time.Duration(i) * time.Second / rate)
			if at := r.now - 2*time.Second; at >= 0 && at < stall {
				held = append(held, r.packet())
				continue
			}
			for j, d := range held {
				r.until(r.now + 100*time.Microsecond)
				r.to.Receive(r.time(), d)
				if j == 0 {
					r.to.Update(r.time())
				}
			}
			held = nil
			r.cross()
		}
		require.Less(t, float64(most), 1.3*kbps, "after a stall of %v", stall)
	}
}

// In silence the bandwidths fall: what went by is taken over the silence.
func TestBandwidthInSilence(t *testing.T) {
	r := newFlowRun(t)
	for i := range 600 {
		r.until(time.Duration(i) * time.Second / 60)
		r.cross()
	}
	last, full := r.now, r.to.Stats().ReceivedBandwidth
	for _, silence := range []time.Duration{2, 10, 100} {
		r.until(last + silence*time.Second)
		want := float64(full) / float64(silence)
		got := r.to.Stats().ReceivedBandwidth
		require.Less(t, float64(got), 1.1*want, "after %d s", silence)
		require.Greater(t, float64(got), 0.4*want, "after %d s", silence)
	}
}

// The first packets are many at once, and taken over half a second.
func TestBandwidthOfFirstBurst(t *testing.T) {
	r := newFlowRun(t)
	for range 20 {
		r.cross()
	}
	r.until(400 * time.Millisecond)
	require.Less(t, float64(r.to.Stats().ReceivedBandwidth), 20*flowBytes*8/1000/0.5+0.01)
	require.Positive(t, r.to.Stats().ReceivedBandwidth)
	r.to.Reset()
	require.Equal(t, r.to.MemoryUsage(), measure(r.to))
	r.until(10 * time.Second)
	require.Less(t, float64(r.to.Stats().ReceivedBandwidth), 1e-4, "after Reset")
}
