package netcode

// Stats tells what happened in a session. Fields may be added.
type Stats struct {
	// PayloadsSent and BytesSent count what Write has sent, without the 18 to
	// 25 bytes that a packet adds; PayloadsReceived and BytesReceived what
	// came from the peer, whether it has been read or not.
	PayloadsSent, BytesSent         uint64
	PayloadsReceived, BytesReceived uint64
	// PacketsSent counts all packets, keep alives included.
	PacketsSent uint64
	// ReadsTruncated counts calls of Read with too short a buffer.
	ReadsTruncated uint64
	// Drops counts received datagrams that were of no use, by reason.
	Drops Drops
}

// Stats returns the present figures.
func (c *Conn) Stats() Stats {
	s := Stats{ReadsTruncated: c.user.Truncated()}
	c.recvMu.Lock()
	s.PayloadsReceived, s.BytesReceived = c.received.payloads, c.received.bytes
	s.Drops = c.sess.recv.dropped()
	c.recvMu.Unlock()
	c.sendMu.Lock()
	s.PayloadsSent, s.BytesSent = c.sent.payloads, c.sent.bytes
	s.PacketsSent = c.sess.send.packets()
	c.sendMu.Unlock()
	return s
}

// ListenerStats tells what a Listener has done. Fields may be added.
type ListenerStats struct {
	// Conns is the number of sessions at present, Handshakes that of clients
	// which have been challenged and not answered yet, Tokens that of connect
	// tokens remembered until they expire.
	Conns, Handshakes, Tokens int
	// Memory is what is held of ListenConfig.MaxMemory, in bytes.
	Memory int64
	// Requests and Responses count datagrams that claim to be such;
	// Challenges and Denied the answers sent.
	Requests, Responses, Challenges, Denied uint64
	// Accepted counts sessions, Refused those of them that were ended at
	// once because nobody calls Accept, TimedOut those that ended by silence.
	Accepted, Refused, TimedOut uint64
	// Drops counts datagrams that were of no use, of strangers and in
	// sessions, by reason: Drops[netcode.DropTokenExpired] and so on.
	Drops Drops
	// ReadErrors and WriteErrors count passing errors of the socket.
	ReadErrors, WriteErrors uint64
}

// Stats returns the present figures.
func (l *Listener) Stats() ListenerStats {
	s := ListenerStats{
		Conns:    l.side.Conns(),
		Memory:   l.shared.memory.Used(),
		Refused:  l.refused.Load(),
		TimedOut: l.shared.timeouts.Load(),
	}
	for r := range s.Drops {
		s.Drops[r] = l.shared.drops[r].Load()
	}
	for _, d := range l.side.Stats() {
		s.ReadErrors += d.ReadErrors
		s.WriteErrors += d.WriteErrors
		s.Drops[DropFlood] += d.Shed
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	c := &l.core.counts
	s.Handshakes, s.Tokens = len(l.core.handshakes.entries), len(l.core.history.entries)
	s.Requests, s.Responses = c.requests, c.responses
	s.Challenges, s.Denied, s.Accepted = c.challenges, c.denied, c.accepted
	return s
}
