// Package simnet is a network in memory for tests: sockets that are
// net.PacketConns, joined by links that delay, lose, duplicate, reorder and
// damage datagrams as told.
//
//	n := simnet.New(1)
//	defer n.Close()
//	n.SetDefault(simnet.Link{Latency: 50 * time.Millisecond, Loss: 0.02})
//	server, err := n.Listen("10.0.0.1:7777")
//	client, err := n.Dial("10.0.0.2:0", "10.0.0.1:7777")
//
// Hand the sockets to whatever takes a net.PacketConn or a datagram net.Conn.
// [Pair] makes two connected sockets without further ado. [Proxy] puts the
// same links between two real UDP sockets, for programs that can't be given a
// socket.
//
// # Links
//
// A [Link] describes one direction between two hosts; the way back is another
// one. [Network.SetDefault] describes all links at once, [Network.SetLink]
// those from one host to another, and [Network.SetSocketLink] those from one
// socket to another. They can be changed at any time, by the test itself, by
// [Network.At], or by a [Script] such as
//
//	3s loss=40% for 2s; 10s blackout for 500ms
//
// What becomes of all datagrams is counted in [Stats].
//
// A [Preset] describes a common access network, such as "4g" or "satellite", by
// figures that were published of it.
//
// # Seeds
//
// Each flow, from one address to another, has a random generator of its own,
// and what chance does to a datagram follows from the seed, the two
// addresses, the index of the datagram in its flow and the description of the
// link; not from the clock or the order in which goroutines run. A test that
// fails with one seed fails with it again, as far as what it sends is the
// same. Turning one impairment on or off doesn't change what the others do.
// What finds no room in a queue or in a receive buffer, and what a script
// meets, depends on when datagrams are sent, as it must; inside a synctest
// bubble that is reproducible too.
//
// # Time
//
// In a testing/synctest bubble the network runs in the bubble's time, so that
// a test of minutes takes milliseconds, and every delay is exact. Create the
// Network inside the bubble. No operation holds a lock while it waits, a
// Network has no goroutine of its own between two deliveries, and Close (or
// the Close of both sockets of a Pair) leaves nothing behind that a bubble
// would wait for. Outside a bubble the network runs in real time, and delays
// are as exact as timers of the runtime.
package simnet
