package riptide

import "time"

// Stats are the counters of a connection, or of all connections of a Server.
type Stats struct {
	// MessagesSent and MessagesReceived count user messages by [Mode], without
	// resends and without those that were not handed to the application. BytesSent
	// and BytesReceived count the bytes of their datagrams, headers included.
	MessagesSent, MessagesReceived, BytesSent, BytesReceived [numModes]uint64
	// MessagesDelivered counts reliable messages that were acknowledged,
	// MessagesResent those that were sent again.
	MessagesDelivered, MessagesResent uint64
	// MessagesRefused counts received messages that found the ReadBuffer full. A
	// reliable one will be sent again.
	MessagesRefused uint64
	// Duplicates counts received reliable messages that had been received
	// before, UnreliableDuplicates the messages that [Config.DuplicateWindow]
	// dropped.
	Duplicates, UnreliableDuplicates uint64
	// Late counts received notify messages that were dropped as late or as copies.
	Late uint64
	// PacketsInvalid counts datagrams that were malformed, of an unknown type, or
	// not expected at that stage of the connection.
	PacketsInvalid uint64
	// NotifyDelivered and NotifyLost count the fates of notify messages.
	// NotifyUnknown counts those of the lost ones that may have arrived: the
	// other side's next message came too late to acknowledge them.
	NotifyDelivered, NotifyLost, NotifyUnknown uint64

	// RTT is the smoothed round-trip time and LastRTT the last one, in whole
	// milliseconds, as heartbeats tell; 0 if not known yet. These and MeanSends
	// and NotifyLoss are 0 for a Server.
	RTT, LastRTT time.Duration
	// Unacknowledged is the number of reliable messages without an
	// acknowledgement, and QueuedBytes the memory they take.
	Unacknowledged, QueuedBytes int
	// MeanSends is the mean number of sends of the last 64 reliable messages that
	// were acknowledged; 0 if there were none.
	MeanSends float64
	// NotifyLoss is the lost fraction of the last 64 notify messages with a known
	// fate, 0 to 1.
	NotifyLoss float64
}

// plus adds the counters of another connection.
func (s *Stats) plus(o *Stats) {
	for m := range s.MessagesSent {
		s.MessagesSent[m] += o.MessagesSent[m]
		s.MessagesReceived[m] += o.MessagesReceived[m]
		s.BytesSent[m] += o.BytesSent[m]
		s.BytesReceived[m] += o.BytesReceived[m]
	}
	s.MessagesResent += o.MessagesResent
	s.Duplicates += o.Duplicates
	s.UnreliableDuplicates += o.UnreliableDuplicates
	s.Late += o.Late
	s.MessagesRefused += o.MessagesRefused
	s.PacketsInvalid += o.PacketsInvalid
	s.MessagesDelivered += o.MessagesDelivered
	s.NotifyDelivered += o.NotifyDelivered
	s.NotifyLost += o.NotifyLost
	s.NotifyUnknown += o.NotifyUnknown
}
