package main

import (
	"hash/maphash"
	"sync"

	"volley"
)

// A ledger keeps account of messages on both sides of a connection, so that
// each one that arrives can be checked against those that were sent. It knows
// messages by their content: even one byte then needs no number beside it.
// Where several messages have the same content it counts them.
type ledger struct {
	mu       sync.Mutex
	seed     maphash.Seed
	accounts map[content]*account
	ids      map[uint64]pending // messages without a receipt
	totals   totals
}

// content stands for the bytes of a message.
type content struct {
	size int
	hash uint64
}

// An account counts the messages with one content.
type account struct{ sent, received, acked int }

// A pending message has been sent, and has no receipt yet.
type pending struct {
	account *account
	size    int
}

// totals are the sums of a ledger at one moment.
type totals struct {
	sent, received, acked int   // messages
	unacked               int   // messages presumed lost
	corrupt               int   // messages received that were never sent
	repeated              int   // messages received more often than sent
	sentBytes, ackedBytes int64 // without headers
}

func newLedger() *ledger {
	return &ledger{
		seed:     maphash.MakeSeed(),
		accounts: make(map[content]*account),
		ids:      make(map[uint64]pending),
	}
}

func (l *ledger) key(msg []byte) content {
	return content{len(msg), maphash.Bytes(l.seed, msg)}
}

// sending notes a message that is about to be sent.
func (l *ledger) sending(msg []byte) pending {
	l.mu.Lock()
	defer l.mu.Unlock()
	k := l.key(msg)
	a := l.accounts[k]
	if a == nil {
		a = new(account)
		l.accounts[k] = a
	}
	a.sent++
	l.totals.sent++
	l.totals.sentBytes += int64(len(msg))
	return pending{a, len(msg)}
}

// sent notes the number under which the message will be acknowledged.
func (l *ledger) sent(p pending, id uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ids[id] = p
}

// unsent takes back a message that could not be sent.
func (l *ledger) unsent(p pending) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p.account.sent--
	l.totals.sent--
	l.totals.sentBytes -= int64(p.size)
}

// received checks a message that has arrived.
func (l *ledger) received(msg []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.accounts[l.key(msg)]
	switch {
	case a == nil:
		l.totals.corrupt++
	case a.received == a.sent:
		l.totals.repeated++
	default:
		a.received++
		l.totals.received++
	}
}

// receipt notes what became of a message.
func (l *ledger) receipt(r volley.Receipt) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p, ok := l.ids[r.ID]
	if !ok {
		return
	}
	delete(l.ids, r.ID)
	if r.Fate != volley.Delivered {
		l.totals.unacked++
		return
	}
	p.account.acked++
	l.totals.acked++
	l.totals.ackedBytes += int64(p.size)
}

// open returns the number of messages without a receipt.
func (l *ledger) open() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.ids)
}

func (l *ledger) snapshot() totals {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.totals
}

// phantoms returns the number of messages that were acknowledged but not
// received.
func (l *ledger) phantoms() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for _, a := range l.accounts {
		n += max(0, a.acked-a.received)
	}
	return n
}
