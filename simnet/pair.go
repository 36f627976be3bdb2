package simnet

import "net/netip"

// Pair returns two sockets that are connected to each other through a network of
// their own: ab is the link from a to b, ba the way back. Both sockets must be
// closed; their Network needn't be.
func Pair(seed uint64, ab, ba Link) (a, b *Conn) {
	n := New(seed)
	hostA, hostB := netip.AddrFrom4([4]byte{10, 0, 0, 1}), netip.AddrFrom4([4]byte{10, 0, 0, 2})
	n.SetLink(hostA, hostB, ab)
	n.SetLink(hostB, hostA, ba)
	addrA, addrB := netip.AddrPortFrom(hostA, firstPort), netip.AddrPortFrom(hostB, firstPort)
	return mustOpen(n, addrA, addrB), mustOpen(n, addrB, addrA)
}

// mustOpen opens a socket in a new network, where that can't fail.
func mustOpen(n *Network, local, remote netip.AddrPort) *Conn {
	c, err := n.open(local, remote)
	if err != nil {
		panic("BUG: simnet: " + err.Error())
	}
	return c
}
