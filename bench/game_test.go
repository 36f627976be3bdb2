package main

import (
	"bytes"
	"io"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// someLoads are small enough for any machine.
var someLoads = []load{{styleEcho, 5, 50}, {styleTick, 5, 50}}

// testLoad checks the figures of a run of some time.
func testLoad(t *testing.T, l load, d time.Duration, r *result) {
	due := uint64(l.clients*l.rate) * uint64(d) / uint64(time.Second)
	if l.style == styleEcho {
		require.Equal(t, due, r.Due)
	} else { // the ticks do not begin with what is measured
		require.InDelta(t, due, r.Due, float64(l.clients))
	}
	require.LessOrEqual(t, r.InTime, r.Due)
	require.LessOrEqual(t, r.InTime+r.Lost, r.Sent)
	require.NotZero(t, r.Handled)
}

// TestOwnNetwork counts packets of bare sockets: one for each message.
func TestOwnNetwork(t *testing.T) {
	if !canShare {
		t.Skip("no two processes")
	}
	j := job{Peer: "udp", Mode: modeGame, Size: gameSize, Clients: 4, Style: styleEcho, Rate: 100, Duration: 300 * time.Millisecond}
	const most = 0.7 // some are on their way when they are counted
	r := testJob(t, j, 2)
	for r.Packets != 0 && math.Abs(r.Packets-1) > most && j.Duration < 4*time.Second { // more on a busy machine
		j.Duration *= 4
		r = testJob(t, j, 2)
	}
	if r.Packets == 0 {
		t.Skip("there is no network for a run alone")
	}
	require.InDelta(t, 1, r.Packets, most)
}

// TestLostAndLate has a server that keeps a quarter of the messages to itself and
// returns another quarter late.
func TestLostAndLate(t *testing.T) {
	const clients, rate = 4, 100
	j := &job{Size: gameSize, Clients: clients, Style: styleEcho, Rate: rate, Warmup: 20 * time.Millisecond, Duration: 200 * time.Millisecond}
	c := newClient(j, udpPeer, new(board))
	for range clients {
		c.links = append(c.links, &lossyLink{in: make(chan []byte, 1000)})
	}
	r, err := c.game()
	c.close()
	require.NoError(t, err)
	require.EqualValues(t, clients*rate/5, r.Due)
	require.Equal(t, r.Due/4, r.Lost)
	require.LessOrEqual(t, r.InTime, r.Due/2)
	require.GreaterOrEqual(t, r.P9999, 2*answerLimit*98/100) // the resolution of a histogram
}

// A lossyLink is the client's end. Of four messages the first gets lost, and the
// second says that it was sent long ago.
type lossyLink struct {
	in chan []byte
}

func (l *lossyLink) WriteMessage(b []byte) error {
	_, n, sent, _ := inspect(b, len(b))
	b = bytes.Clone(b)
	switch n % 4 {
	case 0:
		return nil
	case 1:
		stampAt(b, time.Unix(0, int64(sent)).Add(-2*answerLimit))
	}
	l.in <- b
	return nil
}

func (l *lossyLink) ReadMessage([]byte) ([]byte, error) {
	b, ok := <-l.in
	if !ok {
		return nil, io.EOF
	}
	return b, nil
}

func (l *lossyLink) Flush() error { return nil }

func (l *lossyLink) Close() error {
	close(l.in)
	return nil
}

// TestStrayAnswers counts messages that are another client's, and fails a run in
// which some came twice.
func TestStrayAnswers(t *testing.T) {
	j := &job{Size: gameSize, Clients: 2, Style: styleEcho, Rate: 100, Warmup: 20 * time.Millisecond, Duration: 100 * time.Millisecond}
	run := func(answer func(l, other chan []byte, b []byte)) (*result, error) {
		c := newClient(j, udpPeer, new(board))
		one, two := make(chan []byte, 1000), make(chan []byte, 1000)
		c.links = []link{
			&answerLink{lossyLink{one}, func(b []byte) { answer(one, two, b) }},
			&answerLink{lossyLink{two}, func(b []byte) { answer(two, one, b) }},
		}
		defer c.close()
		return c.game()
	}
	r, err := run(func(_, other chan []byte, b []byte) { other <- b })
	require.NoError(t, err)
	require.Zero(t, r.InTime)
	require.NotZero(t, r.Bad)
	_, err = run(func(l, _ chan []byte, b []byte) { l <- b; l <- b })
	require.Error(t, err)
}

// An answerLink answers by a function.
type answerLink struct {
	lossyLink
	answer func([]byte)
}

func (l *answerLink) WriteMessage(b []byte) error {
	l.answer(bytes.Clone(b))
	return nil
}

func TestPaceStamp(t *testing.T) {
	due := time.Unix(100, 0)
	require.Equal(t, due.Add(time.Millisecond), paceStamp(due, due.Add(time.Millisecond)))
	require.Equal(t, due.Add(paceSlack), paceStamp(due, due.Add(time.Second)))
}

func TestParseLoads(t *testing.T) {
	loads, err := parseLoads("echo:500x30,tick:20x60")
	require.NoError(t, err)
	require.Equal(t, []load{{styleEcho, 500, 30}, {styleTick, 20, 60}}, loads)
	for _, text := range []string{"", "echo", "echo:5", "echo:0x30", "echo:5x0", "fan-out:5x5", "tick:99999x1", "tick:1x2000"} {
		_, err := parseLoads(text)
		require.Error(t, err, text)
	}
}

// TestDocument renews a part of a document.
func TestDocument(t *testing.T) {
	o := &options{peers: []*peer{volleyPeer, udpPeer}, modes: allModes, sizes: []int{usualSize}, loads: someLoads, fanOut: 1000, rounds: 1}
	document := func(cpu time.Duration, old string) string {
		plan, err := o.plan()
		require.NoError(t, err)
		tl := make(tally)
		for _, m := range plan {
			tl[m] = make(map[string][]*result)
			for i, p := range o.peers {
				tl[m][p.name] = []*result{{Messages: 1000, Seconds: 1, CPU: cpu, ServerCPU: cpu / time.Duration(i+1),
					Handled: 1000, Due: 1000, InTime: 999, Bytes: 1, ServerBytes: 2560}}
			}
		}
		return (&report{options: o, plan: plan, tally: tl}).document(old)
	}
	whole := document(8*time.Millisecond, "")
	for _, part := range []string{"| volley | 8.00 | 2.00 | 2.50 |", "| 99.90 |", "## One message to all\n", "## Ping-pong\n",
		"(bench-game.svg)", "(bench-idle.svg)"} {
		require.Contains(t, whole, part)
	}
	require.Less(t, strings.Index(whole, "bench-game.svg"), strings.Index(whole, "bench-oneway.svg"))
	require.Less(t, strings.Index(whole, "## Game rates"), strings.Index(whole, "## Peers"))
	o.modes = []string{modeGame}
	renewed := document(9*time.Millisecond, whole)
	want := strings.NewReplacer("| volley | 8.00 | 2", "| volley | 9.00 | 2", "| udp | 4.00 | 1", "| udp | 4.50 | 1").Replace(whole)
	require.Equal(t, want, renewed)
}

// Peers that are not made for thousands of clients are left out.
func TestCrowd(t *testing.T) {
	at := func(clients int) measurement {
		return measurement{mode: modeGame, size: gameSize, processes: 2, load: load{styleEcho, clients, 1}}
	}
	for _, p := range []*peer{volleyPeer, volleyPacketPeer, udpPeer} {
		require.True(t, p.takesPart(at(10_000)), p.name)
	}
	require.True(t, quicDatagramPeer.takesPart(at(1000)))
	require.False(t, quicDatagramPeer.takesPart(at(10_000)))
}
