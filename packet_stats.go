package volley

import (
	"net"
	"sync"
	"sync/atomic"
)

// PacketConnStats tells what a PacketConn has done. Fields may be added.
type PacketConnStats struct {
	Peers  int   // that are known at present
	Memory int64 // bytes held of ListenConfig.MaxMemory
	// Admitted counts peers that have made themselves known by a message. Refused
	// counts datagrams of others turned away by MaxConns, Filtered those by Filter.
	// Unknown counts all datagrams of others that were dropped, with these and
	// those that carry no message.
	Admitted, Refused, Filtered, Unknown uint64
	// MessagesTruncated counts those that a ReadFrom had too short a buffer for.
	MessagesTruncated uint64
	// ReceiptsDropped counts receipts that found Config.Receipts waiting.
	ReceiptsDropped uint64
	// ReadQueue is how many bytes wait for ReadFrom at present.
	ReadQueue int
	// Transport tells what happened at the socket.
	Transport TransportStats
}

// Stats returns the present figures.
func (pc *PacketConn) Stats() PacketConnStats {
	below := pc.mux.Stats()
	return PacketConnStats{
		Peers:             int(pc.peers.Load()),
		Memory:            pc.budget.Used(),
		Admitted:          pc.admitted.Load(),
		Refused:           pc.refused.Load(),
		Filtered:          pc.filtered.Load(),
		Unknown:           below.Unknown,
		MessagesTruncated: pc.truncated.Load(),
		ReceiptsDropped:   pc.receipts.dropped(),
		ReadQueue:         pc.in.Len(),
		Transport:         transportStats(below),
	}
}

// PeerStats returns the present figures of a peer, since it is known, and whether
// it is: of the one that WriteTo would send to. MessagesTruncated is not kept for each.
func (pc *PacketConn) PeerStats(addr net.Addr) (s Stats, known bool) {
	if isNil(addr) {
		return Stats{}, false
	}
	p, _ := pc.find(addrPortOf(pc.sock, addr), addr)
	if p == nil {
		return Stats{}, false
	}
	s = p.conn.Stats()
	s.ReadQueue = p.origin.Len()
	return s, true
}

// A PacketReceipt says what became of a message that a PacketConn has sent.
type PacketReceipt struct {
	Addr net.Addr // of the peer
	Receipt
}

// packetReceipts are those of a PacketConn. None are kept until somebody asks.
type packetReceipts struct {
	armed atomic.Bool

	mu sync.Mutex
	receiptQueue[PacketReceipt]
}

func (r *packetReceipts) arm() { r.armed.Store(r.max > 0) } // which is constant

func (r *packetReceipts) add(x PacketReceipt) {
	if r.armed.Load() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.put(x)
	}
}

func (r *packetReceipts) dropped() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.overflowed
}

// AppendReceipts appends the receipts of all messages whose fate was decided since
// the last call, to any peer, to dst and returns the result. When that is, and
// which messages are presumed lost, is told by [Conn.AppendReceipts]; those to a
// peer that is forgotten are decided then at the latest. Receipts are kept from
// the first call of AppendReceipts or WriteMessageTo on, up to Config.Receipts;
// what does not fit is counted.
func (pc *PacketConn) AppendReceipts(dst []PacketReceipt) []PacketReceipt {
	r := &pc.receipts
	r.arm()
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.take(dst)
}
