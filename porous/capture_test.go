package porous

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"os"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"volley/capture"
	"volley/internal/recording"
	"volley/internal/replay"
	"volley/internal/testenv"
	"volley/porous/internal/core"
	"volley/simnet"
)

func newRecorder(tb testing.TB, cfg *capture.Config) *capture.Recorder {
	tb.Helper()
	r, err := capture.NewRecorder(cfg)
	require.NoError(tb, err)
	return r
}

func written(tb testing.TB, r *capture.Recorder) []byte {
	tb.Helper()
	var b bytes.Buffer
	_, err := r.WriteTo(&b)
	require.NoError(tb, err)
	return b.Bytes()
}

// roughTalk has two connections on a link that does everything send messages of
// many sizes on three channels, in all modes, and close in order.
func roughTalk(t *testing.T, cfg *Config, seed uint64) {
	link := simnet.Link{Latency: 20 * time.Millisecond, Jitter: 10 * time.Millisecond, Loss: 0.2, Duplicate: 0.05, Reorder: 0.1}
	x, y := simnet.Pair(seed, link, link)
	a, b := wrapped(x, cfg), wrapped(y, cfg)
	var wg sync.WaitGroup
	for i, c := range []*Conn{a, b} {
		for n := range 3 {
			go func() {
				p := make([]byte, c.MaxMessageSize())
				for {
					if _, err := c.Channel(n).Read(p); err != nil {
						return
					}
				}
			}()
		}
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(seed, uint64(i)))
			for n := range 60 {
				ch := c.Channel(rng.IntN(3))
				size := rng.IntN(300)
				if rng.IntN(15) == 0 {
					size *= 40 // fragments
				}
				var until time.Time
				if rng.IntN(10) == 0 {
					until = time.Now().Add(50 * time.Millisecond)
				}
				msg := bytes.Repeat([]byte{byte(n)}, size+1)
				if _, err := ch.WriteMessageUntil(context.Background(), msg, Reliable+Mode(rng.IntN(3)), until); err != nil {
					return
				}
				if rng.IntN(20) == 0 {
					ch.SetHighPriority(rng.IntN(2) > 0)
				}
				time.Sleep(time.Duration(rng.IntN(10000)) * time.Microsecond)
			}
		})
	}
	wg.Wait()
	time.Sleep(5 * time.Second)
	a.Close()
	b.Close()
	synctest.Wait()
}

// What two connections did on a rough link is done again by fresh cores, on many
// seeds and with every kind of congestion control.
func TestReplaySeeds(t *testing.T) {
	seeds := testenv.Raced(100, 21)
	if testing.Short() {
		seeds = 9
	}
	messages, sent, received := 0, 0, 0
	for seed := range uint64(seeds) {
		synctest.Test(t, func(t *testing.T) {
			r := newRecorder(t, nil)
			roughTalk(t, &Config{
				Channels: 3, Capture: r, Congestion: []string{"cubic", "tolerant", "paper"}[seed%3],
				Redundancy: seed%2 == 0, VerifyDisconnect: seed%5 == 0, SmallFrames: seed%7 == 0,
			}, seed)
			require.NoError(t, r.Err())
			report, err := Replay(bytes.NewReader(written(t, r)))
			require.NoError(t, err)
			require.Len(t, report.Connections, 2)
			require.True(t, report.Same(), "seed %d: %v", seed, report)
			for _, c := range report.Connections {
				require.Equal(t, c.Recorded, c.Digest)
				messages, sent, received = messages+c.Messages, sent+c.Sent, received+c.Received
			}
		})
	}
	require.Greater(t, messages, 2*seeds*15)
	require.Greater(t, sent, 2*seeds*30)
	require.Greater(t, received, 2*seeds*30)
}

// Servers of a Listener ask for memory; readers that are away make the core refuse.
func TestReplayListener(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRecorder(t, nil)
		n := simnet.New(1)
		defer n.Close()
		n.SetDefault(simnet.Link{Latency: 10 * time.Millisecond})
		socket, err := n.Listen("10.0.0.1:7")
		require.NoError(t, err)
		small := &Config{Capture: r, MaxMessageSize: 1000, ReceiveBuffer: 400_000}
		l, err := (&ListenConfig{Config: small, MaxMemory: 100_000}).ListenOn(socket)
		require.NoError(t, err)
		for i := range 3 {
			x, err := n.Dial(fmt.Sprintf("10.0.0.2:%d", i+1), "10.0.0.1:7")
			require.NoError(t, err)
			c := wrapped(x, small)
			s, err := l.AcceptConn(context.Background())
			require.NoError(t, err)
			for range 100 {
				_, err := c.Write(make([]byte, 1000))
				require.NoError(t, err)
			}
			time.Sleep(3 * time.Second)
			defer s.Abort()
			defer c.Abort()
		}
		time.Sleep(time.Second)
		l.Close()
		report, err := Replay(bytes.NewReader(written(t, r)))
		require.NoError(t, err)
		require.True(t, report.Same(), report)
		require.Len(t, report.Connections, 6)
	})
}

// Messages are not left out of a capture whose core looks into them.
func TestCaptureOmitted(t *testing.T) {
	r := newRecorder(t, &capture.Config{OmitPayload: true})
	a, b := Pipe(&Config{Capture: r})
	a.Write([]byte("secret"))
	b.Read(make([]byte, 100))
	a.Abort()
	b.Abort()
	require.Zero(t, r.Stats().Connections)
}

// captureOf returns a short capture.
func captureOf(tb testing.TB) []byte {
	r := newRecorder(tb, nil)
	a, b := Pipe(&Config{Capture: r, Channels: 2, MaxMessageSize: 5000})
	for n := range 20 {
		a.Channel(n % 2).Write(make([]byte, 1+n*200))
		b.Channel(n % 2).Read(make([]byte, 5000))
	}
	a.Close()
	b.Close()
	return written(tb, r)
}

func TestReplayDiverges(t *testing.T) {
	report, err := replay.Replay(bytes.NewReader(captureOf(t)), coreProtocol, replay.MaxMemory, func(info *recording.Connection) (replay.Core, error) {
		var c coreConfig
		require.NoError(t, json.Unmarshal(info.Config, &c))
		c.ID++
		info.Config, _ = json.Marshal(c)
		return newReplayed(info)
	})
	require.NoError(t, err)
	for _, c := range report.Connections {
		require.NotNil(t, c.Divergence)
	}
	for _, change := range []func(*coreConfig){
		func(c *coreConfig) { c.Channels = 257 },
		func(c *coreConfig) { c.Channels = -1 },
		func(c *coreConfig) { c.MaxPacket = 1 << 30 },
		func(c *coreConfig) { c.SendBuffer = 1 },
		func(c *coreConfig) { c.Watchdog = -1 },
		func(c *coreConfig) { c.Controller = 77 },
		func(c *coreConfig) { c.Version = 2 },
	} {
		_, err := replay.Replay(bytes.NewReader(captureOf(t)), coreProtocol, replay.MaxMemory, func(info *recording.Connection) (replay.Core, error) {
			var c coreConfig
			require.NoError(t, json.Unmarshal(info.Config, &c))
			change(&c)
			info.Config, _ = json.Marshal(c)
			return newReplayed(info)
		})
		var fe *capture.FormatError
		require.ErrorAs(t, err, &fe)
	}
}

// The memory that cores of a replay may hold has a limit.
func TestReplayMemory(t *testing.T) {
	for memory, ok := range map[int]bool{1 << 20: true, 1 << 12: false} {
		_, err := replay.Replay(bytes.NewReader(captureOf(t)), coreProtocol, memory, newReplayed)
		if ok {
			require.NoError(t, err)
			continue
		}
		require.ErrorContains(t, err, "more memory is needed than replays may take")
	}
}

// Captures that were changed on purpose never make a replay panic.
func TestReplayMutated(t *testing.T) {
	b := captureOf(t)
	runs := uint64(1000)
	if testing.Short() {
		runs = 200
	}
	wrong := 0
	for seed := range runs {
		report, err := Replay(bytes.NewReader(mutated(b, seed)))
		var fe *capture.FormatError
		if err != nil {
			require.ErrorAs(t, err, &fe)
			wrong++
		} else if !report.Same() {
			wrong++
		}
	}
	require.Greater(t, wrong, int(runs)/2)
}

func FuzzReplay(f *testing.F) {
	b := captureOf(f)
	f.Add(uint64(1))
	f.Fuzz(func(t *testing.T, seed uint64) { Replay(bytes.NewReader(mutated(b, seed))) })
}

// mutated returns a capture with a few changes, and checksums that are right.
func mutated(b []byte, seed uint64) []byte {
	rng := rand.New(rand.NewPCG(seed, 1))
	const magic = 8
	n, size := binary.Uvarint(b[magic:])
	end := magic + size + int(n) + 4
	out := bytes.Clone(b[:end])
	var bodies [][]byte
	for b := b[end:]; len(b) > 0; b = b[size+int(n)+4:] {
		n, size = binary.Uvarint(b)
		bodies = append(bodies, b[size:size+int(n)])
	}
	for _, body := range bodies {
		switch body = bytes.Clone(body); rng.IntN(60) {
		case 0, 1, 2:
			body[rng.IntN(len(body))] ^= byte(1 << rng.IntN(8))
		case 3:
			body = body[:rng.IntN(len(body))]
		case 4:
			continue
		case 5:
			body = bodies[rng.IntN(len(bodies))]
		}
		out = binary.AppendUvarint(out, uint64(len(body)))
		out = append(out, body...)
		out = binary.LittleEndian.AppendUint32(out, crc32.Checksum(body, crc32.MakeTable(crc32.Castagnoli)))
	}
	return out
}

// A capture that an earlier version of the library has made still replays, as
// long as the format and the core's answers are the same.
func TestReplayEarlierCapture(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("the capture is of a processor of another kind")
	}
	f, err := os.Open("testdata/format1.vcap.gz")
	require.NoError(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	require.NoError(t, err)
	report, err := Replay(z)
	require.NoError(t, err)
	require.True(t, report.Same(), report)
	require.Len(t, report.Connections, 2)
}

// On a session of package secure, frames have one byte less, which a replay knows.
func TestSecureFrames(t *testing.T) {
	set, err := newSettings(nil, core.MTUSecure)
	require.NoError(t, err)
	require.Equal(t, uint8(1), set.core.Version)
	require.Equal(t, core.MTUSecure, set.core.MTU)
	captured := newCoreConfig(&set.core, ids{})
	again, err := captured.config()
	require.NoError(t, err)
	require.Equal(t, core.MTUSecure, again.MTU)
	_, err = newSettings(nil, core.MTUSecure-1)
	require.ErrorContains(t, err, "it carries at most 1198 bytes")
}
