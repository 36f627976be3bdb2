package netcode

import (
	"net/netip"
	"sync"
)

// maxDeparted bounds how many addresses departed knows.
const maxDeparted = 1024

// departed knows the addresses whose sessions the peer has just ended. A peer tells the
// end in ten packets. The nine that follow the first are no drops that an operator has
// to look for. They cannot be checked, because the keys are gone, so a forged one is
// not counted either. With too many addresses, all are forgotten.
type departed struct {
	mu     sync.Mutex
	expect map[netip.AddrPort]uint8 // how many more
}

// add notes that a peer has ended its session.
func (d *departed) add(addr netip.AddrPort) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.expect == nil || len(d.expect) >= maxDeparted {
		d.expect = make(map[netip.AddrPort]uint8)
	}
	d.expect[addr] = disconnectPackets - 1
}

// takes reports whether a datagram without a session is one of the nine.
func (d *departed) takes(addr netip.AddrPort, b []byte) bool {
	if len(b) == 0 || packetType(b[0]&0xf) != packetDisconnect {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	n := d.expect[addr]
	switch n {
	case 0:
		return false
	case 1:
		delete(d.expect, addr)
	default:
		d.expect[addr] = n - 1
	}
	return true
}
