// Package volley gives message connections over UDP.
//
// A [Conn] is a net.Conn on which every Write is one message. A message is
// framed, split into fragments if it is too large for one datagram, sent once,
// acknowledged by the other side, and read whole by one Read there. Nothing is
// sent again and nothing is put in order: a message arrives at most once, and
// the sender learns what became of it ([Conn.WaitReceipts]) and how the
// network does ([Conn.Stats]). The wire format is that of the reliable
// protocol 1.x, see docs/reliable.md.
//
// # Usage
//
// [Dial] and [Listen] work as their namesakes in package net do:
//
//	ln, err := volley.Listen("udp", ":7777")
//	...
//	c, err := ln.Accept()
//
//	c, err := volley.Dial("udp", "host:7777")
//	...
//	c.Write([]byte("one message"))
//	n, err := c.Read(buf) // one message
//
// Give Read a buffer of [Conn.MaxMessageSize] bytes, or use [Conn.ReadMessage],
// which cannot truncate. Because each Write is one message, helpers for streams
// change where messages begin and end: a bufio.Writer joins and cuts them, and a
// bufio.Reader fails with io.ErrShortBuffer at one that is longer than its
// buffer. io.Copy to a Conn makes a message of each Read, up to 32 KiB, of which
// Write refuses what is above [Conn.MaxMessageSize]; io.Copy from a Conn joins
// what it reads, and ends with an error, for there is no end of a stream.
// net.Buffers writes each of its elements as a message, as [Conn.WriteBatch] does
// in fewer system calls.
//
// [Conn.WriteBatch] sends many messages on one connection, and [WriteAll] and
// [WriteEach] send to many connections, in few system calls.
//
// A program that takes a net.Conn or a net.PacketConn for datagrams, such as a
// DNS client, DTLS or statsd, runs over a Conn unchanged. HTTP, gRPC, yamux and
// whatever else reads a net.Conn as a stream does not: it wants TCP, or the
// streams of QUIC. NewConn refuses the streams that it recognises.
//
// A [PacketConn] is one socket for all peers, as a net.UDPConn of [net.ListenUDP]
// is, for programs that take a net.PacketConn, such as a DNS server or quic-go:
// see [ListenPacket].
//
// [Listener.Dial] and [Dialer.DialOn] dial from a socket that exists.
//
// [NewConn] and [NewListener] put the same on any connection that preserves
// message boundaries, as tls.Client does for streams; [Pipe] joins two Conns in
// memory, without loss or with as much as a test wants.
//
// # Delivery
//
// A message that arrives is intact and arrives once, as long as no datagram
// lives longer in the network than it takes the sender to send 32,000 more.
// Sequence numbers have 16 bits, so beyond that limit a message may arrive
// twice, and a receipt may name the wrong message. When nothing has arrived for
// 10 s, the sender is taken for one that may have lost its place: then a
// datagram that is still on its way from before may arrive twice too, if it is
// older than the last [Config].MaxWindow messages. Messages may be lost and may
// overtake each other. A sender that outruns the reader fills the reader's
// buffer; what does not fit is refused, not acknowledged, and shows in the
// sender's loss.
//
// # Security
//
// The wire has no authentication and no encryption: anybody who can forge the
// peer's address can inject messages, and one forged datagram can disturb a
// connection. On the open internet run it over a secure session, such as
// package netcode's. What a peer can make this side hold is bounded in bytes,
// for one Conn by its [Config] and for all of a [Listener] by
// [ListenConfig].MaxMemory.
//
// # Ending
//
// The wire has no close. Close is local: the other side learns nothing, until
// its IdleTimeout has passed without a datagram and its calls fail with
// [ErrIdleTimeout]. Both sides send a keepalive when they have nothing else to
// send, so an idle connection lives.
package volley
