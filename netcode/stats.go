package netcode

// Stats has the figures of a session.
type Stats struct {
	// Messages and their bytes, without the 18 to 25 bytes that a packet adds.
	// Received messages count whether they have been read or not.
	MessagesSent, BytesSent         uint64
	MessagesReceived, BytesReceived uint64
	PacketsSent                     uint64 // with keep alives
	ReadsTruncated                  uint64 // calls of Read with too short a buffer
	Moves                           uint64 // to another way to the peer; always 0 without package secure
	// Drops counts useless datagrams by reason, such as "replay". A reason that
	// did not occur is not in it. docs/netcode.md explains the reasons.
	Drops map[string]uint64
}

// Stats returns the current figures.
func (c *Conn) Stats() Stats {
	s := Stats{ReadsTruncated: c.user.Truncated()}
	c.recvMu.Lock()
	s.MessagesReceived, s.BytesReceived = c.received.messages, c.received.bytes
	s.Drops = c.sess.recv.drops.labeled()
	c.recvMu.Unlock()
	c.sendMu.Lock()
	s.MessagesSent, s.BytesSent = c.sent.messages, c.sent.bytes
	s.PacketsSent = c.sess.send.packets()
	s.Moves = c.on.moved
	c.sendMu.Unlock()
	return s
}

// ListenerStats has the figures of a Listener.
type ListenerStats struct {
	Conns      int   // sessions now
	Handshakes int   // clients that have been challenged and have not answered yet
	Tokens     int   // connect tokens that are remembered until they expire
	Memory     int64 // used of ListenConfig.MaxMemory, in bytes

	Requests, Responses uint64 // datagrams that claim to be one
	Challenges, Denied  uint64 // answers sent
	Accepted            uint64 // sessions
	Refused             uint64 // sessions ended at once, because Accept was not called
	TimedOut            uint64 // sessions ended because the client was silent
	// Drops counts useless datagrams by reason, such as "token_expired", with and
	// without a session. A reason that did not occur is not in it.
	Drops map[string]uint64
	// ReadErrors and WriteErrors count passing errors of the sockets.
	ReadErrors, WriteErrors uint64
}

// Stats returns the current figures.
func (l *Listener) Stats() ListenerStats {
	s := ListenerStats{
		Conns:    l.side.Conns(),
		Memory:   l.shared.memory.Used(),
		Refused:  l.refused.Load(),
		TimedOut: l.shared.timeouts.Load(),
	}
	var drops dropCounts
	for r := range drops {
		drops[r] = l.shared.drops[r].Load()
	}
	for _, d := range l.side.Stats() {
		s.ReadErrors += d.ReadErrors
		s.WriteErrors += d.WriteErrors
		drops[dropFlood] += d.Shed
	}
	s.Drops = drops.labeled()
	l.mu.Lock()
	defer l.mu.Unlock()
	c := &l.core.counts
	s.Handshakes, s.Tokens = len(l.core.handshakes.entries), len(l.core.history.entries)
	s.Requests, s.Responses = c.requests, c.responses
	s.Challenges, s.Denied, s.Accepted = c.challenges, c.denied, c.accepted
	return s
}
