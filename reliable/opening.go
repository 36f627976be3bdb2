package reliable

const (
	openingReach = 64   // how far from the packets of an opening others of it may be
	openingGap   = 4096 // so many may be missing in one that nobody has answered ...
	openingFew   = 3    // ... and that has so many messages at least
)

// An opening is the other side's first packets: it has heard nothing yet.
type opening struct {
	from  uint16
	count uint16 // sequences from the first packet to the last one; 0: no packet was accepted yet
}

// openingHidden is the count of one that was over at the first packet, or is endless.
const openingHidden = 1<<16 - 1

// none reports whether no packet was accepted yet, and known whether there is an end.
func (o *opening) none() bool  { return o.count == 0 }
func (o *opening) known() bool { return o.count > 0 && o.count < openingHidden }

// note takes the header of an accepted packet, with a message or without.
func (o *opening) note(h Header, message bool) {
	switch {
	case o.none() && h.heardNothing():
		*o = opening{h.Sequence, 1}
	case o.none():
		o.count = openingHidden
	case !o.known() || !message || !h.heardNothing():
	case h.Sequence-o.from < halfRange:
		o.count = max(o.count, h.Sequence-o.from+1)
	case o.from+o.count-1-h.Sequence > halfRange: // ahead of the last one
		o.count = openingHidden
	}
}

// reachBack takes in a packet that was sent before the one which came first. It may be too
// old for the window, and yet its copies, and others near it, are of this opening.
func (o *opening) reachBack(s uint16) {
	if back := o.from - s; o.known() && back < halfRange && int(o.count)+int(back) < openingHidden {
		o.from, o.count = s, o.count+back
	}
}

// covers reports whether a packet that has heard nothing may be of the opening, from so
// many sequences behind it to so many ahead.
func (o *opening) covers(s uint16, behind uint16, ahead int) bool {
	if o.known() {
		return int(s-(o.from-behind)) < int(behind)+int(o.count)+ahead
	}
	return !o.none()
}
