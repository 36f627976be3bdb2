package volley

import (
	"flag"
	"io"
	"math/rand/v2"

	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"volley/internal/testenv"
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
		send(hello(7))
		s := accept(t, l)
		time.Sleep(simRTT)
		sent := func() uint64 {
			return n.LinkStats(netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.9")).Sent
		}
		require.EqualValues(t, 1, sent(), "the answer")
		s.CloseWithReason("go away")
		time.Sleep(time.Second)
		require.EqualValues(t, 2, sent(), "and a goodbye")

		victim.Close()
		victim = other
		send(hello(8))
		s = accept(t, l)
		s.CloseWithReason("go away")
		for range 10 {
			send(tokened(heardPrefix, 9, ""))
			time.Sleep(time.Millisecond)
		}
		time.Sleep(time.Second)
		require.EqualValues(t, 3+goodbyes, sent(), "an answer, and a goodbye for each, five in all")
		require.Zero(t, l.Stats().Conns)
	})
}

// A flood of questions is answered 10,000 times a second, and a client that comes after
// it is greeted.
func TestFloodOfQuestions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, l, dial := network(t, &ListenConfig{})
		raw, err := n.Listen("10.0.0.9:1")
		require.NoError(t, err)
		defer raw.Close()
		for range 1000 {
			for i := range 30 {
				raw.WriteTo(question(uint64(1+i)), l.Addr())
			}
			time.Sleep(time.Millisecond)
		}
		require.LessOrEqual(t, l.Stats().Notices, uint64(11_000))
		require.Greater(t, l.Stats().Notices, uint64(10_000))
		require.Zero(t, l.Stats().Conns)
		c := dial("10.0.0.2:1", &Dialer{})
		defer c.Close()
		s := accept(t, l)
		defer s.Close()
		before := n.LinkStats(netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")).Sent
		for range 100 {
			for i := range 300 {
				forge(s, hello(uint64(1+i)))
			}
			time.Sleep(time.Millisecond)
		}
		time.Sleep(time.Second)
		answered := n.LinkStats(netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")).Sent - before
		require.LessOrEqual(t, answered, uint64(noticesAtOnce+noticesPerSecond/10+10))
		c.Write([]byte("hello")) // asks again
		time.Sleep(time.Second)
		c.Write([]byte("hello"))
		time.Sleep(time.Second)
		require.True(t, greetingOf(c).proved)
		require.True(t, greetingOf(s).proved)
		require.Equal(t, greetingOf(c).own, greetingOf(s).peer)
	})
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
