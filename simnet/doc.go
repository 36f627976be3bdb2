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
// Give the sockets to code that takes a net.PacketConn or a datagram net.Conn.
// [Pair] makes two connected sockets in one call. [Proxy] puts the same links
// between two real UDP sockets, for programs that can't be given a socket.
//
// # Links
//
// A [Link] describes one direction between two hosts; the way back is another
// Link. [Network.SetDefault] describes all links, [Network.SetLink] those from one
// host to another. Both can be called at any time. A script of [Step] values
// changes links for a while, such as
//
//	3s loss=40% for 2s; 10s blackout for 500ms
//
// [Stats] counts what became of all datagrams. A [Preset] describes a common access
// network, such as "4g" or "satellite", by published figures.
//
// # NAT and moving hosts
//
// [Network.AddNAT] puts a [NAT] in front of hosts. Others see its public address,
// and [NAT.Rebind] makes it forget which ports it has used. A host with
// several addresses opens its sockets by [Network.ListenAny], and loses and regains
// an address by [Network.SetDown]. So a test can show a client that its server
// sees at a new address:
//
//	nat, err := n.AddNAT(public, inside, 0) // the phone in its Wi-Fi
//	phone, err := n.ListenAny(0, wifi, mobile)
//	nat.Rebind()          // another port of the NAT
//	n.SetDown(wifi, true) // another address of the phone
//
// # Seeds
//
// Each flow, from one address to another, has its own random numbers. They depend
// on the seed, the two addresses and the index of the datagram in its flow, not on
// the clock or the order in which goroutines run. A test that fails with one seed
// fails with it again, as long as it sends the same. Turning one impairment on or
// off does not change the others. Where a NAT has ended a mapping, the index goes on
// behind the datagrams of all flows between the same hosts that have ended.
//
// Full queues, full receive buffers and scripts depend on when datagrams are sent.
// Inside a synctest bubble that is reproducible, too.
//
// # Time
//
// In a testing/synctest bubble the network runs in the bubble's time: a test of
// minutes takes milliseconds, and every delay is exact. Create the Network inside
// the bubble. Close, or the Close of both sockets of a Pair, leaves nothing behind
// that a bubble would wait for. Outside a bubble the network runs in real time, and
// delays are as exact as timers of the runtime.
package simnet
