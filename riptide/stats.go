package riptide

import "time"

// Traffic counts messages and the bytes of their datagrams, headers included.
type Traffic struct {
	Messages, Bytes uint64
}

func (t *Traffic) add(bytes int) {
	t.Messages++
	t.Bytes += uint64(bytes)
}

func (t *Traffic) plus(u Traffic) {
	t.Messages += u.Messages
	t.Bytes += u.Bytes
}

// Stats are the counters of a connection, or of all connections of a Server.
type Stats struct {
	// Sent and Received count user messages by [Mode], without resends and
	// without those that were not handed to the application.
	Sent, Received [numModes]Traffic
	// Resends counts reliable messages that were sent again.
	Resends uint64
	// Duplicates counts received reliable messages that had been received
	// before.
	Duplicates uint64
	// UnreliableDuplicates counts received messages that were dropped because
	// an equal one had been received within [Config.DuplicateWindow].
	UnreliableDuplicates uint64
	// Late counts received notify messages that were dropped because a newer
	// one, or they themselves, had come before.
	Late uint64
	// Refused counts received messages that found no room to wait for their
	// handler. A reliable one will be sent again.
	Refused uint64
	// Dropped counts datagrams that made no sense: malformed, of an unknown
	// type, or not at that stage of the connection.
	Dropped uint64
	// Delivered counts reliable messages that were acknowledged.
	Delivered uint64
	// NotifyDelivered and NotifyLost count the fates of notify messages.
	// NotifyUnknown is how many of the lost ones may have arrived after all:
	// the next message from the other side came after so many that it could
	// not speak of them.
	NotifyDelivered, NotifyLost, NotifyUnknown uint64

	// RTT is the last round-trip time and SmoothRTT a smoothed one, in whole
	// milliseconds, as heartbeats tell; negative if not known yet. They are
	// of one connection only, like all that follows.
	RTT, SmoothRTT time.Duration
	// Unacknowledged is the number of reliable messages on their way or
	// waiting, and QueuedBytes the memory they take.
	Unacknowledged, QueuedBytes int
	// MeanSends is how often the last 64 reliable messages were sent until
	// they were acknowledged, in the mean; 0 if there were none.
	MeanSends float64
	// NotifyLoss is how many of the last 64 notify messages of which
	// something is known were lost, divided by 64.
	NotifyLoss float64
}

// plus adds the counters of another connection.
func (s *Stats) plus(o *Stats) {
	for m := range s.Sent {
		s.Sent[m].plus(o.Sent[m])
		s.Received[m].plus(o.Received[m])
	}
	s.Resends += o.Resends
	s.Duplicates += o.Duplicates
	s.UnreliableDuplicates += o.UnreliableDuplicates
	s.Late += o.Late
	s.Refused += o.Refused
	s.Dropped += o.Dropped
	s.Delivered += o.Delivered
	s.NotifyDelivered += o.NotifyDelivered
	s.NotifyLost += o.NotifyLost
	s.NotifyUnknown += o.NotifyUnknown
}
