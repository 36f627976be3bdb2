// Package netplay speaks the Netplay protocol: typed messages over TCP,
// compatible on the wire with the Java library of that name.
//
// # Messages
//
// A message is a struct. The fields with a tag are its properties, written one
// after another in the order of their numbers, which are any of 32 bits:
//
//	type Chat struct {
//		From string `netplay:"0"`
//		Text string `netplay:"1"`
//	}
//
// Fields can be bool, the integers of 8 to 64 bits, float32 and string, slices
// of any of these, of structs and of slices, nested structs, and pointers to
// structs, which may be nil. A type may contain itself by pointers to structs
// and slices of them. A tag "-" is the same as none.
//
// [Marshal] and [Unmarshal] turn a message into its body and back. A
// [Registry] gives types their numbers, and a [Codec] makes frames of them, for
// transports of your own.
//
// # Connections
//
// A [Conn] reads and writes messages over a stream, such as TCP or TLS, and over
// message connections that keep order. A [Server] accepts connections and has
// their messages handled by the functions given to [Handle]; it broadcasts, and
// bounds what waits for clients that read slowly. A [Client] is the other side,
// and connects again if asked to.
//
// # Limits
//
// What comes from the network is checked before anything is allocated for it,
// and bounded by [Config]: the length of frames, what compressed bodies expand
// to, the memory of decoded messages, the depth of structs, and the time that
// half a frame may wait for its end. The protocol itself has no security: use
// TLS.
//
// The bytes on the wire, the differences from the library and its faults are
// described in docs/netplay.md.
package netplay
