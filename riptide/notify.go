package riptide

import "volley/internal/wire"

// notifyBits is how many messages before the newest a notify message acknowledges.
const notifyBits = 8

// maxUnreported is the most notify messages without a fate: ids must stay distinct.
const maxUnreported = 1 << 14

// A notifier sends and receives notify messages of one connection.
type notifier struct {
	next     uint16 // id of the next one
	reported uint16 // all up to this one have a fate

	newest uint16 // the newest received
	bits   uint16 // bit i: newest-1-i was received
	fates  fateCounts
}

// fateCounts counts what became of messages.
type fateCounts struct {
	delivered, lost uint64
	// beyond counts those of lost that no acknowledgement covered.
	beyond uint64
}

// A fateSink gets the fate of each notify message, in order.
type fateSink interface {
	notifyFate(id uint16, delivered, known bool)
}

func (n *notifier) init() { n.next = 1 }

// send appends a notify message and returns its id.
func (n *notifier) send(c codec, body []byte, sink fateSink, out *wire.Batch) uint16 {
	id := n.next
	n.next++
	if c.layout == packed && int(n.next-n.reported) > maxUnreported {
		n.reported++
		n.fate(n.reported, false, false, sink)
	}
	c.appendNotify(out, id, ack{newest: n.newest, bits: n.bits}, body)
	return id
}

// isNew reports whether a message is newer than all before, and so to be handled.
func (n *notifier) isNew(id uint16) bool { return gap(id, n.newest) > 0 }

// received notes a message that has been handled.
func (n *notifier) received(id uint16) {
	g := gap(id, n.newest)
	n.bits = (n.bits<<g | 1<<(g-1)) & (1<<notifyBits - 1)
	n.newest = id
}

// acked takes an acknowledgement and tells the fates that follow from it.
func (n *notifier) acked(a ack, sink fateSink) {
	g := gap(a.newest, n.reported)
	if g <= 0 || g >= int(n.next-n.reported) { // old, or never sent
		return
	}
	for n.reported != a.newest {
		n.reported++
		back := int(a.newest - n.reported)
		switch {
		case back == 0:
			n.fate(n.reported, true, true, sink)
		case back <= notifyBits:
			n.fate(n.reported, a.bits>>(back-1)&1 == 1, true, sink)
		default:
			n.fate(n.reported, false, false, sink)
		}
	}
}

// fate counts and tells the fate of a message, unless known is false.
func (n *notifier) fate(id uint16, delivered, known bool, sink fateSink) {
	if delivered {
		n.fates.delivered++
	} else {
		n.fates.lost++
	}
	if !known {
		n.fates.beyond++
	}
	sink.notifyFate(id, delivered, known)
}
