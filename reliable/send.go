package reliable

import "time"

// Send appends to out the datagrams that carry payload and returns the id of
// the packet, whose low 16 bits are its sequence. The error is a
// *MessageTooLargeError or ErrNoMemory; then nothing was sent and no sequence
// used. An empty payload makes an ack-only packet.
func (e *Endpoint) Send(now time.Time, payload []byte, out *Batch) (id uint64, err error) {
	e.advance(now)
	if len(payload) > int(e.maxPacket) {
		e.extras.count(&e.env, packetTooLargeToSend)
		return 0, &MessageTooLargeError{Size: len(payload), Max: int(e.maxPacket)}
	}
	if e.out.ring == nil && !e.out.ensure(&e.env) {
		return 0, ErrNoMemory
	}
	h := e.in.header(e.out.nextID)
	if len(payload) == 0 {
		return e.sendEmpty(h, false, out), nil
	}
	if e.cfg.AckDelay > 0 {
		t := e.acks.open(&e.env, e.in.newest())
		t.note(e.now)
		t.noted()
	}
	return e.sendHeader(h, h.Ack, payload, out), nil
}

// sendEmpty appends an empty packet. Prompt: what it acknowledges has arrived just now.
func (e *Endpoint) sendEmpty(h Header, prompt bool, out *Batch) (id uint64) {
	newest := h.Ack
	if e.cfg.AckDelay > 0 && !prompt {
		h = h.patient()
	}
	return e.sendHeader(h, newest, nil, out)
}

// sendHeader appends the datagrams of a packet whose header tells of all up to newest.
func (e *Endpoint) sendHeader(h Header, newest uint16, payload []byte, out *Batch) (id uint64) {
	if t := e.acks.talk; t != nil {
		t.renewed()
	}
	id = e.out.nextID
	e.takesSequence()
	lostID, lost := e.out.next(&e.env, len(payload))
	fragments := 0
	if len(payload) > int(e.fragmentAbove) {
		fragments = putFragments(h, payload, int(e.fragmentSize), out)
	} else {
		n := h.size()
		b := out.Extend(n + len(payload))
		h.put(b)
		copy(b[n:], payload)
	}
	e.counters.sent(fragments)
	if e.grows() {
		e.meter.flowing(&e.env).sent.add(e.headered(len(payload)), e.now)
	}
	if t := e.acks.talk; t != nil {
		t.departed(id, newest, e.parts.open, e.now)
	}
	if lost {
		e.lost(lostID)
	}
	return id
}

// takesSequence notes that the next sequence is used. If it is our earliest early packet, nothing that
// has come can know of that, nor can what was sent before.
func (e *Endpoint) takesSequence() {
	if e.out.overdue.earliest(uint32(e.out.nextID)) && !e.in.unmet {
		e.out.outdated.reach(e.in.newest(), e.now)
	}
}

// putFragments appends the fragments of a packet to out, and returns how many there are.
func putFragments(h Header, payload []byte, size int, out *Batch) int {
	f := FragmentHeader{Sequence: h.Sequence, Count: int(uint32(len(payload)+size-1) / uint32(size))}
	n := h.size()
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
	return f.Count
}
