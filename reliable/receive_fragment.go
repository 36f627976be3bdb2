package reliable

func (e *Endpoint) receiveFragment(datagram []byte) Verdict {
	if r := e.parts.expected(datagram); r != nil && !e.in.seen.Knows(r.sequence) && r.storeNext(datagram, int(e.fragmentSize)) {
		return e.added(r)
	}
	var f Fragment
	if f.parse(datagram, int(e.maxFragments), int(e.fragmentSize)) != "" {
		e.extras.count(&e.env, fragmentInvalid)
		return Invalid
	}
	r, v := e.place(&f)
	if v == noRoom && e.cfg.AckRefused {
		unknown := !e.Acked()
		if h := e.parts.header(&f); h != nil {
			e.handleAcks(*h, true)
		}
		if e.out.sent() == 0 {
			e.acks.introduce(&e.env, e.in.newest())
		}
		if unknown && e.Acked() { // for those who have acknowledged something there may be memory
			r, v = e.place(&f)
		}
	}
	if v != fragmentStored {
		if v != Duplicate {
			e.extras.count(&e.env, fragmentInvalid)
		}
		return v
	}
	e.parts.store(r, &f, int(e.fragmentSize))
	return e.added(r)
}

// place returns a fragment's reassembly with room, or a refusal: not fragmentStored.
func (e *Endpoint) place(f *Fragment) (*reassembly, Verdict) {
	if e.in.begin(f.Sequence) {
		e.startAt(f.Sequence)
	}
	var h *Header
	if f.ID == 0 {
		h = &f.Header
		if e.opened(h, true) {
			return nil, stale
		}
	}
	if e.in.seen.Knows(f.Sequence) && !e.anewFragment(f.Sequence, h) {
		return nil, Duplicate
	}
	if r := e.parts.find(f.Sequence); r != nil {
		return r, e.parts.extend(&e.env, r, f)
	}
	if e.cfg.JumpGuard {
		if v, believed := e.guard(f.Sequence); !believed && !e.anewFragment(f.Sequence, h) {
			return nil, v
		}
	}
	r, v := e.parts.begin(&e.env, f)
	if r == nil {
		return nil, v
	}
	if moved, gap := e.in.forward(f.Sequence); moved && e.cfg.AckDelay > 0 {
		e.acks.begun(&e.env, e.view(), gap)
	}
	return r, v
}

// anewFragment is anew for a fragment, whose acks are told at once, before late packets.
func (e *Endpoint) anewFragment(s uint16, h *Header) bool {
	if !e.anew(s, h, true) {
		return false
	}
	if h != nil && e.out.random() {
		e.handleAcks(*h, true)
	}
	return true
}

// added takes the packet of r if the fragment that was added completes it.
func (e *Endpoint) added(r *reassembly) Verdict {
	v := fragmentStored
	if r.got == r.count {
		payload := r.payload(int(e.fragmentSize))
		if size := r.headerSize + len(payload); size > int(e.maxPacket)+datagramSlack {
			e.extras.count(&e.env, packetTooLargeToReceive)
			v = TooLarge
		} else {
			e.counters.received()
			v = e.receivePacket(r.header, payload, size, r.openedAt)
		}
		e.parts.close(&e.env, r)
	}
	e.counters.stored()
	return v
}
