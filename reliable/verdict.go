package reliable

import "strconv"

// A Verdict is what became of a datagram given to Receive.
type Verdict uint8

const (
	// Delivered: a packet, whole or completed by this fragment, was accepted
	// by the Handler.
	Delivered Verdict = iota
	// Refused: the Handler refused the packet. It counts as never received.
	Refused
	// fragmentStored: the datagram is a part of a packet that lacks others.
	fragmentStored
	// Duplicate: the packet, or this fragment of it, was received before, or
	// is so old that it cannot be told.
	Duplicate
	// stale: the packet is older than the window.
	stale
	// parked: the packet is far ahead of the window, or far from it after a
	// silence. Config.JumpGuard waits for a second one that confirms it.
	parked
	// Invalid: the datagram is not a packet, or contradicts earlier ones.
	Invalid
	// TooLarge: the packet exceeds Config.MaxPacketSize.
	TooLarge
	// noRoom: there is no memory for the fragment.
	noRoom
	// reentrant: Receive was called from within a callback of the endpoint.
	// Nothing was changed or counted.
	reentrant
)

var verdictNames = [...]string{
	Delivered:      "Delivered",
	Refused:        "Refused",
	fragmentStored: "FragmentStored",
	Duplicate:      "Duplicate",
	stale:          "Stale",
	parked:         "Parked",
	Invalid:        "Invalid",
	TooLarge:       "TooLarge",
	noRoom:         "NoRoom",
	reentrant:      "Reentrant",
}

func (v Verdict) String() string {
	if int(v) < len(verdictNames) {
		return verdictNames[v]
	}
	return "Verdict(" + strconv.Itoa(int(v)) + ")"
}

// Live reports whether the datagram is a sign of life: valid, and new to this
// endpoint. A duplicate is none, since it says nothing that the first copy did
// not, and since the packets of a peer that has started again look like
// duplicates of its former ones.
func (v Verdict) Live() bool { return v <= fragmentStored }

// Valid reports whether the datagram was well formed and of an allowed size,
// whether or not it was of use.
func (v Verdict) Valid() bool { return v <= parked || v == noRoom }

// A Fate is what became of a packet that was sent.
type Fate uint8

const (
	// FateDelivered: the other side acknowledged the packet.
	FateDelivered Fate = iota + 1
	// FateLost: the packet is presumed lost, for one of these reasons:
	//
	//   - The other side is 64 sequences past it.
	//   - With Config.AckDelay: the other side has acknowledged a packet that was
	//     sent a little more than a round trip later, or 1,024 sequences later.
	//   - Its record has left the window of sent packets.
	//   - With Config.MaxWindow: it had no answer for Config.LostAfter.
	FateLost
)

func (f Fate) String() string {
	switch f {
	case FateDelivered:
		return "Delivered"
	case FateLost:
		return "Lost"
	}
	return "Fate(" + strconv.Itoa(int(f)) + ")"
}
