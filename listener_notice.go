package volley

import (
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"volley/internal/wire"
	"volley/reliable"
)

// At most so many notices and so many answers leave a Listener in a second, and
// so many at once, whoever asks for them.
const (
	noticesPerSecond = 10_000
	noticesAtOnce    = 1_000
)

// A notifier tells strangers in mid-stream that they are unknown. It keeps
// nothing of them.
type notifier struct {
	notices, answers bucket
	sent             atomic.Uint64
}

// tell answers the datagrams of one stranger with one that is not larger than
// the one it answers: a question if there is one among them, else the newest
// packet. What begins a connection, and the notices and answers of others, get
// none, so that two of us never answer each other.
func (a *acceptor) tell(now time.Time, from netip.AddrPort, bufs [][]byte, out *wire.Batch) {
	n := a.notifier
	if token, ok := firstAsk(bufs); ok {
		if a.mayTell(&n.answers, now, from) {
			putAnswer(out.Extend(askSize), token)
		}
	} else if sequence, ok := a.lastMidStream(bufs); ok {
		if a.mayTell(&n.notices, now, from) {
			putNotice(out.Extend(noticeSize), sequence)
		}
	}
}

func (a *acceptor) mayTell(limit *bucket, now time.Time, from netip.AddrPort) bool {
	if !limit.take(now) || a.filter != nil && !a.filter(from) {
		return false
	}
	a.notifier.sent.Add(1)
	return true
}

func firstAsk(bufs [][]byte) (token uint64, ok bool) {
	for _, b := range bufs {
		if token, ok = parseAsk(b); ok {
			break
		}
	}
	return token, ok
}

// lastMidStream returns the sequence of the last packet or fragment that does
// not begin a connection.
func (a *acceptor) lastMidStream(bufs [][]byte) (sequence uint16, ok bool) {
	for _, b := range slices.Backward(bufs) {
		if sequence, ok = reliable.ParseSequence(&a.set.reliable, b); ok && !a.opens(b) {
			return sequence, true
		}
	}
	return 0, false
}

// A bucket limits a rate: it holds noticesAtOnce and fills at noticesPerSecond.
type bucket struct {
	mu    sync.Mutex
	spent time.Duration // of the time that a full bucket took to fill
	last  time.Time
}

// take reports whether there is one left, and takes it.
func (b *bucket) take(now time.Time) bool {
	const each, full = time.Second / noticesPerSecond, noticesAtOnce * time.Second / noticesPerSecond
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
