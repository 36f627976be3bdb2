package registry

import (
	"net"
	"time"
)

// Figures that a protocol may be able to tell, as bits of Conn.Known and
// Listener.Known. Names and meaning are those of package volleydebug.
const (
	RTT = 1 << iota
	Jitter
	Loss
	Rates
	Messages
	Fates
	Resent
	Bytes
	Packets
	Invalid
	MissedNetwork
	MissedSocket
	MissedInbox
	Window
	InFlight
	SendQueue
	ReadQueue
	Memory
	Socket
)

// A Conn is how a connection stands. The fields are explained at
// volleydebug.Conn, which has the same.
type Conn struct {
	ID, Listener                uint64
	Protocol, Over, Role, Label string
	Local, Remote               net.Addr
	Born                        time.Time
	Known                       uint64

	RTT, RTTMin, Jitter              time.Duration
	Loss                             float64
	SendRate, ReceiveRate, AckedRate float64
	MessagesSent, MessagesReceived   uint64
	MessagesDelivered, MessagesLost  uint64
	MessagesResent                   uint64
	BytesSent, BytesReceived         uint64
	PacketsSent, PacketsReceived     uint64
	PacketsInvalid                   uint64
	MissedNetwork, MissedSocket      uint64
	MissedInbox                      uint64
	Window, InFlight                 int
	Unit                             string
	SendQueue, ReadQueue, ReadBuffer int
	Memory                           int
	Explain                          string
	OK                               bool
}

// A Listener is how a listener stands. The fields are explained at
// volleydebug.Listener, which has the same.
type Listener struct {
	ID             uint64
	Protocol, Kind string
	Addr           net.Addr
	Born           time.Time
	Known          uint64

	Conns                                int
	Memory, MaxMemory                    int64
	Accepted, Refused, Filtered, Unknown uint64
	Invalid                              uint64
	ReadErrors, WriteErrors, SocketDrops uint64
	ReadCalls, SendCalls                 uint64
	SocketReadBuffer, SocketWriteBuffer  int
	Ended                                Totals
}
