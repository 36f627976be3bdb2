package volley

import (
	"errors"
	"os"
	"regexp"
	"testing"
	"time"
	"volley/internal/testenv"

	"github.com/stretchr/testify/require"
)

// quiet is a look at a connection of a minute with which nothing is wrong.
func quiet() look {
	l := look{at: time.Minute, heard: true, keepAlive: 5 * time.Second, ackDelay: 125 * time.Millisecond,
		readBuffer: 1000, window: 16384, socketBuffer: 4 << 20}
	l.stats.RTT = 50 * time.Millisecond
	l.stats.MessagesSent, l.stats.MessagesDelivered = 1000, 1000
	l.stats.MessagesReceived, l.stats.PacketsReceived = 1000, 1000
	l.stats.Transport.ReadBuffer = 4 << 20
	return l
}

// TestExplainThresholds: on both sides of each.
func TestExplainThresholds(t *testing.T) {
	for _, test := range []struct {
		name   string
		kind   string
		change func(l *look, over bool)
	}{
		{"share", findingLossSending, func(l *look, over bool) {
			l.stats.MessagesDelivered, l.stats.MessagesLost = 1000, 10
			if over {
				l.stats.MessagesLost = 11
			}
		}},
		{"count", findingLossSending, func(l *look, over bool) {
			l.stats.MessagesDelivered, l.stats.MessagesLost = 10, 2
			if over {
				l.stats.MessagesLost = 3
			}
		}},
		{"end", findingLossSending, func(l *look, over bool) {
			l.stats.MessagesDelivered, l.stats.MessagesLost, l.undecided = 0, 100, 98
			if over {
				l.undecided--
			}
		}},
		{"share", findingLossReceiving, func(l *look, over bool) {
			l.stats.Missed.Network = 10
			if over {
				l.stats.Missed.Network = 11
			}
		}},
		{"any", findingSocketFull, func(l *look, over bool) {
			l.stats.Missed.Network = 2
			if over {
				l.stats.Transport.Drops = 2
			}
		}},
		{"half", findingInboxFull, func(l *look, over bool) {
			l.stats.ReadQueue = 499
			if over {
				l.stats.ReadQueue = 500
			}
		}},
		{"any", findingSizesDiffer, func(l *look, over bool) {
			if over {
				l.rejected, l.stats.Missed.Sizes = 1, 1
			}
		}},
		{"share", findingMalformed, func(l *look, over bool) {
			l.malformed = 10
			if over {
				l.malformed = 11
			}
		}},
		{"count", findingMalformed, func(l *look, over bool) {
			l.malformed, l.stats.PacketsReceived = 2, 10
			if over {
				l.malformed = 3
			}
		}},
		{"any", findingInboxFull, func(l *look, over bool) {
			if over {
				l.stats.MessagesRefused = 1
			}
		}},
		{"any", findingMemoryFull, func(l *look, over bool) {
			l.memoryUsed, l.memoryMax = 90, 100
			if over {
				l.memoryRefused, l.stats.MessagesRefused = 1, 1
			}
		}},
		{"any", findingWindowShort, func(l *look, over bool) {
			if over {
				l.forgotten = 1
			}
		}},
		{"absolute", findingJitter, func(l *look, over bool) {
			l.variation = explainJitter - 1
			if over {
				l.variation++
			}
		}},
		{"relative", findingJitter, func(l *look, over bool) {
			l.stats.RTT = 800 * time.Millisecond
			l.variation = 100*time.Millisecond - 1
			if over {
				l.variation++
			}
		}},
		{"answer", findingPeerSilent, func(l *look, over bool) {
			l.open, l.oldest, l.silent = 1, time.Second-1, time.Minute
			l.keepAlive = 0
			if over {
				l.oldest++
			}
		}},
		{"heard", findingPeerSilent, func(l *look, over bool) {
			l.open, l.oldest, l.silent = 1, 1500*time.Millisecond, time.Second-1
			if over {
				l.silent++
			}
		}},
		{"far", findingPeerSilent, func(l *look, over bool) {
			l.stats.RTT = time.Second
			l.open, l.oldest, l.silent = 1, 4125*time.Millisecond, 4125*time.Millisecond-1
			if over {
				l.silent++
			}
		}},
		{"keepalive", findingPeerSilent, func(l *look, over bool) {
			l.silent = 12500*time.Millisecond - 1
			if over {
				l.silent++
			}
		}},
		{"twice", findingPeerDeaf, func(l *look, over bool) {
			l.open, l.oldest = 5, 2*time.Second-1
			if over {
				l.oldest++
			}
		}},
		{"pending", findingSendBlocked, func(l *look, over bool) {
			l.busy, l.pendingFor = true, explainBlocked-1
			if over {
				l.pendingFor++
			}
		}},
		{"errors", findingSendBlocked, func(l *look, over bool) {
			if over {
				l.writeErrors = 1
			}
		}},
		{"sent", findingOneWay, func(l *look, over bool) {
			l.stats.MessagesSent, l.stats.MessagesReceived = 9, 0
			if over {
				l.stats.MessagesSent = 10
			}
		}},
		{"got", findingOneWay, func(l *look, over bool) {
			l.stats.MessagesSent, l.stats.MessagesReceived = 0, 9
			if over {
				l.stats.MessagesReceived = 10
			}
		}},
		{"refusal", findingPeerRefuses, func(l *look, over bool) {
			if over {
				l.refusal, l.writeErrors = errors.New("refused"), 5
			}
		}},
		{"end", findingEnded, func(l *look, over bool) {
			if over {
				l.ended = errors.New("over")
			}
		}},
	} {
		t.Run(test.kind+"/"+test.name, func(t *testing.T) {
			l := quiet()
			test.change(&l, false)
			require.Empty(t, explain(&look{}, &l).Findings)
			l = quiet()
			test.change(&l, true)
			e := explain(&look{}, &l)
			require.Len(t, e.Findings, 1)
			require.Equal(t, test.kind, e.Findings[0].Kind)
			require.Equal(t, time.Minute, e.Period)

			// What has been counted before is of before.
			later := l
			later.at += time.Minute
			later.stats.MessagesSent, later.stats.MessagesReceived = later.stats.MessagesSent+100, later.stats.MessagesReceived+100
			later.pendingFor, later.busy = 0, false
			e = explain(&l, &later)
			switch test.kind {
			case findingLossSending, findingLossReceiving, findingSizesDiffer, findingSocketFull, findingMemoryFull, findingWindowShort, findingMalformed, findingSendBlocked, findingOneWay:
				require.Empty(t, e.Findings)
			}
		})
	}
}

// TestExplainWindowOfSilence: that nothing is acknowledged is not for want of a
// window.
func TestExplainWindowOfSilence(t *testing.T) {
	l := quiet()
	l.forgotten, l.open, l.oldest, l.silent = 100, 100, time.Minute, time.Minute
	only(t, explain(&look{}, &l), findingPeerSilent)
}

// TestExplainAnywhere: also of a connection that is no more.
func TestExplainAnywhere(t *testing.T) {
	a, b := Pipe(nil)
	a.Close()
	b.Close()
	for range 2 {
		require.Contains(t, only(t, a.Explain(), findingEnded).Text, "closed")
	}
}

// TestExplainPeriod: with which call of before the present is compared.
func TestExplainPeriod(t *testing.T) {
	var l looks
	for _, test := range [][2]int{{10, 0}, {12, 0}, {15, 10}, {19, 10}, {20, 15}, {60, 20}, {61, 20}, {65, 60}} {
		before := l.since(&look{at: time.Duration(test[0]) * time.Second})
		require.Equal(t, time.Duration(test[1])*time.Second, before.at, "at %d s", test[0])
	}
}

// TestExplainSplit: how missing packets are shared out.
func TestExplainSplit(t *testing.T) {
	before, now := quiet(), quiet()
	before.stats.Missed.Network, before.stats.Transport.Drops = 100, 0
	now.at *= 2
	now.stats.Missed = MissedMessages{Network: 80, Socket: 40}
	now.stats.Transport.Drops = 40
	now.stats.MessagesRefused = 7
	now.stats.PacketsReceived = 2000
	e := explain(&before, &now)
	require.Equal(t, MissedMessages{Socket: 20, Inbox: 7}, e.Missed)
	now.stats.Missed = MissedMessages{Network: 90, Socket: 40} // of 130, 30 are new
	now.stats.Transport.Drops = 10
	require.Equal(t, MissedMessages{Network: 20, Socket: 10, Inbox: 7}, explain(&before, &now).Missed)
}

// TestExplainAllocates: looking costs, being looked at does not.
func TestExplainAllocates(t *testing.T) {
	a, b := Pipe(nil)
	defer a.Close()
	defer b.Close()
	msg, buf := make([]byte, 100), make([]byte, 200)
	for range 100 {
		a.Write(msg)
		b.Read(buf)
	}
	for _, c := range []*Conn{a, b} {
		for _, f := range c.Explain().Findings {
			// Where the machine stands still for a moment, round trips vary.
			require.Contains(t, []string{findingOneWay, findingJitter}, f.Kind, f.Text)
		}
	}
	if testenv.Race {
		return
	}
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		a.Write(msg)
		b.Read(buf)
	}))
}

// The comment of Finding.Kind lists all kinds in their order.
func TestFindingKinds(t *testing.T) {
	source, err := os.ReadFile("explain.go")
	require.NoError(t, err)
	list := func(pattern string) (kinds []string) {
		for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(string(source), -1) {
			kinds = append(kinds, m[1])
		}
		return kinds
	}
	kinds := list(`\tfinding\w+ += "([^"]+)"`)
	require.Len(t, kinds, 17)
	require.Equal(t, kinds, list(`\t//   - "([^"]+)": `))
}
