// Package netplay speaks the Netplay protocol: typed messages over TCP,
// compatible on the wire with the Java library of that name.
//
// A message is a struct. The fields with a tag are its properties, written one
// after another in the order of their numbers:
//
//	type Chat struct {
//		From string `netplay:"0"`
//		Text string `netplay:"1"`
//	}
//
// Fields can be bool, the integers of 8 to 64 bits, float32 and string, slices
// of any of these and of slices, nested structs, and pointers to structs, which
// may be nil. Numbers are any of 32 bits, gaps and negative ones included.
//
// [Marshal] and [Unmarshal] turn a message into its body and back. A
// [Registry] gives types their numbers, and a [Codec] makes frames of them.
package netplay
