// Package netplay speaks the Netplay protocol: typed messages over TCP, compatible on the
// wire with the Java library of that name.
//
// # Messages
//
// A message is a struct. Its fields with a tag are its properties. They are written one
// after another in the order of their numbers, which have up to 32 bits:
//
//	type Chat struct {
//		From string `netplay:"0"`
//		Text string `netplay:"1"`
//	}
//
// A field is a bool, an integer of 8 to 64 bits, a float32, a string, a struct, a pointer to
// a struct, which may be nil, or a slice of these. A type may contain itself by pointers to
// structs and slices of them. A tag "-" is the same as none.
//
// [Marshal] and [Unmarshal] turn a message into its body and back. A [Registry] gives types
// their numbers, and a [Codec] makes frames for other transports.
//
// # Connections
//
// A [Conn] reads and writes messages over a stream, such as TCP or TLS, or a message
// connection that keeps order. A [Server] accepts connections, calls the functions given to
// [Handle], broadcasts, and bounds the queues of slow clients. A [Client] is the other side,
// and can reconnect.
//
// # Limits
//
// Received data is checked before anything is allocated for it. [Config] bounds the length
// of frames, the size of expanded bodies, the memory of decoded messages, the depth of
// structs, and the time for the rest of a frame. The protocol has no security: use TLS.
//
// See docs/netplay.md for the wire and the differences from the library.
package netplay
