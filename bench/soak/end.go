package main

import (
	"time"

	"volley"
)

// An end is one side of a connection: what it writes and what it reads.
type end struct {
	book     *book
	conn     *volley.Conn
	flow     *flow
	reader   *reader
	born     time.Duration
	receipts []volley.Receipt
}

func newEnd(b *book, c *volley.Conn, r *reader) *end {
	e := &end{book: b, conn: c, reader: r, born: b.now()}
	go r.run(c)
	return e
}

// collect takes the receipts there are.
func (e *end) collect() {
	if e.flow == nil {
		return
	}
	e.receipts = e.conn.AppendReceipts(e.receipts[:0])
	e.flow.receipts(e.receipts)
}

// close closes the connection, if it has not ended, and settles its accounts.
// The error is what ended it.
func (e *end) close() error {
	e.conn.Close()
	<-e.reader.done
	e.collect()
	stats := e.conn.Stats()
	if stats.ReceiptsDropped > 0 {
		e.book.tally.fault(dropped, "%d of %v", stats.ReceiptsDropped, e.flow)
	}
	slot := e.reader.slot.Load()
	switch {
	case stats.MessagesReceived < e.reader.read:
		e.book.tally.fault(miscounted, "%d received, %d read, by a connection of client %d",
			stats.MessagesReceived, e.reader.read, slot)
	case stats.MessagesReceived > e.reader.read && slot >= 0:
		e.book.slots[slot].closed(e.book, e.reader.from, stats.MessagesReceived-e.reader.read)
	}
	if e.flow != nil {
		e.flow.end()
	}
	return e.reader.err
}

// explain counts the end of a connection by itself as a fault if there was no
// reason for it. A connection may find out late.
func (e *end) explain(err error) {
	slot := e.reader.slot.Load()
	if slot < 0 {
		return // of a peer that has never written
	}
	if !e.book.slots[slot].disturbed(min(e.born, e.book.now()-late)) {
		e.book.tally.fault(unexplained, "a connection of client %d to the %v, after %v: %v",
			slot, e.reader.from, e.book.now()-e.born, err)
	}
}
