package volley

import (
	"time"

	"volley/internal/datagram"
)

// Stats tells what a connection has done and what the network does to it.
// Fields may be added.
type Stats struct {
	// RTT is the smoothed round-trip time of the path (RFC 6298), from the
	// first sample on. About one message a second is acknowledged at once, by a
	// packet of its own, and only these are samples. So RTT does not contain the
	// wait of acknowledgements. With a peer in C it does. The other three are
	// taken over the last samples (up to 512). Zero until a message was
	// acknowledged, and with a peer that never received one. Idleness changes
	// nothing: keepalives are no samples.
	RTT, RTTMin, RTTMax, RTTMean time.Duration
	// JitterMean and JitterMax are how far the samples lie above RTTMin on
	// average and at most; JitterStddev is their standard deviation.
	JitterMean, JitterMax, JitterStddev time.Duration
	// Loss is the smoothed share of lost packets, from 0 to 1.
	// A packet is a message with all of its fragments, so large messages are
	// lost more often than datagrams are. It is the share among the last 63
	// messages whose fate was decided, or of 16 if they are fewer. Messages
	// without an answer for 2 s, or twice RTT if that is more, count as lost.
	// It falls to 0 after 11 s without a message.
	Loss float64
	// SendRate, ReceiveRate and AckedRate are smoothed rates in bytes a
	// second, with IP and UDP headers for one datagram a packet.
	// They fall in silence, within some seconds and at the latest after 11 s,
	// to what keepalives take.
	SendRate, ReceiveRate, AckedRate float64

	// MessagesSent counts messages that Write took, MessagesReceived those
	// that were queued for Read, MessagesRefused those that found the
	// ReadBuffer full and were not acknowledged, MessagesTruncated those that
	// a Read had too short a buffer for.
	MessagesSent, MessagesReceived, MessagesRefused, MessagesTruncated uint64
	// MessagesDelivered and MessagesLost count the fates of sent messages. The end
	// of a connection counts what was not acknowledged by then as lost.
	MessagesDelivered, MessagesLost uint64
	// AcksSent and KeepAlivesSent count packets without a message: those that
	// acknowledge or ask for an acknowledgement, and those against silence.
	AcksSent, KeepAlivesSent uint64
	// ReceiptsDropped counts receipts that found Config.Receipts waiting.
	ReceiptsDropped uint64

	// PacketsSent and PacketsReceived count messages and packets without one;
	// PacketsReceived counts all of valid size, good or bad. PacketsAcked
	// counts packets that the peer has acknowledged.
	PacketsSent, PacketsReceived, PacketsAcked uint64
	// PacketsStale came too late, PacketsDuplicate more than once,
	// PacketsInvalid did not parse, PacketsTooLarge exceeded the maximum, as each
	// fragment may do of a message that is too large.
	PacketsStale, PacketsDuplicate, PacketsInvalid, PacketsTooLarge uint64
	// AcksInvalid counts packets that acknowledge what was never sent, as those
	// of a peer do that still has a connection with a former user of our
	// address. It also counts those of a peer that has acknowledged nothing new
	// for 65,536 packets. Their acknowledgements are ignored.
	AcksInvalid uint64
	// FragmentsSent, FragmentsReceived and FragmentsInvalid count the
	// datagrams of messages that take several.
	FragmentsSent, FragmentsReceived, FragmentsInvalid uint64

	// Moves counts how often the peer came to be reached by another way. Only the
	// sessions of package secure move. The figures from RTT to JitterStddev begin anew.
	Moves uint64

	// Missed tells where messages of the peer got lost on their way to Read.
	Missed MissedMessages

	// Transport tells what happened below the connection. All connections of
	// a Listener share one.
	Transport TransportStats

	// ReadQueue is how many bytes wait for Read, and Memory how many bytes
	// the connection holds beside them, both at present.
	ReadQueue, Memory int
}

// MissedMessages splits the loss of what the peer has sent by where it happened.
// The wire tells nothing of the like about what we have sent: there only the peer
// knows. For the peers of a [PacketConn] only Sizes and Inbox are known.
type MissedMessages struct {
	// Network counts packets that other ones have passed by and that have not
	// come. Those that lacked a fragment are among them, but not those before the
	// first that came, and not one just before an empty packet, where peers leave
	// a sequence out at times.
	Network uint64
	// Socket counts those of them that presumably found the socket's receive
	// buffer full. It is at most TransportStats.Drops since this connection began,
	// which counts datagrams of all connections of a Listener.
	Socket uint64
	// Sizes counts messages of which a datagram has come and was refused as larger
	// than Config.MaxMessageSize allows, or as cut by another Config.FragmentSize.
	Sizes uint64
	// Inbox counts messages that found the ReadBuffer full, or no memory left of
	// ListenConfig.MaxMemory, as MessagesRefused does.
	Inbox uint64
}

func missed(missing, drops, sizes, refused uint64) MissedMessages {
	socket := min(missing, drops)
	return MissedMessages{Network: missing - socket, Socket: socket, Sizes: sizes, Inbox: refused}
}

// TransportStats tells what happened at the socket. Figures that the platform
// or a foreign connection does not tell are zero. A net.PacketConn or net.Conn
// below that has methods Drops() uint64 and ReadBuffer() int, as those of package
// simnet do, tells these two.
type TransportStats struct {
	// ReadErrors and WriteErrors count passing errors of the socket, such as
	// ICMP messages that nobody listens. A dialed connection sends a refused
	// datagram again, because the error may be about an earlier one. A datagram
	// that the system goes on refusing is lost.
	ReadErrors, WriteErrors uint64
	// Drops counts datagrams that arrived and found the socket's receive
	// buffer full: the program reads too slowly, or SocketBuffer is too small.
	// A run of datagrams that arrived as one (SegmentedReceive) counts once.
	Drops uint64
	// ReadBuffer and WriteBuffer are the sizes in bytes that the system has
	// granted for the socket.
	ReadBuffer, WriteBuffer int
	// SegmentedSend and SegmentedReceive tell whether several datagrams go
	// through one system call as one run (UDP_SEGMENT, UDP_GRO).
	SegmentedSend, SegmentedReceive bool
	// Fallbacks counts runs that had to be sent datagram by datagram.
	Fallbacks uint64
	// ReadCalls and SendCalls count system calls that moved datagrams.
	ReadCalls, SendCalls uint64
}

// counts are the counters that the endpoint does not keep.
type counts struct {
	messagesSent, messagesReceived, messagesRefused uint64
	messagesDelivered, messagesLost                 uint64
	acksSent, keepAlivesSent                        uint64
}

// Stats returns the present figures. After the connection has ended they are
// those of its end.
func (c *Conn) Stats() Stats {
	stats, _ := c.stats()
	return stats
}

// stats returns with Stats those of the transport, which are a system call to ask
// for. They are asked for last, so that what a socket has dropped does not for a
// moment look lost in the network.
func (c *Conn) stats() (stats Stats, below datagram.Stats) {
	now := c.now()
	c.mu.Lock()
	if last := c.over(); last != nil {
		stats = *last
	} else {
		c.updateLocked(now)
		stats = c.statsLocked()
	}
	if c.receipts != nil {
		stats.ReceiptsDropped = c.receipts.overflowed
	}
	var missing, sizes, earlier uint64
	if r := c.extra(); r != nil {
		missing, earlier = r.missing, r.earlier.drops
		if r.rejected != nil {
			sizes = r.rejected.messages
		}
	}
	c.mu.Unlock()
	stats.MessagesTruncated = c.user.Truncated()
	stats.ReadQueue = c.user.In.Len()
	below = c.out.Below.Stats()
	stats.Transport = transportStats(below)
	stats.Missed = missed(missing, since(earlier, stats.Transport.Drops), sizes, stats.MessagesRefused)
	return stats, below
}

func (c *Conn) statsLocked() Stats {
	f, n, m := c.endpoint.Stats(), c.endpoint.Counters(), &c.counts
	var moves uint64
	if r := c.extra(); r != nil {
		moves = r.moves
	}
	return Stats{
		RTT: milliseconds(f.RTT), RTTMin: milliseconds(f.RTTMin),
		RTTMax: milliseconds(f.RTTMax), RTTMean: milliseconds(f.RTTAvg),
		JitterMean: milliseconds(f.JitterAvg), JitterMax: milliseconds(f.JitterMax),
		JitterStddev: milliseconds(f.JitterStddev),
		Loss:         float64(f.PacketLoss) / 100,

		SendRate:    bytesPerKilobit * float64(f.SentBandwidth),
		ReceiveRate: bytesPerKilobit * float64(f.ReceivedBandwidth),
		AckedRate:   bytesPerKilobit * float64(f.AckedBandwidth),

		MessagesSent: m.messagesSent, MessagesReceived: m.messagesReceived,
		MessagesRefused:   m.messagesRefused,
		MessagesDelivered: m.messagesDelivered, MessagesLost: m.messagesLost,
		AcksSent: m.acksSent, KeepAlivesSent: m.keepAlivesSent,

		PacketsSent: n.PacketsSent, PacketsReceived: n.PacketsReceived,
		PacketsAcked: n.PacketsAcked, PacketsStale: n.PacketsStale,
		PacketsDuplicate: n.PacketsDuplicate, PacketsInvalid: n.PacketsInvalid,
		PacketsTooLarge: n.PacketsTooLargeToReceive, AcksInvalid: n.AcksInvalid,
		FragmentsSent: n.FragmentsSent, FragmentsReceived: n.FragmentsReceived,
		FragmentsInvalid: n.FragmentsInvalid,

		Moves: moves, Memory: c.endpoint.MemoryUsage(),
	}
}

// bytesPerKilobit turns the rates of reliable.Stats into those of Stats.
const bytesPerKilobit = 1000 / 8

func milliseconds(ms float32) time.Duration {
	return time.Duration(float64(ms) * float64(time.Millisecond))
}

func transportStats(s datagram.Stats) TransportStats {
	return TransportStats{
		ReadErrors: s.ReadErrors, WriteErrors: s.WriteErrors + s.Socket.Retries,
		Drops:      uint64(s.Socket.Drops),
		ReadBuffer: s.Socket.ReadBufferSize, WriteBuffer: s.Socket.WriteBufferSize,
		SegmentedSend: s.Socket.GSO, SegmentedReceive: s.Socket.GRO,
		Fallbacks: s.Socket.Fallbacks,
		ReadCalls: s.Socket.ReadCalls, SendCalls: s.Socket.SendCalls,
	}
}

func (t *TransportStats) add(x TransportStats) {
	t.ReadErrors += x.ReadErrors
	t.WriteErrors += x.WriteErrors
	t.Drops += x.Drops
	t.Fallbacks += x.Fallbacks
	t.ReadCalls += x.ReadCalls
	t.SendCalls += x.SendCalls
}
