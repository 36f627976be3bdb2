package simnet

import (
	"encoding/binary"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"volley/internal/testenv"
)

// TestPresets measures what each preset does, in virtual time, and compares it
// with its figures.
func TestPresets(t *testing.T) {
	for _, p := range Presets() {
		t.Run(p.Name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				rtts := roundTrips(t, p, 5000)
				near(t, "RTT", rtts[len(rtts)/2].Seconds(), p.RTT.Seconds(), 0.1)
				near(t, "RTT90", rtts[len(rtts)*9/10].Seconds(), p.RTT90.Seconds(), 0.1)
				spread := rtts[len(rtts)*9/10] - rtts[len(rtts)/2]
				near(t, "RTT90-RTT", spread.Seconds(), (p.RTT90 - p.RTT).Seconds(), 0.1)
				if rtts[0] < 0 || rtts[len(rtts)-1] > 100*p.RTT90 {
					t.Errorf("round trips from %v to %v", rtts[0], rtts[len(rtts)-1])
				}
			})
			if testenv.Race {
				return // what follows is long, and has nothing to race
			}
			bubble(t, func(t *testing.T) {
				loss, burst := losses(p.Up, 4_000_000)
				near(t, "Loss", loss, p.Loss, 0.1)
				if p.Burst > 1 {
					near(t, "Burst", burst, p.Burst, 0.1)
				}
				near(t, "Up", throughput(t, p.Up), float64(p.Up.Bandwidth), 0.1)
				near(t, "Down", throughput(t, p.Down), float64(p.Down.Bandwidth), 0.1)
			})
		})
	}
}

func near(t *testing.T, what string, got, want, share float64) {
	t.Helper()
	if math.Abs(got-want) > share*want {
		t.Errorf("%s = %.4g, want %.4g within %.0f %%", what, got, want, 100*share)
	}
}

// presetPair returns both ends of links, with receive buffers that hold
// everything.
func presetPair(t *testing.T, up, down Link) (user, server *Conn) { return pair(t, 7, up, down) }

// roundTrips returns sorted round-trip times of small datagrams, sent so far
// apart that hardly one has to wait for another.
func roundTrips(t *testing.T, p Preset, count int) (rtts []time.Duration) {
	user, server := presetPair(t, p.Up, p.Down)
	go func() {
		buf := make([]byte, 100)
		for {
			n, err := server.Read(buf)
			if err != nil {
				return
			}
			server.Write(buf[:n])
		}
	}()
	start := time.Now()
	apart := 50 * p.RTT90
	go func() {
		var b [8]byte
		for range count {
			binary.BigEndian.PutUint64(b[:], uint64(time.Since(start)))
			user.Write(b[:])
			time.Sleep(apart)
		}
	}()
	user.SetReadDeadline(start.Add(time.Duration(count)*apart + time.Minute))
	buf := make([]byte, 100)
	for {
		if _, err := user.Read(buf); err != nil {
			break
		}
		rtts = append(rtts, time.Since(start)-time.Duration(binary.BigEndian.Uint64(buf)))
	}
	server.Close()
	slices.Sort(rtts)
	return rtts
}

// losses returns the share of datagrams that a link loses, and how many it loses
// in a row.
func losses(l Link, count uint64) (share, burst float64) {
	lost, bursts, before, bad := 0, 0, false, false
	for i := range count {
		f := l.decide(7, i, &bad)
		if f.lost {
			lost++
			if !before {
				bursts++
			}
		}
		before = f.lost
	}
	return float64(lost) / float64(count), float64(lost) / float64(bursts)
}

// throughput returns the bits per second that arrive in datagrams of 1200 bytes
// while half as many again are sent.
func throughput(t *testing.T, l Link) float64 {
	l.Burst, l.Loss = nil, 0
	a, _ := presetPair(t, l, Link{})
	const size, warm, length = 1200, 2 * time.Second, 2 * time.Second
	interval := time.Duration(float64(8*size) / (1.5 * float64(l.Bandwidth)) * float64(time.Second))
	start, before := time.Now(), Stats{}
	for {
		since := time.Since(start)
		if since >= warm && before.Sent == 0 {
			before = a.Network().Stats()
		}
		if since >= warm+length {
			break
		}
		a.Write(make([]byte, size))
		time.Sleep(interval)
	}
	return 8 * float64(a.Network().Stats().DeliveredBytes-before.DeliveredBytes) / length.Seconds()
}

func TestPresetTexts(t *testing.T) {
	for _, p := range Presets() {
		if p.Name == "" || p.About == "" || !strings.HasSuffix(p.Source, ".") {
			t.Errorf("name %q, about %q, source %q", p.Name, p.About, p.Source)
		}
	}
}
