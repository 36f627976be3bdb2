package volley

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"volley/internal/testenv"
	"volley/internal/wire"
	"volley/reliable"
)

// newNotifier returns the acceptor of a Listener that answers strangers.
func newNotifier(t testing.TB, lc ListenConfig) *acceptor {
	t.Helper()
	if lc.Config == nil {
		lc.Config = &Config{RestartNotice: true}
	}
	l, err := lc.newListener()
	require.NoError(t, err)
	return (*acceptor)(l)
}

var stranger = netip.MustParseAddrPort("192.0.2.1:4000")

// respond returns what an acceptor says to the datagrams of a stranger.
func respond(a *acceptor, late bool, bufs ...[]byte) [][]byte {
	var out wire.Batch
	a.HandleUnknown(time.Now(), stranger, late, bufs, &out)
	var got [][]byte
	for i := range out.Len() {
		got = append(got, out.At(i))
	}
	return got
}

// midStream returns the datagrams of a message of some size, in mid-stream.
func midStream(t testing.TB, sequence uint16, size int) [][]byte {
	t.Helper()
	set, err := defaultSettings()
	require.NoError(t, err)
	e, err := reliable.New(&set.reliable, time.Now(), nil)
	require.NoError(t, err)
	e.Receive(time.Now(), reliable.AppendHeader(nil, reliable.Header{Ack: 65535}))
	var out wire.Batch
	for e.NextSequence() != sequence {
		e.Send(time.Now(), nil, &out)
	}
	out.Reset()
	_, err = e.Send(time.Now(), make([]byte, size), &out)
	require.NoError(t, err)
	var bufs [][]byte
	for i := range out.Len() {
		bufs = append(bufs, append([]byte(nil), out.At(i)...))
	}
	return bufs
}

func notice(sequence uint16) []byte {
	b := make([]byte, noticeSize)
	putNotice(b, sequence)
	return b
}

func question(token uint64) []byte {
	b := make([]byte, askSize)
	putAsk(b, token)
	return b
}

func answer(token uint64) []byte {
	b := make([]byte, askSize)
	putAnswer(b, token)
	return b
}

// suspicionOf returns a copy of what a connection suspects.
func suspicionOf(c *Conn) *suspicion {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.rare == nil || !c.rare.suspicion.raised {
		return nil
	}
	s := c.rare.suspicion
	return &s
}

func lastSequence(c *Conn) uint16 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.endpoint.NextSequence() - 1
}

func TestWhoIsTold(t *testing.T) {
	opening := reliable.AppendHeader(nil, reliable.Header{Sequence: 7, Ack: 65535})
	shortest := reliable.AppendHeader(nil, reliable.Header{Sequence: 900, Ack: 899, AckBits: 0xffffffff})
	require.Len(t, shortest, 4)
	parts := midStream(t, 41, 5000)
	require.Len(t, parts, 5)
	check := func(name string, want []byte, bufs ...[]byte) {
		t.Helper()
		for _, late := range []bool{false, true} {
			a := newNotifier(t, ListenConfig{})
			if !late && len(bufs) > 0 && a.opens(bufs[0]) {
				continue // it makes a connection
			}
			got := respond(a, late, bufs...)
			if want == nil {
				require.Empty(t, got, name)
				continue
			}
			require.Equal(t, [][]byte{want}, got, name)
			require.EqualValues(t, 1, (*Listener)(a).notifier.sent.Load(), name)
		}
	}
	check("a packet", notice(40), midStream(t, 40, 100)...)
	check("the smallest packet", notice(900), shortest)
	for _, p := range parts {
		check("a fragment", notice(41), p)
	}
	check("some packets", notice(41), shortest, parts[3])
	check("a question", answer(99), question(99))
	check("a question after a packet", answer(99), shortest, question(99))
	check("an opening", nil, opening)
	check("an opening behind a packet", notice(900), shortest, notice(3))
	check("a notice", nil, notice(3))
	check("an answer", nil, answer(3))
	check("a part of a fragment", nil, parts[1][:500])
	check("nothing", nil, []byte{})
	check("garbage", nil, []byte("GET / HTTP/1.1"))
	check("a question that is too long", nil, append(question(3), 0))
	check("a packet that is too large", nil, append(shortest, make([]byte, 17000)...))
}

// Nobody is answered by a Listener that was not asked to, nor by one that takes
// strangers in, nor at an address that Filter turns away.
func TestWhoIsNotTold(t *testing.T) {
	packet := midStream(t, 40, 100)[0]
	for name, lc := range map[string]ListenConfig{
		"by default":      {Config: &Config{}},
		"AdmitMidStream":  {AdmitMidStream: true},
		"a Filter's no":   {Filter: func(netip.AddrPort) bool { return false }},
		"too many at all": {AdmitMidStream: true, MaxConns: -1, Backlog: 1},
	} {
		require.Empty(t, respond(newNotifier(t, lc), false, packet), name)
		if name == "by default" || name == "a Filter's no" {
			require.Empty(t, respond(newNotifier(t, lc), true, packet), name)
			require.Empty(t, respond(newNotifier(t, lc), false, question(1)), name)
		}
	}
}

// What comes back is never more, nor larger, than what it answers, whatever that
// is; and it is answered by nobody, so that two Listeners do not talk for ever.
func TestNoticesDoNotAmplifyOrLoop(t *testing.T) {
	a, b := newNotifier(t, ListenConfig{AdmitMidStream: false}), newNotifier(t, ListenConfig{})
	r := rand.New(rand.NewPCG(1, 2))
	seeds := [][]byte{notice(1), question(2), answer(3)}
	for _, size := range []int{0, 1, 100, 5000} {
		seeds = append(seeds, midStream(t, 77, size)...)
	}
	answered := 0
	for range 6_000 {
		d := append([]byte(nil), seeds[r.IntN(len(seeds))]...)
		for range r.IntN(3) {
			d[r.IntN(len(d))] = byte(r.Uint32())
		}
		if r.IntN(4) == 0 {
			d = d[:r.IntN(len(d)+1)]
		}
		a.notifier.notices, a.notifier.answers = bucket{}, bucket{}
		got := respond(a, r.IntN(2) == 0, d)
		require.LessOrEqual(t, len(got), 1)
		for _, g := range got {
			answered++
			require.LessOrEqual(t, len(g), len(d))
			require.Empty(t, respond(b, false, g), "% x is answered", g)
			require.Empty(t, respond(b, true, g), "% x is answered", g)
		}
	}
	require.Greater(t, answered, 1500)
}

// Notices and answers have limits of their own, and get some more as time passes.
func TestNoticesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newNotifier(t, ListenConfig{})
		packet := midStream(t, 40, 100)[0]
		flood := func(d []byte) (got int) {
			for range 5 * noticesAtOnce {
				got += len(respond(a, false, d))
			}
			return got
		}
		require.Equal(t, noticesAtOnce, flood(packet))
		require.Equal(t, noticesAtOnce, flood(question(1)))
		time.Sleep(10 * time.Millisecond)
		require.Equal(t, noticesPerSecond/100, flood(packet))
		require.Equal(t, noticesPerSecond/100, flood(question(1)))
		time.Sleep(time.Hour)
		require.Equal(t, noticesAtOnce, flood(packet))
	})
}

func TestToldWithoutAllocation(t *testing.T) {
	if testenv.Race {
		t.Skip("the race detector allocates")
	}
	a := newNotifier(t, ListenConfig{})
	bufs := midStream(t, 40, 5000)
	var out wire.Batch
	now := time.Now()
	n := testing.AllocsPerRun(1000, func() {
		out.Reset()
		now = now.Add(time.Second)
		a.HandleUnknown(now, stranger, false, bufs, &out)
	})
	require.Zero(t, n)
	require.Equal(t, 1, out.Len())
}

// A peer that behaves as the one in C refuses all three, and its state is as
// before: they are fragments to it, of a kind that there is not.
func TestNoticesMeanNothingToC(t *testing.T) {
	for _, d := range [][]byte{notice(0), notice(1), notice(30000), question(1), question(1 << 63), answer(7)} {
		var taken int
		e, err := reliable.New(nil, time.Now(), reliable.HandlerFunc(func(uint16, []byte) bool { taken++; return true }))
		require.NoError(t, err)
		var out wire.Batch
		e.Send(time.Now(), []byte("first"), &out)
		require.Equal(t, reliable.Delivered, e.Receive(time.Now(), reliable.AppendHeader(nil, reliable.Header{})))
		before := e.Counters()
		require.Equal(t, reliable.Invalid, e.Receive(time.Now(), d))
		after := e.Counters()
		require.Equal(t, before.FragmentsInvalid+1, after.FragmentsInvalid)
		after.FragmentsInvalid = before.FragmentsInvalid
		require.Equal(t, before, after)
		out.Reset()
		e.Send(time.Now(), []byte("second"), &out)
		h, _, err := reliable.ParseHeader(out.At(0))
		require.NoError(t, err)
		require.Equal(t, reliable.Header{Sequence: 1, Ack: 0, AckBits: 1}, h)
		require.Equal(t, 1, taken)
	}
}

// Whoever forges notices about all packets there can be makes a connection ask,
// now and then, and whoever guesses at answers learns nothing from it and does
// nothing to it.
func TestBlindForgeryIsNotBelieved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := &Config{RestartNotice: true}
		_, l, dial := network(t, &ListenConfig{Config: cfg})
		c := dial("10.0.0.2:5000", &Dialer{Config: cfg})
		defer c.Close()
		s := accept(t, l)
		defer s.Close()
		for range 50 {
			c.Write([]byte("to be acknowledged"))
			s.Write([]byte("to be acknowledged"))
			time.Sleep(50 * time.Millisecond)
		}
		forge := func(d []byte) { (*handler)(c).HandleBatch(time.Now(), [][]byte{d}, nil) }
		start, sent := time.Now(), s.Stats().FragmentsInvalid
		notices, guesses := 0, 0
		r := rand.New(rand.NewPCG(3, 4))
		for round := range 3 {
			c.Write([]byte("in flight"))
			for sequence := range 65536 {
				forge(notice(uint16(sequence)))
				notices++
			}
			for range 6_000 {
				forge(answer(r.Uint64()))
				guesses++
			}
			time.Sleep(time.Duration(round) * 100 * time.Millisecond)
		}
		time.Sleep(time.Second)
		asked := s.Stats().FragmentsInvalid - sent
		t.Logf("%d forged notices and %d guesses: %d questions in %v", notices, guesses, asked, time.Since(start))
		require.Positive(t, asked)
		require.LessOrEqual(t, asked, uint64(time.Since(start)/askEvery)+1)
		c.Write([]byte("still here"))
		for {
			s.SetReadDeadline(time.Now().Add(time.Second))
			m, err := s.ReadMessage(nil)
			require.NoError(t, err)
			if string(m) == "still here" {
				break
			}
		}
		suspicion := suspicionOf(c)
		require.NotNil(t, suspicion)
		forge(answer(suspicion.token)) // as whoever sees the traffic can
		synctest.Wait()
		_, err := c.Write([]byte("now it is believed"))
		require.ErrorIs(t, err, ErrPeerRestarted)
	})
}

// A connection does not ask about packets that its peer has acknowledged, nor
// before the peer has acknowledged any: then there is nothing it could have
// forgotten, and what it does not know is a message whose first fragment is late.
func TestNoticesThatSayNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := &Config{RestartNotice: true}
		_, l, dial := network(t, &ListenConfig{Config: cfg})
		c := dial("10.0.0.2:5000", &Dialer{Config: cfg})
		defer c.Close()
		forge := func(d []byte) { (*handler)(c).HandleBatch(time.Now(), [][]byte{d}, nil) }
		c.Write([]byte("first"))
		forge(notice(0))
		forge(notice(1))
		require.Nil(t, suspicionOf(c), "nothing was acknowledged")
		s := accept(t, l)
		defer s.Close()
		time.Sleep(time.Second)
		require.NotZero(t, c.Stats().PacketsAcked)
		forge(notice(0))
		forge(notice(1))
		forge(notice(2000))
		require.Nil(t, suspicionOf(c), "all was acknowledged")
		forge(answer(0))
		require.Nil(t, suspicionOf(c), "there was no question")
		c.Write([]byte("another"))
		forge(notice(lastSequence(c)))
		require.NotNil(t, suspicionOf(c))
	})
}

func FuzzNotice(f *testing.F) {
	for _, d := range [][]byte{notice(1), question(2), answer(3), {3}, {5}, {7}, {}} {
		f.Add(d)
	}
	f.Fuzz(func(t *testing.T, d []byte) {
		kinds := 0
		if s, ok := parseNotice(d); ok {
			kinds++
			require.Equal(t, d, notice(s))
		}
		if token, ok := parseAsk(d); ok {
			kinds++
			require.Equal(t, d, question(token))
		}
		if token, ok := parseAnswer(d); ok {
			kinds++
			require.Equal(t, d, answer(token))
		}
		if _, ok := reliable.ParseSequence(nil, d); ok {
			kinds++
			require.Greater(t, len(d), noticeSize)
		} else if reliable.ParseOpening(nil, d) {
			t.Errorf("% x opens a connection and has no sequence", d)
		}
		require.LessOrEqual(t, kinds, 1)
	})
}

// The examples of docs/reliable.md.
func TestNoticeBytes(t *testing.T) {
	require.Equal(t, []byte{3, 0xe8, 3}, notice(1000))
	token := binary.LittleEndian.Uint64([]byte{1, 2, 3, 4, 5, 6, 7, 8})
	require.Equal(t, []byte{5, 1, 2, 3, 4, 5, 6, 7, 8}, question(token))
	require.Equal(t, []byte{7, 1, 2, 3, 4, 5, 6, 7, 8}, answer(token))
	doc, err := os.ReadFile("docs/reliable.md")
	require.NoError(t, err)
	for _, d := range [][]byte{notice(1000), question(token), answer(token)} {
		require.Contains(t, string(doc), fmt.Sprintf("`% x`", d))
	}
	require.ErrorIs(t, ErrPeerRestarted, net.ErrClosed)
}
