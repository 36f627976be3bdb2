// Package reliable tells the sender of datagrams which of them arrived. It is
// the core of the reliable protocol. Every packet carries a 16-bit sequence
// number, and acknowledges the last 32 packets of the other side. Packets too
// large for a datagram travel in fragments. Round-trip time, jitter, packet loss
// and bandwidth follow from the acks. Nothing is sent again or put in order.
//
// An [Endpoint] is one end. It has no socket, goroutine, lock or clock: it is
// told the time, is given datagrams, and appends those to be sent to a
// [Batch]. Package volley makes connections of it.
//
// The wire format is that of the C library reliable 1.x, and with a zero
// [Config] an Endpoint behaves as that library does. The format has no
// authentication: whoever can send a datagram to an endpoint can acknowledge
// packets that never arrived, and make true packets look stale. On the open
// internet, run it inside secured sessions.
package reliable
