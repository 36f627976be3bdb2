package volley

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"

	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"volley/internal/testenv"
	"volley/internal/wire"
	"volley/reliable"
	"volley/simnet"
)

var forgeries = flag.Int("forgeries", 0, "how often TestBlindGoodbyes guesses; 0: 10^5, or 10^7 with -full")

// greeted returns a connection and its server's, which have greeted each other.
func greeted(t *testing.T, lc *ListenConfig, cfg *Config) (c, s *Conn, n *simnet.Network, l *Listener) {
	t.Helper()
	n, l, dial := network(t, lc)
	c = dial("10.0.0.2:5000", &Dialer{Config: cfg})
	s = accept(t, l)
	time.Sleep(2 * simRTT)
	require.True(t, greetingOf(c).proved)
	require.True(t, greetingOf(s).proved)
	return c, s, n, l
}

// forge has a connection receive datagrams in the name of its peer.
func forge(c *Conn, bufs ...[]byte) { (*handler)(c).HandleBatch(time.Now(), bufs, nil) }

// Guesses at tokens end nothing, and change nothing of what both sides know.
func TestBlindGoodbyes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s, _, _ := greeted(t, &ListenConfig{}, nil)
		defer c.Close()
		before := greetingOf(c)
		r := rand.New(rand.NewPCG(5, 6))
		count := *forgeries
		if count == 0 {
			count = testenv.Sized(100_000, 10_000_000)
		}
		var bufs [][]byte
		for range count / 5 {
			token := r.Uint64()
			guess := salute{token: token, echo: r.Uint64()}
			bufs = append(bufs[:0], tokened(goodbyePrefix, token, "x"), tokened(refusalPrefix, token, refusedFull),
				tokened(heardPrefix, token, ""), saluted(answerPrefix, guess), saluted(confirmPrefix, guess))
			forge(c, bufs...)
		}
		for bit := range 64 { // nearly right is wrong, and so is nothing
			forge(c, tokened(goodbyePrefix, before.own^1<<bit, ""), tokened(refusalPrefix, before.own^1<<bit, refusedFull))
		}
		forge(c, tokened(goodbyePrefix, 0, ""), unknown(0), tokened(goodbyePrefix, before.peer, ""))
		forge(c, hello(7), question(8), tokened(refusalPrefix, before.own, refusedFull))
		after := greetingOf(c)
		require.Equal(t, before.own, after.own)
		require.Equal(t, before.peer, after.peer)
		require.True(t, after.proved)
		c.Write([]byte("still here"))
		wantMessage(t, s, "still here")
		s.Close()
		_, _, err := wantEnd(t, c)
		require.Equal(t, io.EOF, err)
	})
}

// Somebody who has seen the tokens can do all that the peer can.
func TestOnPathGoodbye(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s, _, _ := greeted(t, &ListenConfig{}, nil)
		defer s.Close()
		forge(c, tokened(goodbyePrefix, greetingOf(c).own, "\x1b[31mforged\n"))
		_, _, err := wantEnd(t, c)
		var ce *CloseError
		require.ErrorAs(t, err, &ce)
		require.Equal(t, "\ufffd[31mforged\ufffd", ce.Reason, "nothing that a terminal obeys")
	})
}

// A stranger that closes a connection which a forged hello has made is told once, and
// again only for each batch of its own.
func TestGoodbyeIsNotAmplified(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, l, _ := network(t, &ListenConfig{})
		victim, err := n.Listen("10.0.0.9:1")
		require.NoError(t, err)
		other, err := n.Listen("10.0.0.9:2") // for the address of the first is closed then
		require.NoError(t, err)
		defer other.Close()
		send := func(d []byte) { victim.WriteTo(d, l.Addr()) }
		opens := func(token uint64) *Conn {
			send(hello(token))
			send(reliable.AppendHeader(nil, reliable.Header{Sequence: 5, Ack: 65535}))
			return accept(t, l)
		}
		s := opens(7)
		sent := func() uint64 {
			return n.LinkStats(netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.9")).Sent
		}
		require.EqualValues(t, 1, sent(), "the answer")
		s.CloseWithReason("go away")
		time.Sleep(time.Second)
		require.EqualValues(t, 3, sent(), "and a goodbye, behind the acknowledgement that was owed")

		victim.Close()
		victim = other
		s = opens(8)
		s.CloseWithReason("go away")
		for range 10 {
			send(tokened(heardPrefix, 9, ""))
			time.Sleep(time.Millisecond)
		}
		time.Sleep(time.Second)
		require.EqualValues(t, 3+2+goodbyes, sent(), "the same, and a goodbye for each, five in all")
		require.Zero(t, l.Stats().Conns)
	})
}

// A flood of questions is answered 10,000 times a second, and a client that comes meanwhile
// is greeted at once. A flood in the name of a peer is answered 1,000 times a second.
func TestFloodOfQuestions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, l, dial := network(t, &ListenConfig{})
		raw, err := n.Listen("10.0.0.9:1")
		require.NoError(t, err)
		defer raw.Close()
		var c *Conn
		for ms := range 1000 {
			for i := range 30 {
				raw.WriteTo(question(uint64(1+i)), l.Addr())
			}
			time.Sleep(time.Millisecond)
			if ms == 500 {
				c = dial("10.0.0.2:1", &Dialer{})
			}
		}
		defer c.Close()
		require.LessOrEqual(t, l.Stats().Notices, uint64(11_000))
		require.Greater(t, l.Stats().Notices, uint64(10_000))
		require.EqualValues(t, 1, l.Stats().Conns)
		s := accept(t, l)
		defer s.Close()
		require.True(t, greetingOf(s).proved)
		require.EqualValues(t, 1, greetingOf(c).asks)
		before := n.LinkStats(netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")).Sent
		for range 100 {
			for i := range 300 {
				forge(s, hello(uint64(1+i)))
			}
			time.Sleep(time.Millisecond)
		}
		time.Sleep(time.Second)
		answered := n.LinkStats(netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")).Sent - before
		require.LessOrEqual(t, answered, uint64(100))
		require.Greater(t, answered, uint64(90))
		require.Equal(t, greetingOf(c).own, greetingOf(s).peer)
	})
}

// A forged hello stops no goodbye: those that were to follow leave at once. To an address
// that has proved nothing goes one goodbye, as for any other datagram.
func TestForgedHelloWhileClosing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s, _, _ := greeted(t, &ListenConfig{}, nil)
		defer c.Close()
		own := greetingOf(c).own
		s.CloseWithReason("kicked")
		var out wire.Batch
		(*handler)(s).HandleBatch(time.Now(), [][]byte{hello(7)}, &out)
		require.Equal(t, goodbyes-atOnce, out.Len())
		require.Equal(t, tokened(goodbyePrefix, own, "kicked"), out.At(0))
		out.Reset()
		(*handler)(s).HandleBatch(time.Now(), [][]byte{hello(8)}, &out)
		require.Zero(t, out.Len())
	})
	f := farewell{datagram: tokened(goodbyePrefix, 1, ""), token: 1, left: 4, answers: true}
	var out wire.Batch
	done, anew := f.hear([][]byte{hello(7), hello(8)}, &out)
	require.True(t, done && anew)
	require.Equal(t, 1, out.Len())
}

// One forged message that has heard nothing is delivered, and moves the window. The messages
// that the peer sends until it acknowledges something new are lost; no others are, none
// comes twice, and the connection goes on.
func TestForgedOpening(t *testing.T) {
	for _, answers := range []bool{true, false} {
		worst, taken := 0, 0
		for seed := range uint64(testenv.Sized(50, 1000)) {
			synctest.Test(t, func(t *testing.T) {
				r := rand.New(rand.NewPCG(seed, 9))
				c, s, _, _ := greeted(t, &ListenConfig{Config: new(Config)}, new(Config)) // answers of its own
				defer c.Close()
				defer s.Close()
				const messages, forgedAt, every = 120, 50, time.Second / 30
				for i := range messages {
					c.Write([]byte{byte(i)})
					if answers {
						s.Write([]byte{byte(i)})
					}
					if i == forgedAt {
						time.Sleep(every - time.Millisecond) // else it is too soon after a message
						h := reliable.Header{Sequence: uint16(r.Uint32()), Ack: 65535}
						forge(s, append(reliable.AppendHeader(nil, h), 200))
						time.Sleep(time.Millisecond)
					} else {
						time.Sleep(every)
					}
				}
				time.Sleep(time.Second)
				got := make(map[byte]int)
				for range s.Stats().MessagesReceived {
					b := make([]byte, 1)
					_, err := s.Read(b)
					require.NoError(t, err)
					got[b[0]]++
					require.Equal(t, 1, got[b[0]], "message %d", b[0])
				}
				worst = max(worst, messages-len(got)+got[200])
				taken += got[200]
			})
		}
		t.Logf("the peer is answered: %v; of 30 messages a second %d are lost at most", answers, worst)
		require.LessOrEqual(t, worst, 2)
		require.Greater(t, taken, 40)
	}
}

// Copies of a connection's first datagrams that come after its end make no other one.
func TestLateOpeningMakesNoGhost(t *testing.T) {
	for seed := range uint64(testenv.Sized(20, 300)) {
		synctest.Test(t, func(t *testing.T) {
			n, l, dial := network(t, &ListenConfig{Config: new(Config)})
			n.SetDefault(simnet.Link{Latency: 10 * time.Millisecond, Jitter: 900 * time.Millisecond, Duplicate: 0.9})
			c := dial("10.0.0.2:1", &Dialer{Config: new(Config)})
			c.Write([]byte("first"))
			s := accept(t, l)
			for greetingOf(s).peer == 0 || greetingOf(c).peer == 0 { // else its hello is yet to come
				time.Sleep(10 * time.Millisecond)
			}
			closer, other := c, s
			if seed%2 == 0 {
				closer, other = s, c
			}
			closer.CloseWithReason("over")
			for err := error(nil); err == nil; {
				_, err = other.Read(make([]byte, 100))
			}
			other.Close()
			wantNoConn(t, l)
			time.Sleep(time.Minute)
			require.Zero(t, l.Stats().Conns)
			require.EqualValues(t, 1, l.Stats().Accepted, "seed %d", seed)
		})
	}
}

// A forger that guesses acknowledgements gets no more than three quarters of MaxMemory;
// a peer that has greeted gets the last one.
func TestProofOpensTheLastQuarter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, l, dial := network(t, &ListenConfig{MaxMemory: 1 << 20})
		raw, err := n.Listen("10.0.0.9:1")
		require.NoError(t, err)
		defer raw.Close()
		good := dial("10.0.0.2:1", &Dialer{})
		defer good.Close()
		served := accept(t, l)
		defer served.Close()
		send := func(h reliable.Header) {
			raw.WriteTo(append(reliable.AppendHeader(nil, h), make([]byte, 1100)...), l.Addr())
		}
		send(reliable.Header{Ack: 65535})
		s := accept(t, l)
		defer s.Close()
		s.Write([]byte("what it cannot see")) // and guesses the sequence of
		for i := range uint16(1500) {
			send(reliable.Header{Sequence: 1 + i, Ack: uint16(lastSequence(s)), AckBits: 1})
			time.Sleep(time.Millisecond)
		}
		require.NotZero(t, s.Stats().PacketsAcked)
		used := l.Stats().Memory
		require.LessOrEqual(t, used, int64(1<<20*3/4))
		require.Greater(t, used, int64(1<<20*5/8))
		for range 100 {
			_, err := good.Write(make([]byte, 1100))
			require.NoError(t, err)
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(simRTT)
		require.Zero(t, served.Stats().MessagesRefused)
		require.EqualValues(t, 100, served.Stats().MessagesReceived)
		require.Greater(t, l.Stats().Memory, int64(1<<20*3/4))
		for range 5 { // and so do messages in fragments
			good.Write(make([]byte, 5000))
			time.Sleep(simRTT)
		}
		require.EqualValues(t, 105, served.Stats().MessagesReceived)
	})
}

// The tokens of the last 4,096 that have ended are known, each once.
func TestDepartedForgets(t *testing.T) {
	d := new(departed)
	for token := range uint64(maxDeparted + 11) {
		d.add(token)
		d.add(token)
	}
	require.False(t, d.has(0))
	for token := uint64(1); token < maxDeparted+11; token++ {
		require.Equal(t, token > 10, d.has(token), token)
	}
	require.Len(t, d.tokens, maxDeparted)
}

// A hello of a peer that has ended admits nobody and is not answered; another one admits,
// though a connection from its address has ended a moment ago.
func TestDepartedIsNotAdmitted(t *testing.T) {
	a := newNotifier(t, ListenConfig{})
	a.set.departed.add(7)
	for _, late := range []bool{false, true} {
		var out wire.Batch
		require.Nil(t, a.HandleUnknown(time.Now(), stranger, late, [][]byte{hello(7)}, &out))
		require.Zero(t, out.Len())
		require.NotNil(t, a.HandleUnknown(time.Now(), stranger, late, [][]byte{hello(8)}, &out))
	}
}

// forgedPeers returns two Listeners. Before the second one was there, datagrams came to the
// first one from its address, so long after each other. Both serve what they accept, and write
// to it if that is asked for. Each sends so many datagrams to the other in two minutes.
func forgedPeers(t *testing.T, writes bool, pause time.Duration, forged ...[]byte) (first, second *Listener, sent [2]uint64) {
	n, first, _ := network(t, &ListenConfig{})
	raw, err := n.Listen("10.0.0.9:1")
	require.NoError(t, err)
	for i, d := range forged {
		time.Sleep(min(1, time.Duration(i)) * pause)
		raw.WriteTo(d, first.Addr())
	}
	time.Sleep(simRTT / 4) // an answer takes longer
	raw.Close()
	below, err := n.Listen("10.0.0.9:1")
	require.NoError(t, err)
	second, err = (&ListenConfig{}).ListenOn(below)
	require.NoError(t, err)
	t.Cleanup(func() { second.Close() })
	end := time.Now().Add(2 * time.Minute)
	for _, l := range []*Listener{first, second} {
		go func() {
			for c, err := l.AcceptConn(t.Context()); err == nil; c, err = l.AcceptConn(t.Context()) {
				go func() {
					for b := make([]byte, 100); ; {
						if _, err := c.Read(b); err != nil {
							return
						}
					}
				}()
				for writes && time.Now().Before(end) {
					if _, err := c.Write([]byte("state")); err != nil {
						break
					}
					time.Sleep(time.Second / 30)
				}
			}
		}()
	}
	time.Sleep(time.Until(end) - time.Second)
	a, b := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.9")
	sent = [2]uint64{n.LinkStats(a, b).Sent, n.LinkStats(b, a).Sent}
	conns := [2]int{first.Stats().Conns, second.Stats().Conns}
	first.Close()
	second.Close()
	for _, l := range []*Listener{first, second} {
		for c := range l.Conns() {
			c.Close()
		}
	}
	time.Sleep(2 * time.Second)
	require.Equal(t, [2]int{}, conns, "they hold each other")
	return first, second, sent
}

// No datagrams in the name of another Listener join the two, of which each would keep the
// other's connection alive: neither a hello nor first packets that seem to come from a peer
// that has started again.
func TestForgedPeerIsNoListener(t *testing.T) {
	opening := append(reliable.AppendHeader(nil, reliable.Header{Sequence: 500, Ack: 65535}), 1)
	for _, writes := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			first, second, sent := forgedPeers(t, writes, 0, hello(7))
			require.Zero(t, first.Stats().Accepted)
			require.Zero(t, second.Stats().Accepted)
			require.Equal(t, [2]uint64{hiddenAsks, 1}, sent, "answers to the hello")
		})
		synctest.Test(t, func(t *testing.T) {
			first, second, sent := forgedPeers(t, writes, 0, hello(7), hello(7), hello(8))
			require.Zero(t, first.Stats().Accepted+second.Stats().Accepted)
			require.LessOrEqual(t, sent[0], uint64(hiddenAsks+2), "an answer to each")
		})
		synctest.Test(t, func(t *testing.T) {
			first, second, sent := forgedPeers(t, writes, inquiryWait, opening, opening, opening)
			require.EqualValues(t, 1, first.Stats().Accepted)
			require.Zero(t, second.Stats().Accepted)
			require.LessOrEqual(t, sent[1], 3+sent[0], "the three, and a notice for each packet")
			if !writes {
				require.Less(t, sent[0], uint64(12))
			}
		})
	}
}

// inquiryWait is longer than a peer waits before it asks whether another one has started again.
const inquiryWait = 150 * time.Millisecond

// A peer of which only the hello has arrived is returned by Accept once it has shown to be at
// its address, or by its first packet, whichever comes first.
func TestHelloAloneIsHidden(t *testing.T) {
	for name, test := range map[string]struct {
		shows func(own uint64) []byte
		after int // Accept returns so many connections
	}{
		"proof":        {func(own uint64) []byte { return saluted(confirmPrefix, salute{token: 7, echo: own}) }, 1},
		"packet":       {func(uint64) []byte { return reliable.AppendHeader(nil, reliable.Header{Sequence: 5, Ack: 65535}) }, 1},
		"wrong proof":  {func(own uint64) []byte { return saluted(confirmPrefix, salute{token: 7, echo: own + 1}) }, 0},
		"another one":  {func(uint64) []byte { return hello(8) }, 0},
		"no datagram":  {func(uint64) []byte { return []byte{1, 2} }, 0},
		"a late heard": {func(uint64) []byte { return tokened(heardPrefix, 7, "") }, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			n, l, _ := network(t, &ListenConfig{})
			raw, err := n.Listen("10.0.0.9:1")
			require.NoError(t, err)
			defer raw.Close()
			raw.WriteTo(hello(7), l.Addr())
			b := make([]byte, 100)
			k, _, err := raw.ReadFrom(b)
			require.NoError(t, err)
			answer, ok := parseSalute(b[:k])
			require.True(t, ok)
			require.Equal(t, 1, l.Stats().Conns)
			require.Zero(t, l.Stats().Accepted)
			raw.WriteTo(test.shows(answer.token), l.Addr())
			time.Sleep(simRTT)
			require.EqualValues(t, test.after, l.Stats().Accepted, name)
			if test.after > 0 {
				s := accept(t, l)
				s.Write([]byte("hello"))
				for k := 0; !bytes.HasSuffix(b[:k], []byte("hello")); {
					k, _, err = raw.ReadFrom(b)
					require.NoError(t, err)
				}
				s.Close()
				return
			}
			time.Sleep(time.Minute)
			require.Zero(t, l.Stats().Conns, "it ends as any other")
		})
	}
}

// Where datagrams get lost, a peer that waits for the first word is known nearly as often as
// its hello or first packet arrives.
func TestHiddenOverLossyLink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, l, _ := network(t, &ListenConfig{Backlog: 1000})
		n.SetDefault(simnet.Link{Latency: simRTT / 2, Loss: 0.3})
		for i := range 1000 {
			inner, err := n.Dial(fmt.Sprintf("10.1.%d.%d:1", i/200, 1+i%200), "10.0.0.1:7777")
			require.NoError(t, err)
			c, err := new(Dialer).connect(inner)
			require.NoError(t, err)
			defer c.Close()
		}
		time.Sleep(2 * time.Second)
		require.Greater(t, l.Stats().Accepted, uint64(870), "of 910 that may be known")
	})
}

// A hidden connection ends with its Listener, and is the one that Dial returns.
func TestHiddenConnOfListener(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, l, _ := network(t, &ListenConfig{})
		raw, err := n.Listen("10.0.0.9:1")
		require.NoError(t, err)
		defer raw.Close()
		raw.WriteTo(hello(7), l.Addr())
		time.Sleep(simRTT)
		c, err := l.Dial(t.Context(), "10.0.0.9:1")
		require.NoError(t, err)
		_, err = l.Dial(t.Context(), "10.0.0.9:1")
		require.ErrorIs(t, err, ErrConnExists)
		require.Equal(t, 1, l.Stats().Conns)
		time.Sleep(12 * time.Second)
		require.EqualValues(t, 3, c.Stats().KeepAlivesSent, "and the greeting is one")
		raw.WriteTo(reliable.AppendHeader(nil, reliable.Header{Sequence: 5, Ack: 65535}), l.Addr())
		time.Sleep(simRTT)
		wantNoConn(t, l)

		raw.WriteTo(hello(8), l.Addr())
		other, err := n.Listen("10.0.0.9:2")
		require.NoError(t, err)
		defer other.Close()
		other.WriteTo(hello(9), l.Addr())
		time.Sleep(simRTT)
		require.Equal(t, 2, l.Stats().Conns)
		start := time.Now()
		go func() {
			time.Sleep(time.Millisecond)
			c.Close()
		}()
		require.NoError(t, l.Shutdown(t.Context()))
		require.Less(t, time.Since(start), 2*time.Second)
		require.Zero(t, l.Stats().Conns)
	})
}
