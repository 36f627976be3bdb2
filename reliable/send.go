package reliable

import "time"

// Send appends to out the datagrams that carry payload and returns the id of
// the packet, whose low 16 bits are its sequence. The error is a
// *PacketTooLargeError or ErrNoMemory; then nothing was sent and no sequence
// used. An empty payload makes an ack-only packet.
func (e *Endpoint) Send(now time.Time, payload []byte, out *Batch) (id uint64, err error) {
	e.advance(now)
	if len(payload) > int(e.maxPacket) {
		e.rarely().faults.PacketsTooLargeToSend++
		return 0, &PacketTooLargeError{Size: len(payload), Max: int(e.maxPacket)}
	}
	if e.sent.ring == nil && !e.ensureSent() {
		return 0, ErrNoMemory
	}
	if len(payload) == 0 {
		return e.sendEmpty(out), nil
	}
	if e.cfg.AckDelay > 0 {
		t := e.talking()
		t.rhythm.note(e.now)
		t.prober.count = 0
	}
	h := Header{Sequence: uint16(e.nextID)}
	h.Ack, h.AckBits = e.received.seen.Acks()
	return e.sendHeader(h, h.Ack, payload, out), nil
}

// sendEmpty appends a packet without payload. There is a window.
func (e *Endpoint) sendEmpty(out *Batch) (id uint64) {
	h := Header{Sequence: uint16(e.nextID)}
	h.Ack, h.AckBits = e.received.seen.Acks()
	newest := h.Ack
	if e.cfg.AckDelay > 0 {
		h = h.patient()
	}
	return e.sendHeader(h, newest, nil, out)
}

// sendHeader appends the datagrams of a packet whose header tells of all up to
// newest.
func (e *Endpoint) sendHeader(h Header, newest uint16, payload []byte, out *Batch) (id uint64) {
	lostID, lost := e.remember(len(payload))
	if len(payload) > int(e.fragmentAbove) {
		e.sendFragments(h, payload, out)
	} else {
		n := h.Size()
		b := out.Extend(n + len(payload))
		h.put(b)
		copy(b[n:], payload)
	}
	id = e.nextID
	e.nextID++
	e.counters.packetsSent++
	if e.grows() {
		e.flowing().sent.add(uint32(e.headerSize)+uint32(len(payload)), e.now)
	}
	if t := e.talk; t != nil {
		if e.parts.open > 0 && int16(newest-t.newest) > 0 {
			newest -= min(newest-t.newest, ackLead) // those that lack fragments are yet to be told of
		}
		t.sent(id, newest, e.now)
	}
	if lost {
		e.tell(lostID, FateLost, 0)
	}
	return id
}

// sendFragments appends the fragments of a packet to out.
func (e *Endpoint) sendFragments(h Header, payload []byte, out *Batch) {
	size := int(e.fragmentSize)
	f := FragmentHeader{Sequence: h.Sequence, Count: int(uint32(len(payload)+size-1) / uint32(size))}
	n := h.Size()
	first := min(size, len(payload))
	b := out.Extend(FragmentHeaderSize + n + first)
	f.put(b)
	h.put(b[FragmentHeaderSize:])
	copy(b[FragmentHeaderSize+n:], payload[:first])
	for len(payload) > size {
		payload = payload[size:]
		f.ID++
		part := payload[:min(size, len(payload))]
		b := out.Extend(FragmentHeaderSize + len(part))
		f.put(b)
		copy(b[FragmentHeaderSize:], part)
	}
	e.counters.fragmentsSent += uint64(f.Count)
}
