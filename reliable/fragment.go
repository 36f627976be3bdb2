package reliable

import "volley/internal/wire"

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

func (f *Fragment) last() bool { return int(f.ID) == f.Count-1 }

// ParseFragment reads the fragment b as an endpoint does that takes up to
// maxFragments fragments of fragmentSize bytes. Unlike a regular packet, the
// header inside fragment 0 must be in the encoding a sender uses. The error is
// a FormatError.
func ParseFragment(b []byte, maxFragments, fragmentSize int) (Fragment, error) {
	var f Fragment
	if reason := f.parse(b, maxFragments, fragmentSize); reason != "" {
		return Fragment{}, reason
	}
	return f, nil
}

func (f *Fragment) parse(b []byte, maxFragments, fragmentSize int) FormatError {
	if len(b) < FragmentHeaderSize {
		return errFragmentShort
	}
	if b[0] != fragmentPrefix {
		return errFragmentPrefix
	}
	f.Sequence = uint16(b[1]) | uint16(b[2])<<8
	f.ID, f.Count = b[3], int(b[4])+1
	if f.Count > maxFragments {
		return errFragmentCount
	}
	if int(f.ID) >= f.Count {
		return errFragmentID
	}
	f.Data = b[FragmentHeaderSize:]
	if f.ID == 0 {
		if reason := f.parseEmbedded(); reason != "" {
			return reason
		}
	}
	if len(f.Data) > fragmentSize {
		return errFragmentLong
	}
	if !f.last() && len(f.Data) != fragmentSize {
		return errFragmentSize
	}
	return ""
}

// parseEmbedded takes the header of the whole packet off f.Data.
func (f *Fragment) parseEmbedded() FormatError {
	h, n, reason := parseHeader(f.Data)
	if reason != "" {
		return reason
	}
	if h.Sequence != f.Sequence {
		return errFragmentSequence
	}
	if f.Data[0] != h.prefix() {
		return errFragmentHeader
	}
	f.Header, f.HeaderSize, f.Data = h, n, f.Data[n:]
	return ""
}

// An Inspection is what a datagram says of itself.
type Inspection struct {
	Sequence uint16
	Message  bool // it carries a message, or a part of one
	// Opening: it can be the first that comes from a peer: a packet, or the first
	// fragment of one, whose sender has heard nothing yet. This is what a listener
	// admits new peers by.
	Opening bool
}

// Inspect looks at a datagram as an endpoint with the configuration cfg (nil: the
// default) does. It reports whether the datagram can be from a peer: well formed, and
// not too large.
func Inspect(cfg *Config, datagram []byte) (i Inspection, ok bool) {
	if cfg == nil {
		cfg = &defaults
	}
	maxPacket := or(cfg.MaxPacketSize, defaultMaxPacketSize)
	if len(datagram) == 0 || len(datagram) > maxPacket+datagramSlack {
		return i, false
	}
	if !wire.IsFragment(datagram) {
		h, n, reason := parseHeader(datagram)
		return Inspection{h.Sequence, n < len(datagram), h.heardNothing()}, reason == "" && len(datagram)-n <= maxPacket
	}
	var f Fragment
	reason := f.parse(datagram, or(cfg.MaxFragments, defaultMaxFragments), or(cfg.FragmentSize, defaultFragmentSize))
	return Inspection{f.Sequence, true, f.ID == 0 && f.Header.heardNothing()}, reason == ""
}
