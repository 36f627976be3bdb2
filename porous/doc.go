// Package porous provides connections over UDP that carry messages on
// independent channels: in order, each of them reliable or not, with priorities
// and congestion control. On the wire it is POROUS, byte for byte: a volley
// program speaks with peers of the original library.
//
//	c, err := porous.Dial(ctx, "udp", "host:7777", &porous.Config{Channels: 2})
//	defer c.Close()         // delivers what was accepted, or says what it did not
//	fmt.Fprint(c, "hello")  // channel 0, reliable
//	pos := c.Channel(1)
//	pos.SetPriority(porous.High)
//	id, err := pos.Send(ctx, xyz, porous.Unreliable)
//	n, err := pos.Read(buf)
//
// # Connections and channels
//
// [Dial] and [Listen] make connections over UDP, [NewConn] over any connection
// that keeps messages apart; over a session of package netcode everything is
// encrypted. There is no client and no server on the wire: a [Listener] also
// dials, from the socket on which it accepts, and when both sides dial at once,
// as through two firewalls, they meet in one connection.
//
// A [Conn] is a net.Conn, and so is each [Channel] of it. Write sends one
// message, reliably; Send chooses the [Mode] and returns a number by which a
// [Receipt] tells the message's fate. Read returns one message. Messages of a
// channel never overtake each other: reliable ones are all delivered, others may
// be missing. Channels do not wait for each other.
//
// # Reading
//
// What arrives waits for Read in a buffer of Config.ReceiveBuffer bytes. When a
// channel's share of it is full, whole frames with its messages are refused:
// they are not acknowledged, and sent again by the peer. Between peers of this
// package other channels are not held up by that, for the sender notices, and
// sends what belongs to that channel in single frames of its own until one is
// taken. The original library knows nothing of that: it slows down as if the
// network had lost the frames. So read all channels that the peer uses.
//
// # The end
//
// Close sends what was accepted, waits for its acknowledgement and ends the
// connection; the peer reads what is there and then io.EOF on every channel.
// The wire has no end of a single channel: closing one is local.
//
// The plain protocol has no security: who can forge the peer's address can end
// a connection with one byte (see Config.VerifyDisconnect), and who sees the
// traffic can do anything. See docs/THREATS.md, and use netcode underneath.
package porous
