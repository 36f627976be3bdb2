package volley

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"volley/reliable"
	"volley/simnet"
)

// unequal runs a test on a stage whose sides have different Configs.
func unequal(t *testing.T, link simnet.Link, a, b *Config, f func(s *stage)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &stage{t: t}
		s.ia, s.ib = simnet.Pair(1, link, good)
		s.a, s.b = mustConn(s.ia, a), mustConn(s.ib, b)
		defer s.b.Close()
		defer s.a.Close()
		s.drain(s.a)
		s.drain(s.b)
		f(s)
	})
}

// TestExplainSizesDiffer: what this side refuses for its size is not lost in the
// network, and it is said what mends it.
func TestExplainSizesDiffer(t *testing.T) {
	for _, test := range []struct {
		name  string
		a, b  *Config
		sizes []int // of those that are refused
	}{
		{"smaller fragments here", nil, &Config{FragmentSize: 500}, []int{5000}},
		{"larger fragments here", &Config{FragmentSize: 500}, nil, []int{5000}},
		{"one fragment fits", nil, &Config{FragmentSize: 500, MaxMessageSize: 5000}, []int{3 * 1024, 2*1024 + 10}},
		{"more fragments", &Config{MaxMessageSize: 32768}, nil, []int{20000}},
		{"one byte more", nil, &Config{MaxMessageSize: 2999}, []int{3000}}, // not known before all of it is here
		{"a little larger", nil, &Config{MaxMessageSize: 100}, []int{101}},
		{"larger", nil, &Config{MaxMessageSize: 100}, []int{200, 5000}},
	} {
		for _, small := range []bool{true, false} {
			t.Run(test.name, func(t *testing.T) {
				unequal(t, good, test.a, test.b, func(s *stage) {
					s.talk(20, 50, time.Second, s.a, s.b)
					require.Empty(t, s.b.Explain().Findings)
					refused := 0
					for range 50 {
						for _, n := range test.sizes {
							_, err := s.a.Write(make([]byte, n))
							require.NoError(t, err)
							refused++
						}
						if small {
							s.a.Write([]byte("small"))
							s.b.Write([]byte("and back"))
						}
						time.Sleep(20 * time.Millisecond)
					}
					time.Sleep(100 * time.Millisecond)
					e := s.b.Explain()
					f := finding(t, e, findingSizesDiffer)
					require.GreaterOrEqual(t, f.Count, uint64(refused))
					require.Contains(t, f.Advice, "Config.FragmentSize")
					require.Contains(t, f.Advice, "MaxMessageSize")
					require.Equal(t, MissedMessages{Sizes: uint64(refused)}, e.Missed)
					require.Equal(t, e.Missed, s.b.Stats().Missed)
					require.False(t, e.OK())
					for _, f := range e.Findings {
						require.NotContains(t, []string{findingLossReceiving, findingMalformed}, f.Kind)
					}
					time.Sleep(explainRecent)
					s.b.Explain()
					s.talk(20, 50, explainRecent, s.a, s.b)
					for range 2 {
						e = s.b.Explain()
					}
					require.NotContains(t, e.String(), "were refused")
				})
			})
		}
	}
}

// TestExplainSizesAndLoss: where the network loses messages, too, and reorders and
// doubles the others, the two are told apart.
func TestExplainSizesAndLoss(t *testing.T) {
	for _, link := range []simnet.Link{
		{Latency: 20 * time.Millisecond, Loss: 0.1},
		{Latency: 20 * time.Millisecond, Jitter: 30 * time.Millisecond, Loss: 0.1, Duplicate: 0.1},
	} {
		unequal(t, link, nil, &Config{MaxMessageSize: 100}, func(s *stage) {
			for i := range 3000 {
				n := 50
				if i%3 == 0 {
					n = 200
				}
				s.a.Write(make([]byte, n))
				s.b.Write([]byte("and back"))
				time.Sleep(10 * time.Millisecond)
			}
			time.Sleep(time.Second)
			m := s.b.Stats().Missed
			require.InDelta(t, 900, float64(m.Sizes), 30)
			require.InDelta(t, 300, float64(m.Network), 60)
			e := s.b.Explain()
			finding(t, e, findingSizesDiffer)
			finding(t, e, findingLossReceiving)
		})
	}
}

// TestExplainMalformed: what is none of this protocol is said to be, and not blamed
// on sizes.
func TestExplainMalformed(t *testing.T) {
	unequal(t, good, nil, nil, func(s *stage) {
		s.talk(20, 50, time.Second, s.a, s.b)
		for range 10 {
			s.ia.Write([]byte{1, 2, 3, 10, 5}) // a fragment beyond the last one
			s.ia.Write([]byte{0x80, 0})
		}
		time.Sleep(time.Second)
		e := s.b.Explain()
		require.EqualValues(t, 20, only(t, e, findingMalformed).Count)
		require.Zero(t, e.Missed)
		for range 10 {
			var b [noticeSize]byte
			b[0] = noticePrefix
			s.ib.Write(b[:])
		}
		time.Sleep(time.Second)
		require.Empty(t, s.a.Explain().Findings, "notices are none of these")
	})
}

// TestSizesLog: the Logger is told of it on every side that has one, once in ten
// seconds.
func TestSizesLog(t *testing.T) {
	const line = `level=WARN msg="volley: datagrams are refused, because they are too large or cut otherwise than here: ` +
		`FragmentSize has to be the same on both sides, and MaxMessageSize large enough" count=`
	cfg := func() (*logBuffer, *Config) {
		log, logger := newLog()
		return log, &Config{FragmentSize: 500, Logger: logger}
	}
	told := func(t *testing.T, log *logBuffer, send func()) {
		t.Helper()
		for range 15 {
			send()
			time.Sleep(time.Second)
		}
		lines := log.lines()
		require.Len(t, lines, 2)
		for _, l := range lines {
			require.True(t, strings.HasPrefix(l, line), l)
			require.Contains(t, l, "fragment_size=500 max_message_size=16384")
		}
	}
	large := make([]byte, 5000)
	synctest.Test(t, func(t *testing.T) {
		log, with := cfg()
		_, l, dial := network(t, &ListenConfig{Config: with})
		a := dial("10.0.0.2:0", new(Dialer))
		defer a.Close()
		b := accept(t, l)
		defer b.Close()
		told(t, log, func() { a.Write(large) })
	})
	synctest.Test(t, func(t *testing.T) {
		log, with := cfg()
		_, l, dial := network(t, new(ListenConfig))
		a := dial("10.0.0.2:0", &Dialer{Config: with})
		defer a.Close()
		b := accept(t, l)
		defer b.Close()
		told(t, log, func() { b.Write(large) })
	})
	synctest.Test(t, func(t *testing.T) {
		log, with := cfg()
		n := simnet.New(1)
		defer n.Close()
		inner, err := n.Listen("10.0.0.1:7777")
		require.NoError(t, err)
		pc, err := NewPacketConn(inner, &ListenConfig{Config: with})
		require.NoError(t, err)
		defer pc.Close()
		c, err := n.Dial("10.0.0.2:0", "10.0.0.1:7777")
		require.NoError(t, err)
		peer := mustConn(c, nil)
		defer peer.Close()
		peer.Write([]byte("hello"))
		told(t, log, func() { peer.Write(large) })
		stats, known := pc.PeerStats(c.LocalAddr())
		require.True(t, known)
		require.EqualValues(t, 15, stats.Missed.Sizes)
	})
}

// TestRejectedSequences: each message counts once, in whatever order its datagrams
// come.
func TestRejectedSequences(t *testing.T) {
	var m rejected
	for _, test := range []struct {
		sequence uint16
		first    bool
	}{
		{10, true}, {10, false}, {12, true}, {10, false}, {11, true}, {12, false}, {11, false},
		{73, true}, {10, false}, {74, true}, {11, false},
		{65530, true}, {65535, true}, {0, true}, {65530, false}, {3, true}, {65535, false},
		{40000, true}, {40000, false},
	} {
		require.Equal(t, test.first, m.first(test.sequence), "%d", test.sequence)
	}
}

// TestRejectedPassed: what is refused is missing at no time, whether an accepted
// packet passes it by before it comes or after.
func TestRejectedPassed(t *testing.T) {
	set, err := newSettings(&Config{MaxMessageSize: 10}, 1200, nil)
	require.NoError(t, err)
	c := &Conn{set: set}
	take := func(sequences ...uint16) {
		for _, s := range sequences {
			(*sink)(c).takeSequence(s)
		}
	}
	refuse := func(sequences ...uint16) {
		for _, s := range sequences {
			b := reliable.AppendHeader(nil, reliable.Header{Sequence: s})
			c.noteRejectedLocked(reliable.TooLarge, append(b, make([]byte, 11)...))
		}
	}
	check := func(missing, messages uint64) {
		t.Helper()
		require.Equal(t, missing, c.extra().missing)
		require.Equal(t, messages, c.extra().rejected.messages)
	}
	refuse(1, 2, 3) // before the first one
	take(5)
	check(0, 3)
	refuse(6, 7)
	take(8)
	check(0, 5)
	take(11)
	check(2, 5)
	refuse(9, 9, 10) // late
	check(0, 7)
	refuse(12, 14)
	take(13, 16) // 15 is lost
	check(1, 9)
	refuse(17)
	take(17, 19) // it was a damaged copy
	check(2, 10)
	refuse(19) // and this one of what is here
	check(2, 11)
	refuse(20)
	takeEmpty(c, 21) // a keepalive
	check(2, 12)
	refuse(22)
	takeEmpty(c, 24) // 23 was left out, to ask for an acknowledgement
	check(2, 13)
	refuse(25)
	take(25)
	refuse(26)
	take(29)
	check(4, 15)
}

func takeEmpty(c *Conn, sequence uint16) {
	before := c.newest
	c.noteGapLocked(before, c.numberLocked(sequence), true)
}

// takeSequence accounts for an accepted packet as takeLocked does.
func (s *sink) takeSequence(sequence uint16) {
	c := (*Conn)(s)
	before := c.newest
	if number := c.numberLocked(sequence); number != before+1 {
		c.noteGapLocked(before, number, false)
	}
}
