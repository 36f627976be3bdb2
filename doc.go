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
// which cannot truncate. Each Write is one message, so helpers for streams change
// where messages begin and end. A bufio.Writer joins and cuts them, and a
// bufio.Reader fails with io.ErrShortBuffer at a message longer than its buffer.
// The same holds for io.Copy, which joins messages that it reads. Write refuses
// messages above [Conn.MaxMessageSize].
//
// [Conn.WriteBatch] sends many messages on one connection, and [WriteAll] and
// [WriteEach] send to many connections, in few system calls.
//
// A program that takes a net.Conn or a net.PacketConn for datagrams, such as a
// DNS client, DTLS or statsd, runs over a Conn unchanged. HTTP, gRPC, yamux and
// other programs that read a net.Conn as a stream need TCP, QUIC, or a Stream of
// package porous. NewConn refuses the streams that it recognises.
//
// A [PacketConn] is one socket for all peers, as a net.UDPConn of [net.ListenUDP]
// is, for programs that take a net.PacketConn, such as a DNS server or quic-go:
// see [ListenPacket].
//
// [Listener.Dial] and [Dialer.DialOn] dial from a socket that exists.
//
// [NewConn] and [NewListener] put the same on any connection that preserves
// message boundaries, as tls.Client does for streams. [Pipe] joins two Conns in
// memory, without loss; sockets of package simnet lose as much as a test wants.
//
// # Delivery
//
// A message that arrives is intact and arrives once, as long as no datagram
// lives longer in the network than it takes the sender to send 32,000 more.
// Sequence numbers have 16 bits, so beyond that limit a message may arrive
// twice, and a receipt may name the wrong message. When nothing has arrived for
// 10 s, the sender may have lost its place: then an old datagram from before that
// silence may arrive twice, too, if it is older than the last 16,384
// messages. Messages may be lost and may overtake each other. If the reader's buffer
// is full, messages are refused, not acknowledged, and show in the sender's loss.
//
// # Security
//
// The wire has no authentication and no encryption: anybody who can forge the
// peer's address can inject messages, and one forged datagram can disturb a
// connection. On the open internet run it over encrypted sessions, such as those
// of package secure. Memory that a peer can make this side hold is bounded in
// bytes, for one Conn by its [Config] and for all of a [Listener] by
// [ListenConfig].MaxMemory.
//
// # Ending
//
// [Conn.Close] tells the peer. Its Read returns what has arrived, and then io.EOF,
// or a *[CloseError] after [Conn.CloseWithReason]. A Listener that is full or closes
// refuses a new peer, whose calls return a *[RefusedError].
//
// A peer that was killed says nothing. Then calls fail with [ErrPeerRestarted] as
// soon as its successor answers at the same address, or with [ErrIdleTimeout] after
// IdleTimeout without a datagram. Peers of the reference know no goodbye, and end by
// silence only. Both sides send a keepalive when they have nothing else to send, so
// an idle connection lives.
package volley
