package volley

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"flag"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"volley/capture"
	"volley/internal/pattern"
	"volley/internal/recording"
	"volley/internal/replay"
	"volley/internal/testenv"
	"volley/reliable"
	"volley/simnet"
)

// replayable wants all that a Recorder has to be done again, and returns it.
func replayable(t *testing.T, r *capture.Recorder) []*capture.Replayed {
	t.Helper()
	require.NoError(t, r.Err())
	report, err := Replay(bytes.NewReader(written(t, r)))
	require.NoError(t, err)
	require.True(t, report.Same(), report)
	return report.Connections
}

// With OmitPayload there are no messages in a capture, and it replays all the same.
func TestReplayWithoutPayload(t *testing.T) {
	for seed := range uint64(5) {
		synctest.Test(t, func(t *testing.T) {
			r := newRecorder(t, &capture.Config{OmitPayload: true})
			roughTraffic(t, &Config{Capture: r}, seed)
			replayable(t, r)
			whole := newRecorder(t, nil)
			roughTraffic(t, &Config{Capture: whole}, seed)
			require.Less(t, 5*r.Stats().Bytes, 4*whole.Stats().Bytes)
		})
	}
	synctest.Test(t, func(t *testing.T) {
		r := newRecorder(t, &capture.Config{OmitPayload: true})
		a, b := Pipe(&Config{Capture: r})
		secret := []byte("a secret of our users")
		for _, n := range []int{1, 100, 700} { // up to 15 fragments
			a.Write(bytes.Repeat(secret, n))
			b.Read(make([]byte, 20000))
		}
		a.Close()
		b.Close()
		file := written(t, r)
		require.False(t, bytes.Contains(file, secret[:4]))
		require.Equal(t, 3, replayable(t, r)[1].Messages)
	})
}

// A Listener's limit of memory is a thing that a core asks about.
func TestReplayLimitedMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRecorder(t, nil)
		_, l, dial := network(t, &ListenConfig{Config: &Config{Capture: r}, MaxMemory: 20_000})
		var conns []*Conn
		for i := range 4 {
			c := dial("10.0.0.2:"+string(rune('1'+i)), &Dialer{})
			conns = append(conns, c, accept(t, l))
		}
		var refused uint64
		for n := range 200 {
			for _, c := range conns {
				c.Write(make([]byte, 1+n*37%4000))
			}
			time.Sleep(5 * time.Millisecond)
		}
		for _, c := range conns {
			refused += c.Stats().MessagesRefused
			c.Close()
		}
		require.Positive(t, refused)
		require.Len(t, replayable(t, r), 4, "those of the listener")
	})
}

// Questions after a restart are sent without the core, and are in the capture.
func TestCaptureRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRecorder(t, nil)
		cfg := *noticing
		cfg.Capture = r
		s := establish(t, &cfg, noticing)
		s.restart()
		s.c.Write([]byte("hello"))
		_, err := s.end(time.Minute)
		require.ErrorIs(t, err, ErrPeerRestarted)
		replayable(t, r)
		require.Equal(t, map[byte]int{helloPrefix: 1, confirmPrefix: 1, questionPrefix: 1}, asides(t, r))
	})
}

// records iterates over the records of a capture.
func records(t *testing.T, b []byte) func(yield func(*recording.Record) bool) {
	return func(yield func(*recording.Record) bool) {
		r, err := recording.NewReader(bytes.NewReader(b))
		require.NoError(t, err)
		for {
			record, err := r.Next()
			if err == io.EOF {
				return
			}
			require.NoError(t, err)
			if !yield(record) {
				return
			}
		}
	}
}

// The peers of a PacketConn, which forget each other and start anew.
func TestReplayPacketConn(t *testing.T) {
	for _, before := range []int{1, 100} {
		synctest.Test(t, func(t *testing.T) {
			r := newRecorder(t, nil)
			n := simnet.New(9)
			defer n.Close()
			n.SetDefault(simnet.Link{Latency: 10 * time.Millisecond, Jitter: 20 * time.Millisecond, Loss: 0.1, Duplicate: 0.1})
			k := newTalk(t, n, 1, 0, 0)
			defer func() { k.close() }()
			for range 3 {
				require.NoError(t, k.a.Close())
				time.Sleep(time.Second)
				k.a = packetAt(t, n, "10.0.0.1:7", &Config{Capture: r})
				for range before {
					k.send(k.b, k.a, 1, 40, 100*time.Millisecond)
					k.send(k.a, k.b, 1, 40, time.Millisecond)
				}
				time.Sleep(time.Second)
				k.read()
			}
			require.NoError(t, k.a.Close())
			require.GreaterOrEqual(t, len(replayable(t, r)), 3)
		})
	}
}

// All ways to send, from several goroutines, over sockets; under -race.
func TestReplayConcurrent(t *testing.T) {
	r := newRecorder(t, &capture.Config{MaxBytes: 64 << 20})
	client, server := udpPair(t, &Config{Capture: r})
	var wg sync.WaitGroup
	for _, c := range []*Conn{client, server} {
		go func() {
			for {
				if _, err := c.ReadMessage(context.Background(), nil); err != nil {
					return
				}
			}
		}()
		wg.Go(func() {
			for n := range 300 {
				c.Write(make([]byte, n*n%5000))
			}
		})
		wg.Go(func() {
			for range 50 {
				c.WriteBatch(nil, [][]byte{{1}, {2, 3}, make([]byte, 2000), nil})
				c.Stats()
			}
		})
		wg.Go(func() {
			for range 100 {
				WriteAll([]byte("all"), slices.Values([]*Conn{client, server}))
			}
		})
	}
	wg.Wait()
	var file bytes.Buffer // while the connections are open
	_, err := r.WriteTo(&file)
	require.NoError(t, err)
	report, err := Replay(&file)
	require.NoError(t, err)
	require.True(t, report.Same(), report)
	client.Close()
	server.Close()
	require.Len(t, replayable(t, r), 2)
}

// A core of another configuration diverges, which is told.
func TestReplayDiverges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRecorder(t, nil)
		roughTraffic(t, &Config{Capture: r}, 1)
		file := written(t, r)
		for name, change := range map[string]func(*coreConfig){
			"FragmentAbove": func(c *coreConfig) { c.FragmentAbove = 100 },
			"LostAfter":     func(c *coreConfig) { c.LostAfter = 30 * time.Millisecond },
			"AckDelay":      func(c *coreConfig) { c.AckDelay = 0 },
			"MaxWindow":     func(c *coreConfig) { c.MaxWindow = 0 },
			"RTTSmoothing":  func(c *coreConfig) { c.RTTSmoothing = 1 },
		} {
			report, err := replay.Replay(bytes.NewReader(file), coreProtocol, replay.MaxMemory, func(info *recording.Connection) (replay.Core, error) {
				var cfg coreConfig
				require.NoError(t, json.Unmarshal(info.Config, &cfg))
				change(&cfg)
				info.Config, _ = json.Marshal(cfg)
				return newReplayed(info)
			})
			require.NoError(t, err)
			c := report.Connections[0]
			require.NotNil(t, c.Divergence, name)
			require.NotEqual(t, c.Recorded, c.Digest)
			require.NotEqual(t, c.Divergence.Recorded, c.Divergence.Replayed, name)
		}
	})
}

// A Recorder that has stopped costs new connections no memory.
func TestCaptureStopped(t *testing.T) {
	r := newRecorder(t, nil)
	require.NoError(t, r.Close())
	a, b := Pipe(&Config{Capture: r})
	a.mu.Lock()
	require.Nil(t, a.extra())
	a.mu.Unlock()
	_, err := a.Write([]byte("hello"))
	require.NoError(t, err)
	m, err := b.ReadMessage(context.Background(), nil)
	require.NoError(t, err)
	require.Equal(t, "hello", string(m))
	require.NoError(t, a.Close())
	require.NoError(t, b.Close())
	require.Zero(t, r.Stats().Dropped, "calls of connections that it did not know")
}

// The settings of an endpoint come back from a capture as they were.
func TestCoreConfig(t *testing.T) {
	all := reliable.Config{MaxPacketSize: 1, SentBuffer: 1, RTTSmoothing: 0.5, RTTHistory: 7, PacketHeaderSize: 8}
	all.MaxWindow, all.ReassemblyBytes, all.SmoothingInterval, all.AckDelay = 256, 1, 2, 3
	all.LostAfter, all.ReassemblyTimeout = 4, 5
	all.JumpGuard, all.MidStream, all.AckGuard, all.AckRefused = true, true, true, true
	for _, cfg := range []reliable.Config{{}, all} {
		j, err := captured(&cfg, 0)
		require.NoError(t, err)
		var c coreConfig
		require.NoError(t, json.Unmarshal(j, &c))
		require.Equal(t, coreConfig{Config: cfg}, c)
	}
	all.Reserve = func(int, bool) bool { return true }
	j, err := captured(&all, 0)
	require.NoError(t, err)
	require.Contains(t, string(j), `"Limited":true`)
}

// A fullDisk has room for so many bytes.
type fullDisk int

func (d *fullDisk) Write(b []byte) (int, error) {
	if *d -= fullDisk(len(b)); *d < 0 {
		return 0, errors.New("no space left on device")
	}
	return len(b), nil
}

// A disk that is full, or a limit, does nothing to the connection.
func TestCaptureFails(t *testing.T) {
	room := fullDisk(20_000)
	for name, cfg := range map[string]*capture.Config{
		"full disk": {Output: &room},
		"limit":     {MaxBytes: 64 << 10},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newRecorder(t, cfg)
			a, b := Pipe(&Config{Capture: r})
			for n := range uint32(1000) {
				synctest.Wait() // for the goroutine that writes
				_, err := a.Write(pattern.New(n, 200))
				require.NoError(t, err)
				m, err := b.ReadMessage(context.Background(), nil)
				require.NoError(t, err)
				got, err := pattern.Check(m)
				require.NoError(t, err)
				require.Equal(t, n, got)
			}
			require.Error(t, r.Err(), name)
			require.NotZero(t, r.Stats().Dropped)
			a.Close()
			b.Close()
			r.Close()
			if cfg.Output == nil {
				report, err := Replay(bytes.NewReader(written(t, r)))
				require.NoError(t, err)
				require.True(t, report.Same(), report)
				require.True(t, report.End.Limit)
			}
		})
	}
}

// Captures that were changed on purpose, with checksums that are right, never make
// a replay panic, nor take memory without limit.
func FuzzReplay(f *testing.F) {
	b := fuzzCapture(f)
	head, bodies := frames(b)
	for seed := range uint64(3) {
		f.Add(seed, uint16(seed*7), []byte("\x03\x01\x01\x02\x00"))
	}
	f.Fuzz(func(t *testing.T, seed uint64, at uint16, put []byte) {
		Replay(bytes.NewReader(mutated(head, bodies, seed, int(at), put)))
	})
}

func TestReplayMutated(t *testing.T) {
	head, bodies := frames(fuzzCapture(t))
	runs := testenv.Raced[uint64](3000, 600)
	if testing.Short() {
		runs = 300
	}
	wrong := 0
	for seed := range runs {
		report, err := Replay(bytes.NewReader(mutated(head, bodies, seed, int(seed)*31, nil)))
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

// fuzzCapture returns a short capture.
func fuzzCapture(tb testing.TB) []byte {
	r, err := capture.NewRecorder(nil)
	require.NoError(tb, err)
	a, b := Pipe(&Config{Capture: r, FragmentAbove: 50, FragmentSize: 40, MaxMessageSize: 400})
	for n := range uint32(40) {
		a.Write(pattern.New(n, int(4+n*7)))
		b.Write(pattern.New(n, 5))
		a.ReadMessage(context.Background(), nil)
		b.ReadMessage(context.Background(), nil)
	}
	a.Close()
	b.Close()
	var file bytes.Buffer
	r.WriteTo(&file)
	return file.Bytes()
}

// frames takes a capture apart.
func frames(b []byte) (head []byte, bodies [][]byte) {
	const magic = 8
	n, size := binary.Uvarint(b[magic:])
	head = b[:magic+size+int(n)+4]
	for b = b[len(head):]; len(b) > 0; b = b[size+int(n)+4:] {
		n, size = binary.Uvarint(b)
		bodies = append(bodies, b[size:size+int(n)])
	}
	return head, bodies
}

// mutated returns a capture with a few changes.
func mutated(head []byte, bodies [][]byte, seed uint64, at int, put []byte) []byte {
	rng := rand.New(rand.NewPCG(seed, 1))
	b := bytes.Clone(head)
	for i, body := range bodies {
		body = bytes.Clone(body)
		switch {
		case i == at%len(bodies) && len(put) > 0:
			body = put
		case rng.IntN(20) == 0:
			body[rng.IntN(len(body))] ^= byte(1 << rng.IntN(8))
		case rng.IntN(50) == 0:
			body = body[:rng.IntN(len(body))]
		case rng.IntN(50) == 0:
			continue
		case rng.IntN(50) == 0:
			body = bodies[rng.IntN(len(bodies))]
		}
		b = binary.AppendUvarint(b, uint64(len(body)))
		b = append(b, body...)
		b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(body, crc32.MakeTable(crc32.Castagnoli)))
	}
	return b
}

// A capture cannot make a replay take more memory than it may, whatever it says of
// its buffers.
func TestReplayMemory(t *testing.T) {
	r := newRecorder(t, nil)
	cfg := coreConfig{Config: reliable.Config{MaxPacketSize: 1 << 24, FragmentSize: 1<<16 - 100, MaxFragments: 256, AckBuffer: -1}}
	cfg.MaxPacketSize = cfg.MaxFragments * cfg.FragmentSize
	j, err := json.Marshal(cfg)
	require.NoError(t, err)
	tape := (*recording.Recorder)(r).Open(recording.Connection{Protocol: coreProtocol, Start: time.Unix(0, 0), Config: j})
	for n := range uint16(10) {
		d := reliable.AppendFragmentHeader(nil, reliable.FragmentHeader{Sequence: n, ID: 250, Count: 256})
		tape.Begin(recording.Receive, 0)
		tape.Data(append(d, make([]byte, cfg.FragmentSize)...), len(d)+cfg.FragmentSize)
		tape.Outputs().Result(2)
		tape.End()
	}
	wantMemory(t, r, 1<<24)

	// What connections have from the beginning counts too.
	r = newRecorder(t, nil)
	j, err = captured(&reliable.Config{AckBuffer: -1}, 0)
	require.NoError(t, err)
	for range 1000 {
		(*recording.Recorder)(r).Open(recording.Connection{Protocol: coreProtocol, Start: time.Unix(0, 0), Config: j})
	}
	wantMemory(t, r, 1<<20)
}

// A capture can say nothing of an endpoint's sizes that a Config cannot.
func TestReplayImpossible(t *testing.T) {
	for name, cfg := range map[string]reliable.Config{
		"SentBuffer":       {AckBuffer: -1, SentBuffer: 32749},
		"ReceivedBuffer":   {AckBuffer: -1, ReceivedBuffer: 32749},
		"ReassemblyBuffer": {AckBuffer: -1, ReassemblyBuffer: 1000},
		"RTTHistory":       {AckBuffer: -1, RTTHistory: 1 << 20},
		"AckBuffer":        {AckBuffer: 1 << 20},
	} {
		r := newRecorder(t, nil)
		j, err := captured(&cfg, 0)
		require.NoError(t, err)
		(*recording.Recorder)(r).Open(recording.Connection{Protocol: coreProtocol, Start: time.Unix(0, 0), Config: j})
		_, err = Replay(bytes.NewReader(written(t, r)))
		require.ErrorContains(t, err, "a connection of this package has other values", name)
	}
}

// wantMemory wants what r has to be replayed with so many bytes of memory, and not
// with much less.
func wantMemory(t *testing.T, r *capture.Recorder, memory int) {
	t.Helper()
	report, err := replay.Replay(bytes.NewReader(written(t, r)), coreProtocol, memory, newReplayed)
	require.NoError(t, err)
	require.True(t, report.Same(), report)
	_, err = replay.Replay(bytes.NewReader(written(t, r)), coreProtocol, memory>>6, newReplayed)
	require.ErrorContains(t, err, "more memory is needed than replays may take")
}

// updateCaptures writes the captures of testdata anew, as is right after an intended change
// of what a connection answers.
var updateCaptures = flag.Bool("update-captures", false, "write the captures of testdata anew")

// earlierScenes are the scenes of the captures in testdata.
var earlierScenes = map[string]func(t *testing.T, cfg *Config){
	"format1": func(t *testing.T, cfg *Config) { roughTraffic(t, cfg, 1) },
	// A client of a PacketConn that starts again at sequence 0.
	"format1-restarts": func(t *testing.T, cfg *Config) {
		n := simnet.New(9)
		defer n.Close()
		n.SetDefault(simnet.Link{Latency: 10 * time.Millisecond, Jitter: 20 * time.Millisecond, Loss: 0.1, Duplicate: 0.1})
		k := &talk{t: t, seen: make(map[uint32]int), b: packetAt(t, n, "10.0.0.2:7", cfg)}
		for range 3 {
			client := *cfg
			client.firstSequence = startsAt(0)
			k.a = packetAt(t, n, "10.0.0.1:7", &client)
			for range 25 {
				k.send(k.a, k.b, 1, 40, 20*time.Millisecond)
				k.send(k.b, k.a, 1, 40, 20*time.Millisecond)
			}
			time.Sleep(time.Second / 2)
			k.read()
			require.NoError(t, k.a.Close())
			time.Sleep(time.Second / 2)
		}
		require.NoError(t, k.b.Close())
	},
}

// A capture that an earlier version of the library has made still replays, as
// long as the format and the core's answers are the same.
func TestReplayEarlierCapture(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("the capture is of a processor of another kind")
	}
	for name, connections := range map[string]int{"format1": 2, "format1-restarts": 4} {
		path := "testdata/" + name + ".vcap.gz"
		if *updateCaptures {
			synctest.Test(t, func(t *testing.T) {
				r := newRecorder(t, &capture.Config{OmitPayload: true})
				earlierScenes[name](t, &Config{Capture: r})
				var b bytes.Buffer
				z := gzip.NewWriter(&b)
				_, err := z.Write(written(t, r))
				require.NoError(t, err)
				require.NoError(t, z.Close())
				require.NoError(t, os.WriteFile(path, b.Bytes(), 0o644))
			})
		}
		f, err := os.Open(path)
		require.NoError(t, err)
		defer f.Close()
		z, err := gzip.NewReader(f)
		require.NoError(t, err)
		report, err := Replay(z)
		require.NoError(t, err)
		require.True(t, report.Same(), report)
		require.Len(t, report.Connections, connections)
	}
}
