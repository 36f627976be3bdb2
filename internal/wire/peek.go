package wire

// A datagram of package reliable begins with a prefix. Its bit 0 is set in fragments,
// whose number follows the sequence; bits 1 to 4 are set where no packet is
// acknowledged.

// IsFragment reports whether a datagram of package reliable is a fragment.
func IsFragment(datagram []byte) bool { return len(datagram) > 0 && datagram[0]&1 != 0 }

// StartsPacket reports whether a datagram is a packet or its first fragment, by three bytes.
func StartsPacket(datagram []byte) bool {
	return !IsFragment(datagram) || len(datagram) > 3 && datagram[3] == 0
}

// MayOpen reports whether the sender of a datagram may have heard nothing yet. It is quick.
func MayOpen(datagram []byte) bool {
	const ackBytes = 0xf << 1
	return len(datagram) > 0 && (datagram[0]&1 != 0 || datagram[0]&ackBytes == ackBytes)
}
