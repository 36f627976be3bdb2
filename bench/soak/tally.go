package main

import (
	"fmt"
	"sync"
	"sync/atomic"
)

// A fault is something that must not happen.
type fault int

const (
	doubled        fault = iota // read twice by one connection
	corrupt                     // not as it was written
	foreign                     // read by a connection of another client, or by the side that wrote it
	unknown                     // of a connection that does not exist, or not any more
	unwritten                   // with a number that nobody has written yet
	ancient                     // so far behind others that nobody can tell whether it is doubled
	falseDelivered              // told Delivered, and the other side did not read it
	twoFates                    // with more than one receipt
	noFate                      // without a receipt
	strangeReceipt              // of a message that was not written
	dropped                     // receipts for which there was no room
	unexplained                 // connections that ended without a reason
	miscounted                  // connections that say they have received less than was read
	faults
)

var faultNames = [faults]string{"doubled", "corrupt", "foreign", "unknown", "unwritten", "ancient",
	"false Delivered", "two fates", "no fate", "strange receipt", "dropped receipts", "unexplained ends", "miscounted"}

// counts are what the run has come to so far.
type counts struct {
	sent, read uint64 // messages; those read by two connections are read twice
	// By receipts.
	delivered, lost uint64
	// Of messages whose time is over: not read by anybody, and told Lost
	// although they were read.
	missing, falseLost uint64
	// Told Delivered, and dropped with others because their reader closed its
	// connection before it had read them.
	unread uint64
	// Messages that connections had queued for Read as they were closed.
	closedOn uint64
	// Errors of Read that ended nothing.
	passing uint64
}

// A tally counts, and keeps the first faults of each kind in words.
type tally struct {
	sent, read, delivered, lost, missing, falseLost, unread, closedOn, passing atomic.Uint64

	mu     sync.Mutex
	faults [faults]uint64
	words  []string
}

// wordsKept is how many faults of each kind are told of in words.
const wordsKept = 5

func (t *tally) fault(f fault, format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.faults[f]++
	if t.faults[f] <= wordsKept {
		t.words = append(t.words, faultNames[f]+": "+fmt.Sprintf(format, args...))
	}
}

// found returns how many faults there were of each kind, and the words since
// the last call.
func (t *tally) found() ([faults]uint64, []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	words := t.words
	t.words = nil
	return t.faults, words
}

func (t *tally) counts() counts {
	return counts{t.sent.Load(), t.read.Load(), t.delivered.Load(), t.lost.Load(), t.missing.Load(),
		t.falseLost.Load(), t.unread.Load(), t.closedOn.Load(), t.passing.Load()}
}
