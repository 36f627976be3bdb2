// Package seq has the arithmetic of 16-bit sequence numbers and the windows
// over them that the reliable protocol is made of.
package seq

// Greater reports whether a is newer; at a distance of 32768 the larger number is.
func Greater(a, b uint16) bool {
	if a > b {
		return a-b <= 32768
	}
	return b-a > 32768
}

// Less reports whether a is older than b.
func Less(a, b uint16) bool { return Greater(b, a) }
