// Package hook is for tests of a fleet by its own programs.
package hook

// Advertise is where the server of NATS in this process says that other nodes reach it; empty:
// its own address. A drill that cuts routes sets it, so that nodes use no others than it knows.
var Advertise string
