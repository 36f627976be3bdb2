package reliable

// IsFragment reports whether a datagram is a fragment, by its first byte.
func IsFragment(datagram []byte) bool {
	return len(datagram) > 0 && datagram[0]&prefixFragment != 0
}

// StartsPacket reports whether a datagram is a regular packet or the first
// fragment of one. It looks at the prefix and the fragment id only.
func StartsPacket(datagram []byte) bool {
	return !IsFragment(datagram) || len(datagram) > 3 && datagram[3] == 0
}
