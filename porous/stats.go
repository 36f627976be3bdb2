package porous

import (
	"time"

	"volley/porous/internal/core"
)

// counts are kept by the Conn, not by its core.
type counts struct {
	received, dropped, delivered, lost uint64
	bytes                              uint64 // of those received
	moves                              uint64
	movedAt                            core.Clock // the last time
}

// Stats tells what a connection has done and how it stands. Fields may be added.
type Stats struct {
	// RTT is the smoothed round-trip time, 200 ms before there is a sample; RTTVar its
	// mean deviation, RTTMin the least sample, RTO the retransmission timeout.
	RTT, RTTVar, RTTMin, RTO time.Duration
	// Window is the congestion window, InFlight what has been sent and not acknowledged,
	// both in bytes. PacingRate, 0 for none, and SendBandwidth, the limit agreed upon with
	// the peer, are in bytes per second.
	Window, InFlight int
	PacingRate       float64
	SendBandwidth    int64
	// Loss is the fraction of sent frames that were lost, 0 to 1, over the connection's
	// life: (FramesLost - FramesSpurious) / (FramesSent + FramesResent).
	Loss float64

	// MessagesDelivered and MessagesLost count the fates of sent messages.
	MessagesDelivered, MessagesLost uint64
	// MessagesReceived counts received messages that were queued for Read,
	// MessagesTruncated those for which the buffer of Read was too short,
	// MessagesDropped those of closed channels.
	MessagesReceived, MessagesTruncated, MessagesDropped uint64
	// MessagesTooLarge counts messages of the peer that are larger than
	// Config.MaxMessageSize, and have been skipped.
	MessagesTooLarge uint64
	// ReceiptsDropped counts receipts that were dropped, because Config.Receipts
	// others waited.
	ReceiptsDropped uint64

	// FramesSent counts new data frames, FramesResent those that were sent again, and
	// FramesAcked the acknowledged ones. FramesLost counts those that were taken for
	// lost, FramesSpurious those of them that had arrived after all. Timeouts counts
	// retransmission timeouts, in which nothing was acknowledged.
	FramesSent, FramesResent, FramesAcked, FramesLost, FramesSpurious, Timeouts uint64
	// FramesReceived counts all datagrams, FramesInvalid those that were no
	// frame, FramesRefused data frames for which ReceiveBuffer had no room.
	FramesReceived, FramesInvalid, FramesRefused uint64
	// Moves counts how often the peer came to be reached by another way. Only the
	// sessions of package secure move. Then RTT and Window begin anew.
	Moves uint64
	// WriteErrors counts passing errors of the socket when frames were written; those of
	// a Listener are of all its connections.
	WriteErrors uint64

	// These are bytes of memory, with overhead. SendQueue is that of sent messages
	// whose fate is not known yet. ReceiveQueue is that of received messages that wait
	// for fragments or for earlier messages. ReadQueue is that of messages that wait for
	// Read.
	SendQueue, ReceiveQueue, ReadQueue int
}

// Stats returns the present figures, or those of the end.
func (c *Conn) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := c.coreStatsLocked()
	s := Stats{
		RTT: k.RTT, RTTVar: k.RTTVar, RTTMin: k.RTTMin, RTO: k.RTO,
		Window: k.Window, InFlight: k.InFlight, PacingRate: k.PacingRate, SendBandwidth: int64(k.SendBandwidth),
		MessagesDelivered: c.counts.delivered, MessagesLost: c.counts.lost, MessagesReceived: c.counts.received,
		MessagesTruncated: c.truncatedLocked(), MessagesDropped: c.counts.dropped,
		MessagesTooLarge: k.TooLarge,
		FramesSent:       k.FramesSent, FramesResent: k.FramesResent, FramesAcked: k.FramesAcked,
		FramesLost: k.FramesLost, FramesSpurious: k.Spurious, Timeouts: k.Timeouts,
		FramesReceived: k.Received, FramesInvalid: k.Invalid, FramesRefused: k.Refused,
		Moves:       c.counts.moves,
		WriteErrors: c.out.Below.Stats().WriteErrors,
		SendQueue:   k.Queued, ReceiveQueue: k.Held, ReadQueue: c.unreadLocked(),
	}
	if c.receipts != nil {
		s.ReceiptsDropped = c.receipts.dropped
	}
	if sent := k.FramesSent + k.FramesResent; sent > 0 {
		s.Loss = float64(k.FramesLost-min(k.Spurious, k.FramesLost)) / float64(sent)
	}
	return s
}

// truncatedLocked returns how many messages were cut in all channels.
func (c *Conn) truncatedLocked() (n uint64) {
	for i := range c.channels {
		if ch := c.channels[i].Load(); ch != nil {
			n += ch.user.Truncated()
		}
	}
	return n
}

func (c *Conn) coreStatsLocked() core.Stats {
	if c.last != nil {
		return *c.last
	}
	return c.peer.Stats()
}

// ChannelStats tells how a channel stands. Fields may be added.
type ChannelStats struct {
	HighPriority bool // see Channel.SetHighPriority
	// SendQueue, ReceiveQueue and ReadQueue are those of Stats for this channel.
	SendQueue, ReceiveQueue, ReadQueue int
	// Refused: the peer accepts nothing of this channel at present, as if nobody
	// read it there.
	Refused bool
}

// Stats returns the present figures of the channel.
func (ch *Channel) Stats() ChannelStats {
	c := ch.c
	c.mu.Lock()
	defer c.mu.Unlock()
	k := c.peer.ChannelStats(ch.number)
	return ChannelStats{HighPriority: k.High, SendQueue: k.Queued, ReceiveQueue: k.Held, ReadQueue: ch.user.In.Len(), Refused: k.Unread}
}
