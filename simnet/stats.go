package simnet

// Stats counts what became of datagrams. Once nothing is under way,
//
//	Sent + Duplicated = Delivered + Lost + QueueDrops + MTUDrops +
//		BlackoutDrops + ReceiverDrops + Unreachable
type Stats struct {
	// Sent is the number of datagrams that were written.
	Sent uint64
	// SentBytes is the number of bytes in them, without headers.
	SentBytes uint64
	// Delivered is the number of datagrams that were put into the receive
	// buffer of their destination, copies included.
	Delivered uint64
	// DeliveredBytes is the number of bytes in them, without headers.
	DeliveredBytes uint64

	// Lost is the number of datagrams lost by Link.Loss or Link.Burst.
	Lost uint64
	// Duplicated is the number of additional copies made by Link.Duplicate.
	Duplicated uint64
	// Reordered is the number of delivered datagrams that came later than one
	// sent after them. Copies are not counted.
	Reordered uint64
	// Corrupted is the number of datagrams and copies with a flipped bit that
	// the link has accepted.
	Corrupted uint64

	// QueueDrops is the number of datagrams that found no room in the queue
	// of a link with a Bandwidth.
	QueueDrops uint64
	// MTUDrops is the number of datagrams too large for the link.
	MTUDrops uint64
	// BlackoutDrops is the number of datagrams sent during a blackout.
	BlackoutDrops uint64
	// ReceiverDrops is the number of datagrams that found the receive buffer
	// of their destination full.
	ReceiverDrops uint64
	// Unreachable is the number of datagrams that arrived where there is no
	// socket, or one that is connected to another address, or that a NAT has
	// dropped.
	Unreachable uint64
}

func (s *Stats) add(t *Stats) {
	s.Sent += t.Sent
	s.SentBytes += t.SentBytes
	s.Delivered += t.Delivered
	s.DeliveredBytes += t.DeliveredBytes
	s.Lost += t.Lost
	s.Duplicated += t.Duplicated
	s.Reordered += t.Reordered
	s.Corrupted += t.Corrupted
	s.QueueDrops += t.QueueDrops
	s.MTUDrops += t.MTUDrops
	s.BlackoutDrops += t.BlackoutDrops
	s.ReceiverDrops += t.ReceiverDrops
	s.Unreachable += t.Unreachable
}
