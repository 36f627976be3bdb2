package dissect

// A Guess is what a datagram may be.
type Guess struct {
	Protocol Protocol
	// Sure says that hardly anything else looks like this: it is the beginning of a
	// connection, or its numbers agree with its size.
	Sure bool
}

// GuessDatagram returns the possible protocols of a UDP datagram, the likeliest
// first. It never guesses the layout of whole bytes of Riptide, because nothing tells
// it from the packed one.
//
// The formats have no mark. A protocol is possible if the sizes fit, and if known
// programs write the datagram in this form. The strictest format comes first. If a
// protocol is not among the results, the datagram is malformed or of another one.
func GuessDatagram(b []byte) (found []Guess) {
	for _, p := range []Protocol{Porous, Netcode, Reliable, Riptide} {
		d := Decode(p, b, nil)
		if d.Problem == "" && d.Note == "" && likely(&d, b) {
			found = append(found, Guess{p, sure(&d)})
		}
	}
	return surest(found)
}

// riptideUsual is the longest datagram of Riptide in bytes by default.
const riptideUsual = 1231

// GuessStream is GuessDatagram for the first bytes of a TCP connection.
func GuessStream(b []byte) (found []Guess) {
	for _, p := range []Protocol{Riptide, Netplay} {
		n, err := Next(p, b)
		if err != nil || n == 0 {
			continue
		}
		if p == Riptide && n > 4+riptideUsual {
			continue
		}
		if n > len(b) { // only the length is known
			found = append(found, Guess{Protocol: p})
			continue
		}
		d := Decode(p, b[:n], &Options{Stream: true})
		if d.Problem == "" && d.Note == "" && likely(&d, b[:n]) {
			found = append(found, Guess{p, sure(&d)})
		}
	}
	return surest(found)
}

// surest drops what is not sure where something is.
func surest(found []Guess) []Guess {
	for _, g := range found {
		if g.Sure {
			return []Guess{g}
		}
	}
	return found
}

// likely holds a valid datagram against what programs send.
func likely(d *Datagram, b []byte) bool {
	switch d.Protocol {
	case Porous:
		if d.Uint("type") == 0 {
			return d.Uint("version") <= 1
		}
		return true
	case Riptide:
		switch d.Uint("type") {
		case 1: // an ack
			return len(b) == 5 || len(b) == 7 || d.streamed() && (len(b) == 9 || len(b) == 11)
		case 3: // a reject
			f, _ := d.Find("reject")
			return f.Text != ""
		case 5: // a disconnect
			f, _ := d.Find("disconnect")
			return f.Value == nil || f.Text != ""
		case 4: // a heartbeat
			return bitsAt(b, 8*len(b)-4, 4) == 0
		}
	}
	return true
}

func (d *Datagram) streamed() bool {
	_, ok := d.Find("length")
	return ok
}

// sure reports whether a datagram could hardly be anything else.
func sure(d *Datagram) bool {
	switch d.Protocol {
	case Netcode:
		return d.Uint("type") == 0
	case Riptide:
		return d.streamed() // four bytes of length agree
	case Porous:
		return d.Uint("type") == 0 || d.Uint("messages") > 0 || d.Uint("acks") > 0
	case Reliable:
		prefix, sequence := d.Uint("prefix"), d.Uint("sequence")
		ack, _ := d.Find("ack")
		ackBits, _ := d.Find("ack_bits")
		return prefix == 0x3e && sequence == 0 && ack.Value == uint64(65535) && ackBits.Value == uint64(0)
	}
	return false
}
