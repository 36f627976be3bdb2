package reliable

// fragmentPrefix is the first byte of every fragment.
const fragmentPrefix = 1

// A FragmentHeader is the header of one fragment of a packet.
type FragmentHeader struct {
	Sequence uint16 // number of the whole packet
	ID       uint8  // number of this fragment, from 0
	Count    int    // number of fragments, 1 to 256
}

// AppendFragmentHeader appends the encoding of h to dst.
func AppendFragmentHeader(dst []byte, h FragmentHeader) []byte {
	return append(dst, fragmentPrefix, byte(h.Sequence), byte(h.Sequence>>8), h.ID, byte(h.Count-1))
}

// put writes h to the first bytes of b.
func (h FragmentHeader) put(b []byte) {
	_ = b[4]
	b[0], b[1], b[2] = fragmentPrefix, byte(h.Sequence), byte(h.Sequence>>8)
	b[3], b[4] = h.ID, byte(h.Count-1)
}

// A Fragment is a datagram that carries part of a packet.
type Fragment struct {
	FragmentHeader
	Header     Header // of the whole packet; in fragment 0 only
	HeaderSize int    // bytes of that header, 0 in the other fragments
	Data       []byte // aliases the datagram
}

// last reports whether f is the last fragment of its packet.
func (f *Fragment) last() bool { return int(f.ID) == f.Count-1 }

// ParseFragment reads the fragment b as an endpoint does that takes up to
// maxFragments fragments of fragmentSize bytes. Unlike a regular packet, the
// header inside fragment 0 must be in the encoding a sender uses. The error is
// a FormatError.
func ParseFragment(b []byte, maxFragments, fragmentSize int) (Fragment, error) {
	var f Fragment
	if reason := f.parse(b, maxFragments, fragmentSize); reason != 0 {
		return Fragment{}, reason
	}
	return f, nil
}

func (f *Fragment) parse(b []byte, maxFragments, fragmentSize int) FormatError {
	if len(b) < FragmentHeaderSize {
		return ErrFragmentShort
	}
	if b[0] != fragmentPrefix {
		return ErrFragmentPrefix
	}
	f.Sequence = uint16(b[1]) | uint16(b[2])<<8
	f.ID, f.Count = b[3], int(b[4])+1
	if f.Count > maxFragments {
		return ErrFragmentCount
	}
	if int(f.ID) >= f.Count {
		return ErrFragmentID
	}
	f.Data = b[FragmentHeaderSize:]
	if f.ID == 0 {
		if reason := f.parseEmbedded(); reason != 0 {
			return reason
		}
	}
	if len(f.Data) > fragmentSize {
		return ErrFragmentLong
	}
	if !f.last() && len(f.Data) != fragmentSize {
		return ErrFragmentSize
	}
	return 0
}

// parseEmbedded takes the header of the whole packet off f.Data.
func (f *Fragment) parseEmbedded() FormatError {
	h, n, reason := parseHeader(f.Data)
	if reason != 0 {
		return reason
	}
	if h.Sequence != f.Sequence {
		return ErrFragmentSequence
	}
	if f.Data[0] != h.prefix() {
		return ErrFragmentHeader
	}
	f.Header, f.HeaderSize, f.Data = h, n, f.Data[n:]
	return 0
}

// ParseSequence returns the sequence number of a packet or fragment, as far as
// datagram can be one that an endpoint with the configuration cfg (nil: the
// default) receives from a peer: well formed, and not too large.
func ParseSequence(cfg *Config, datagram []byte) (sequence uint16, ok bool) {
	if cfg == nil {
		cfg = &Config{}
	}
	maxPacket := or(cfg.MaxPacketSize, defaultMaxPacketSize)
	if len(datagram) == 0 || len(datagram) > maxPacket+datagramSlack {
		return 0, false
	}
	if datagram[0]&prefixFragment == 0 {
		h, n, reason := parseHeader(datagram)
		return h.Sequence, reason == 0 && len(datagram)-n <= maxPacket
	}
	var f Fragment
	reason := f.parse(datagram, or(cfg.MaxFragments, defaultMaxFragments), or(cfg.FragmentSize, defaultFragmentSize))
	return f.Sequence, reason == 0
}

// ParseOpening reports whether datagram can be the first that an endpoint with
// the configuration cfg (nil: the default) receives from a peer: a regular
// packet or the first fragment of one, well formed, whose sender has heard
// nothing yet. This is what a listener admits new peers by.
func ParseOpening(cfg *Config, datagram []byte) bool {
	if cfg == nil {
		cfg = &Config{}
	}
	maxPacket := or(cfg.MaxPacketSize, defaultMaxPacketSize)
	if len(datagram) == 0 || len(datagram) > maxPacket+datagramSlack {
		return false
	}
	if datagram[0]&prefixFragment == 0 {
		h, n, reason := parseHeader(datagram)
		return reason == 0 && len(datagram)-n <= maxPacket && h.heardNothing()
	}
	var f Fragment
	reason := f.parse(datagram, or(cfg.MaxFragments, defaultMaxFragments), or(cfg.FragmentSize, defaultFragmentSize))
	return reason == 0 && f.ID == 0 && f.Header.heardNothing()
}

// MayOpen reports whether ParseOpening may be true of a datagram, and is quick.
func MayOpen(datagram []byte) bool {
	return len(datagram) > 0 && (datagram[0]&prefixFragment != 0 || datagram[0]&prefixAckBytes == prefixAckBytes)
}

// OpeningMessage is ParseOpening for a datagram with a payload, and returns its
// sequence.
func OpeningMessage(cfg *Config, datagram []byte) (sequence uint16, ok bool) {
	if !ParseOpening(cfg, datagram) || !CarriesMessage(cfg, datagram) {
		return 0, false
	}
	return uint16(datagram[1]) | uint16(datagram[2])<<8, true
}

// CarriesMessage reports whether datagram is well formed for an endpoint with the
// configuration cfg (nil: the default) and carries a payload, or a part of one.
func CarriesMessage(cfg *Config, datagram []byte) bool {
	if cfg == nil {
		cfg = &Config{}
	}
	maxPacket := or(cfg.MaxPacketSize, defaultMaxPacketSize)
	if len(datagram) == 0 || len(datagram) > maxPacket+datagramSlack {
		return false
	}
	if datagram[0]&prefixFragment == 0 {
		_, n, reason := parseHeader(datagram)
		return reason == 0 && n < len(datagram) && len(datagram)-n <= maxPacket
	}
	var f Fragment
	return f.parse(datagram, or(cfg.MaxFragments, defaultMaxFragments), or(cfg.FragmentSize, defaultFragmentSize)) == 0
}
