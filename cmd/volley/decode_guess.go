package main

import (
	"slices"

	"volley/internal/dissect"
)

// suspects are the protocols that a conversation may be of, going by the datagrams so far.
type suspects struct {
	any  bool // something was seen
	sure bool // its beginning was
	list []dissect.Protocol
}

// see returns the protocol of the next datagram, "" for none, and the others it may be of.
func (s *suspects) see(o *decodeOptions, b []byte, tcp bool) (p dissect.Protocol, also []dissect.Protocol) {
	if o.protocol != "" {
		return dissect.Protocol(o.protocol), nil
	}
	var guesses []dissect.Guess
	if tcp {
		guesses = dissect.GuessStream(b)
	} else {
		guesses = dissect.GuessDatagram(b)
	}
	s.narrow(guesses)
	if len(s.list) == 0 {
		return "", nil
	}
	return s.list[0], s.list[1:]
}

// narrow keeps the suspects that the datagram may be of; if of none, it is malformed.
func (s *suspects) narrow(guesses []dissect.Guess) {
	var list []dissect.Protocol
	sure := false
	for _, g := range guesses {
		list = append(list, g.Protocol)
		sure = sure || g.Sure
	}
	switch {
	case !s.any || sure && !s.sure:
		s.list = list
	case !s.sure:
		both := slices.DeleteFunc(slices.Clone(s.list), func(p dissect.Protocol) bool { return !slices.Contains(list, p) })
		if len(both) > 0 {
			s.list = both
		} else if len(s.list) == 0 {
			s.list = list
		}
	}
	s.any = s.any || len(list) > 0
	s.sure = s.sure || sure
}

// stream returns the protocol of the stream that goes on with b, by which to cut it.
func (s *suspects) stream(o *decodeOptions, b []byte) dissect.Protocol {
	if o.protocol != "" {
		return dissect.Protocol(o.protocol)
	}
	if len(s.list) > 0 {
		return s.list[0]
	}
	for _, g := range dissect.GuessStream(b) {
		return g.Protocol
	}
	return ""
}
