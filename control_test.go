package volley

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"volley/capture"
	"volley/internal/recording"
	"volley/internal/testenv"
	"volley/internal/wire"
	"volley/reliable"
	"volley/simnet"
)

// newNotifier returns the acceptor of a Listener that answers strangers.
func newNotifier(t testing.TB, lc ListenConfig) *acceptor {
	t.Helper()
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
	for uint16(e.NextID()) != sequence {
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

func hello(token uint64) []byte { return saluted(helloPrefix, salute{token: token}) }

func question(token uint64) []byte { return saluted(questionPrefix, salute{token: token}) }

func saluted(prefix byte, s salute) []byte {
	b := make([]byte, greetingSize)
	s.put(b, prefix)
	return b
}

// tokened returns a refusal, goodbye or heard.
func tokened(prefix byte, token uint64, reason string) []byte {
	b := make([]byte, tokenSize+len(reason))
	putToken(b, prefix, token, reason)
	return b
}

// unknown returns what answers a question of a connection that is not known.
func unknown(token uint64) []byte { return tokened(refusalPrefix, token, "") }

// suspicionOf returns a copy of what a connection suspects.
func suspicionOf(c *Conn) *suspicion {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.extra() == nil || c.extra().suspicion.token == 0 {
		return nil
	}
	s := c.extra().suspicion
	return &s
}

// greetingOf returns a copy of what a connection knows by greeting.
func greetingOf(c *Conn) greeting {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.greeting == nil {
		return greeting{}
	}
	return *c.greeting
}

// kill ends a connection as the end of its program does: the peer is not told.
func kill(c *Conn) error {
	c.mu.Lock()
	// A question that comes now is not answered, or the peer would be told.
	c.greeting = &greeting{answered: true, answeredAt: c.now() + clock(time.Hour)}
	c.asking = false
	c.mu.Unlock()
	return c.Close()
}

func lastSequence(c *Conn) uint16 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return uint16(c.endpoint.NextID()) - 1
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
			require.EqualValues(t, 1, (*Listener)(a).told.sent.Load(), name)
		}
	}
	check("a packet", notice(40), midStream(t, 40, 100)...)
	check("the smallest packet", notice(900), shortest)
	for _, p := range parts {
		check("a fragment", notice(41), p)
	}
	check("some packets", notice(41), shortest, parts[3])
	check("a question", unknown(99), question(99))
	check("a question after a packet", unknown(99), shortest, question(99))
	check("an opening", nil, opening)
	check("an opening behind a packet", notice(900), shortest, notice(3))
	check("a hello, which makes a connection, or is late", nil, hello(3))
	check("a notice", nil, notice(3))
	for prefix := byte(answerPrefix); prefix <= lastPrefix; prefix += 2 {
		check("another control datagram", nil, saluted(prefix, salute{token: 3}))
		check("another control datagram", nil, tokened(prefix, 3, "reason"))
	}
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
		"reference":       {Config: ReferenceConfig()},
		"AdmitMidStream":  {AdmitMidStream: true},
		"a Filter's no":   {Filter: func(netip.AddrPort) bool { return false }},
		"too many at all": {AdmitMidStream: true, MaxConns: -1, Backlog: 1},
	} {
		require.Empty(t, respond(newNotifier(t, lc), false, packet), name)
		if name == "reference" || name == "a Filter's no" {
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
	seeds := [][]byte{notice(1), question(2), unknown(3), hello(4), tokened(goodbyePrefix, 5, "reason")}
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
		a.told.notices, a.told.answers = bucket{}, bucket{}
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
	for _, d := range controls() {
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
		recorder := newRecorder(t, nil)
		_, l, dial := network(t, &ListenConfig{})
		c := dial("10.0.0.2:5000", &Dialer{Config: &Config{Capture: recorder}})
		defer c.Close()
		s := accept(t, l)
		defer s.Close()
		for range 50 {
			c.Write([]byte("to be acknowledged"))
			s.Write([]byte("to be acknowledged"))
			time.Sleep(50 * time.Millisecond)
		}
		forge := func(d []byte) { (*handler)(c).HandleBatch(time.Now(), [][]byte{d}, nil) }
		start := time.Now()
		notices, guesses := 0, 0
		r := rand.New(rand.NewPCG(3, 4))
		for round := range 3 {
			c.Write([]byte("in flight"))
			for sequence := range 65536 {
				forge(notice(uint16(sequence)))
				notices++
			}
			for range 100 {
				forge(notice(lastSequence(c)))
			}
			for range 6_000 {
				forge(unknown(r.Uint64()))
				guesses++
			}
			time.Sleep(time.Duration(round) * 100 * time.Millisecond)
		}
		time.Sleep(time.Second)
		require.Nil(t, suspicionOf(c), "the peer has said that it knows the connection")
		c.Write([]byte("still here"))
		for {
			s.SetReadDeadline(time.Now().Add(time.Second))
			m, err := s.ReadMessage(context.Background(), nil)
			require.NoError(t, err)
			if string(m) == "still here" {
				break
			}
		}
		c.Write([]byte("in flight"))
		forge(notice(lastSequence(c)))
		suspicion := suspicionOf(c)
		require.NotNil(t, suspicion)
		forge(unknown(suspicion.token)) // as whoever sees the traffic can
		synctest.Wait()
		_, err := c.Write([]byte("now it is believed"))
		require.ErrorIs(t, err, ErrPeerRestarted)
		asked := asides(t, recorder)[questionPrefix]
		t.Logf("%d forged notices and %d guesses: %d questions in %v", notices, guesses, asked, time.Since(start))
		require.Positive(t, asked)
		require.LessOrEqual(t, asked, int(time.Since(start)/askEvery)+1)
	})
}

// asides counts the control datagrams that connections have sent, by their first byte.
func asides(t *testing.T, r *capture.Recorder) map[byte]int {
	n := make(map[byte]int)
	for record := range records(t, written(t, r)) {
		if record.Kind == recording.Aside {
			for p := range record.Packets() {
				n[p.Data[0]]++
			}
		}
	}
	return n
}

// A connection does not ask about packets that its peer has acknowledged, nor
// before the peer has acknowledged any: then there is nothing it could have
// forgotten, and what it does not know is a message whose first fragment is late.
func TestNoticesThatSayNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := &Config{}
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
		forge(unknown(0))
		require.Nil(t, suspicionOf(c), "there was no question")
		c.Write([]byte("another"))
		forge(notice(lastSequence(c)))
		require.NotNil(t, suspicionOf(c))
	})
}

// controls returns one of each control datagram, and of those with a reason two.
func controls() [][]byte {
	s := salute{token: 0x0807060504030201, echo: 0x1817161514131211, protocol: 42}
	first := salute{token: s.token, protocol: s.protocol}
	return [][]byte{
		notice(1000), saluted(helloPrefix, first), saluted(questionPrefix, first), saluted(answerPrefix, s), saluted(confirmPrefix, s),
		unknown(s.token), tokened(refusalPrefix, s.token, refusedFull),
		tokened(goodbyePrefix, s.token, ""), tokened(goodbyePrefix, s.token, "kicked"), tokened(heardPrefix, s.token, ""),
	}
}

func FuzzControl(f *testing.F) {
	for _, d := range append(controls(), []byte{3}, []byte{5}, []byte{7}, nil) {
		f.Add(d)
	}
	f.Fuzz(func(t *testing.T, d []byte) {
		kinds := 0
		if s, ok := parseNotice(d); ok {
			kinds++
			require.Equal(t, d, notice(s))
		}
		if s, ok := parseSalute(d); ok {
			kinds++
			require.Equal(t, d, saluted(d[0], s))
		}
		for prefix, limit := range map[byte]int{refusalPrefix: maxRefusal, goodbyePrefix: maxReason, heardPrefix: 0} {
			if token, reason, ok := parseToken(d, prefix, limit); ok {
				kinds++
				require.LessOrEqual(t, len(d), tokenSize+limit)
				require.Equal(t, d[:tokenSize], tokened(prefix, token, ""))
				require.Equal(t, printable(string(d[tokenSize:])), reason)
				require.Equal(t, reason, printable(reason))
			}
		}
		require.True(t, kinds == 0 || isControl(d))
		if _, ok := reliable.Inspect(nil, d); ok {
			kinds++
			require.Greater(t, len(d), noticeSize)
		}
		require.LessOrEqual(t, kinds, 1)
	})
}

// The examples of docs/reliable.md.
func TestControlBytes(t *testing.T) {
	doc, err := os.ReadFile("docs/reliable.md")
	require.NoError(t, err)
	for _, d := range controls() {
		require.True(t, strings.Contains(string(doc), fmt.Sprintf("`% x`", d)), "% x", d)
	}
}

// A peer with acknowledgements of the reference's kind understands those of one with
// the defaults: none is taken for an ack of what was never sent, each message is
// Delivered, and no keepalive leaves in haste for want of an acknowledgement.
func TestAckDelayOnOneSideOnly(t *testing.T) {
	reference := ReferenceConfig()
	reference.KeepAlive, reference.IdleTimeout = 5*time.Second, 30*time.Second
	for name, cfg := range map[string]*Config{
		"off":             {AckDelay: -1},
		"off, no windows": {AckDelay: -1, maxWindow: -1},
		"reference":       reference,
	} {
		for _, echo := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				testAckDelayOnOneSide(t, fmt.Sprintf("%s, echo %v", name, echo), cfg, echo)
			})
		}
	}
}

func testAckDelayOnOneSide(t *testing.T, what string, cfg *Config, echo bool) {
	link := simnet.Link{Latency: 20 * time.Millisecond}
	x, y := simnet.Pair(1, link, link)
	a, b := mustConn(x, cfg), mustConn(y, nil)
	defer b.Close()
	defer a.Close()
	go func() {
		for {
			m, err := b.ReadMessage(context.Background(), nil)
			if err != nil {
				return
			}
			if echo {
				b.Write(m)
			}
		}
	}()
	const messages = 100
	a.AppendReceipts(nil)
	for range messages {
		a.Write([]byte("message"))
		time.Sleep(200 * time.Millisecond)
	}
	time.Sleep(time.Minute)
	require.Zero(t, a.Stats().AcksInvalid, what)
	require.EqualValues(t, messages, a.Stats().MessagesDelivered, what)
	before := a.Stats().KeepAlivesSent
	time.Sleep(10 * time.Minute)
	require.LessOrEqual(t, a.Stats().KeepAlivesSent-before, uint64(130), "%s: keepalives", what)
}

// While so much waits to leave that no control packet may join it, a tick that is
// due to a keepalive, too, comes back later, and not at once.
func TestTickWhileCrowded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, y := simnet.Pair(1, simnet.Link{}, simnet.Link{})
		a, b := mustConn(x, nil), mustConn(y, nil)
		defer b.Close()
		defer a.Close()
		a.Write([]byte("x"))
		b.Write([]byte("y"))
		time.Sleep(time.Second)
		a.mu.Lock()
		require.NoError(t, a.out.AcquireUnlocking(a.out.Patience())) // somebody waits for room in the socket
		for !a.out.Crowded() {
			a.out.Batch(a.now()).Extend(5)
		}
		a.mu.Unlock()
		b.Write([]byte("z")) // a owes an acknowledgement
		time.Sleep(6 * time.Second)
		for range 3 {
			require.True(t, (*handler)(a).HandleTick(time.Now(), nil).After(time.Now()))
			time.Sleep(time.Second)
		}
		a.mu.Lock()
		a.out.Batch(0).Reset()
		a.out.ReleaseUnlocking(a.out.Patience())
		a.mu.Unlock()
	})
}
