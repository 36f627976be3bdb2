// Package reliable tells the sender of datagrams which of them arrived. It is
// the core of the reliable protocol: every packet carries a 16-bit sequence
// number and says which of the last 32 packets of the other side were
// received; packets too large for a datagram travel in fragments; and the
// acks yield round-trip time, jitter, packet loss and bandwidth. Nothing is
// retransmitted and nothing is put in order.
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
