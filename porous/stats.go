package porous

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"volley/porous/internal/core"
)

// counts are kept by the Conn, not by its core.
type counts struct {
	received, dropped, delivered, lost uint64
	bytes                              uint64 // of those received
}

// Stats tells what a connection has done and how it stands. Fields may be
// added.
type Stats struct {
	// RTT is the smoothed round-trip time, RTTVar its mean deviation, RTTMin
	// the least sample, RTO the time after which a frame without
	// acknowledgement is sent again. Before there is a sample RTT is 200 ms.
	RTT, RTTVar, RTTMin, RTO time.Duration
	// Window is the congestion window, InFlight what has been sent and not
	// acknowledged, both in bytes; PacingRate is in bytes per second, 0 for
	// none. SendBandwidth is the limit agreed upon with the peer, in bytes
	// per second.
	Window, InFlight int
	PacingRate       float64
	SendBandwidth    int64
	// Loss is the share of sent frames that counted as lost, 0 to 1, over the
	// connection's life. Spurious ones of them were not lost.
	Loss float64

	// MessagesDelivered and MessagesLost count the fates of sent messages,
	// MessagesReceived those that were queued for Read, MessagesTruncated
	// those that a Read had too short a buffer for, MessagesDropped those of
	// closed channels.
	MessagesDelivered, MessagesLost, MessagesReceived, MessagesTruncated, MessagesDropped uint64
	// MessagesTooLarge counts messages of the peer that are larger than
	// Config.MaxMessageSize, and have been skipped.
	MessagesTooLarge uint64
	// ReceiptsDropped counts receipts that found Config.Receipts waiting.
	ReceiptsDropped uint64

	// FramesSent counts new data frames, FramesResent those that were sent
	// again. FramesAcked were acknowledged, FramesLost counted as lost,
	// FramesSpurious of them wrongly. Timeouts counts times without any
	// acknowledgement.
	FramesSent, FramesResent, FramesAcked, FramesLost, FramesSpurious, Timeouts uint64
	// FramesReceived counts all datagrams, FramesInvalid those that were no
	// frame, FramesRefused data frames for which ReceiveBuffer had no room.
	FramesReceived, FramesInvalid, FramesRefused uint64
	// WriteErrors counts errors of the socket, which did not end it, when frames
	// were written; those of a Listener are of all its connections.
	WriteErrors uint64

	// SendQueue is how many bytes of messages have no fate yet, ReceiveQueue
	// how many bytes have arrived and cannot be delivered yet, ReadQueue how
	// many wait for Read; all with overhead.
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
		WriteErrors: c.dc.Stats().WriteErrors,
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
	Priority Priority
	// SendQueue is how many bytes of its messages have no fate yet,
	// ReceiveQueue how many bytes have arrived and cannot be delivered yet,
	// ReadQueue how many wait for Read; all with overhead.
	SendQueue, ReceiveQueue, ReadQueue int
	// Refused says that the peer takes nothing of this channel at present, as
	// if nobody read it there.
	Refused bool
}

// Stats returns the present figures of the channel.
func (ch *Channel) Stats() ChannelStats {
	c := ch.c
	c.mu.Lock()
	defer c.mu.Unlock()
	k := c.peer.ChannelStats(ch.number)
	s := ChannelStats{SendQueue: k.Queued, ReceiveQueue: k.Held, ReadQueue: ch.user.In.Len(), Refused: k.Unread}
	if k.High {
		s.Priority = High
	}
	return s
}

// Explain says in one sentence what limits sending at this moment. The wording
// is for people and may change.
func (c *Conn) Explain() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch err := c.writeErrorLocked(); {
	case c.closedLocked():
		return "The connection has been closed."
	case err != nil:
		return fmt.Sprintf("The connection has ended: %v.", err)
	}
	k := c.peer.Stats()
	switch k.Limit {
	case core.LimitHandshake:
		return "The handshake is under way; messages wait until the peer has answered."
	case core.LimitWindow:
		return fmt.Sprintf("The congestion window of %d bytes is full: %d are in flight. It grows as they are acknowledged.", k.Window, k.InFlight)
	case core.LimitBackoff:
		return fmt.Sprintf("Losses have made the congestion window smaller: it is %d bytes, %d are in flight, and %d frames have been lost so far.",
			k.Window, k.InFlight, k.FramesLost-min(k.Spurious, k.FramesLost))
	case core.LimitPacing:
		return fmt.Sprintf("Frames leave at the pacing rate, %.0f bytes/s, which follows from the congestion window of %d bytes and a round-trip time of %v.",
			k.PacingRate, k.Window, k.RTT)
	case core.LimitBandwidth:
		return fmt.Sprintf("The bandwidth agreed upon with the peer is used up: %d bytes/s.", k.SendBandwidth)
	case core.LimitFrames:
		return "The oldest frame is not acknowledged, and as many frames as may follow it have been sent."
	case core.LimitPackets:
		return "The peer has not consumed what was sent: the window of messages of a channel is full."
	case core.LimitUnread:
		return fmt.Sprintf("The peer takes nothing of %s: nobody seems to read there.", c.refusedLocked())
	case core.LimitSilence:
		return fmt.Sprintf("The peer acknowledges nothing (%d timeouts so far); a frame is tried now and then.", k.Timeouts)
	}
	if refused := c.refusedLocked(); refused != "" {
		return fmt.Sprintf("Everything else has been sent; the peer takes nothing of %s: nobody seems to read there.", refused)
	}
	return "Nothing: everything that may be sent has been sent."
}

// refusedLocked names the channels of which the peer takes nothing.
func (c *Conn) refusedLocked() string {
	var list []string
	for i := range c.channels {
		if c.peer.ChannelStats(i).Unread {
			list = append(list, strconv.Itoa(i))
		}
	}
	switch len(list) {
	case 0:
		return ""
	case 1:
		return "channel " + list[0]
	}
	return "channels " + strings.Join(list, ", ")
}
