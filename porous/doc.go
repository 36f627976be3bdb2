// Package porous provides connections over UDP that carry messages on independent
// channels. On a channel messages keep their order, and each is reliable or not; there
// are priorities and congestion control. On the wire it is POROUS, byte for byte: a
// volley program speaks with peers of the original library.
//
//	d := porous.Dialer{Config: &porous.Config{Channels: 2}}
//	c, err := d.Dial(ctx, "udp", "host:7777")
//	defer c.Close()         // delivers what was accepted, or says what it did not
//	fmt.Fprint(c, "hello")  // channel 0, reliable
//	pos := c.Channel(1)
//	pos.SetHighPriority(true)
//	id, err := pos.WriteMessage(ctx, xyz, porous.Unreliable)
//	n, err := pos.Read(buf)
//
// # Connections and channels
//
// [Dial] and [Listen] make connections over UDP, [NewConn] over any connection
// that preserves message boundaries; over a session of package netcode
// everything is encrypted. There is no client and no server on the wire: a
// [Listener] also dials, from the socket on which it accepts. If both sides dial
// at once, as through two firewalls, they meet in one connection.
//
// A [Conn] is a net.Conn, and so is each [Channel] of it. Write sends one
// reliable message. WriteMessage chooses the [Mode] and returns an id; the
// message's [Receipt] has the same id. Read returns one message. Messages of a
// channel never overtake each other. Channels do not wait for each other.
//
// [Channel.Stream] turns a channel into a stream of bytes, for programs that
// expect a TCP connection.
//
// # Reading
//
// Received messages wait for Read in a buffer of Config.ReceiveBuffer bytes.
// When a channel's share of it is full, whole frames with its messages are
// refused: they are not acknowledged, and the peer sends them again. A peer of
// this package notices, and sends that channel's messages in frames of their
// own, so that the other channels go on. The original library slows down as if
// the network had lost the frames. So read all channels that the peer uses.
//
// # The end
//
// Close sends what was accepted, waits for its acknowledgement and ends the
// connection. The peer reads what is there and then io.EOF on every channel.
// The protocol has no end of a single channel: closing one is local.
//
// The plain protocol has no security. If you can forge the peer's address, you can end
// a connection with one byte (see Config.VerifyDisconnect); if you see the traffic, you
// can do anything. See docs/THREATS.md, and use netcode underneath.
package porous
