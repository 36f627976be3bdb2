package volley

import (
	"cmp"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"volley/internal/wire"
	"volley/reliable"
)

// A RefusedError ends a connection that the other side refuses.
type RefusedError struct {
	// Reason is "full" (MaxConns or Backlog of the Listener there), "closing" (it has
	// been closed), or "protocol" (another Config.ProtocolID).
	Reason string
}

func (e *RefusedError) Error() string { return "refused: " + e.Reason }

const (
	refusedFull     = "full"
	refusedClosing  = "closing"
	refusedProtocol = "protocol"
)

// At most so many notices, and so many answers and refusals, leave the connections of
// a Config or Listener in a second, and so many at once, whoever asks for them.
const (
	noticesPerSecond = 10_000
	noticesAtOnce    = 1_000
)

// An unknownPeers tells addresses without a connection that they are unknown, or refused.
// It keeps nothing of them.
type unknownPeers struct {
	set     *settings
	filter  func(netip.AddrPort) bool
	notices bucket
	answers bucket
	sent    atomic.Uint64
}

// tell answers the datagrams of one stranger who may not come in with one that is not
// larger than the one it answers: a refusal of a question, if there is one among them,
// else a notice about the newest packet in mid-stream. Everything else gets no answer,
// so that two of us never answer each other. A hello is refused if there is a reason.
func (s *unknownPeers) tell(now time.Time, from netip.AddrPort, bufs [][]byte, reason string, out *wire.Batch) {
	if !s.set.greets {
		return
	}
	if token, ok := firstQuestion(bufs, reason != ""); ok {
		if s.may(&s.answers, now, from) {
			putToken(out.Extend(tokenSize+len(reason)), refusalPrefix, token, reason)
		}
	} else if sequence, ok := s.lastMidStream(bufs); ok {
		if s.may(&s.notices, now, from) {
			putNotice(out.Extend(noticeSize), sequence)
		}
	}
}

func (s *unknownPeers) may(limit *bucket, now time.Time, from netip.AddrPort) bool {
	if !limit.take(now) || s.filter != nil && !s.filter(from) {
		return false
	}
	s.sent.Add(1)
	return true
}

// firstQuestion returns the token of the first question. Hellos, and answers to the questions
// of proofs, are some if they count.
func firstQuestion(bufs [][]byte, hellos bool) (token uint64, ok bool) {
	for _, b := range bufs {
		if s, ok := parseSalute(b); ok && (b[0] == questionPrefix || hellos && (b[0] == helloPrefix || b[0] == answerPrefix)) {
			return s.token, true
		}
	}
	return 0, false
}

// hello returns the first hello, where there are greetings.
func (set *settings) hello(bufs [][]byte) (s salute, ok bool) {
	for _, b := range bufs {
		if set.greets && len(b) == greetingSize && b[0] == helloPrefix {
			return parseSalute(b)
		}
	}
	return salute{}, false
}

// foreign reports whether a hello is of another program, or of one that is not told apart
// and has to be.
func (set *settings) foreign(hello salute) bool {
	return set.protocol != 0 && hello.protocol != set.protocol && (hello.protocol != 0 || set.requires)
}

// lastMidStream returns the sequence of the last packet or fragment that does
// not begin a connection.
func (s *unknownPeers) lastMidStream(bufs [][]byte) (sequence uint16, ok bool) {
	for _, b := range slices.Backward(bufs) {
		if seen, ok := reliable.Inspect(&s.set.reliable, b); ok && !seen.Opening {
			return seen.Sequence, true
		}
	}
	return 0, false
}

// A bucket limits a rate: it holds so many and fills at so many a second; by default
// noticesAtOnce and noticesPerSecond.
type bucket struct {
	perSecond, atOnce time.Duration

	mu    sync.Mutex
	spent time.Duration // of the time that a full bucket took to fill
	last  time.Time
}

// take reports whether there is one left, and takes it.
func (b *bucket) take(now time.Time) bool {
	each := time.Second / cmp.Or(b.perSecond, noticesPerSecond)
	full := cmp.Or(b.atOnce, noticesAtOnce) * each
	b.mu.Lock()
	defer b.mu.Unlock()
	b.spent -= min(b.spent, max(0, now.Sub(b.last)))
	b.last = now
	if b.spent+each > full {
		return false
	}
	b.spent += each
	return true
}
