package datagram

import (
	"net"
	"reflect"
	"sync"
)

// layers holds, by the type of a protocol's connections, what makes a Conn of
// one: func(net.Conn) Conn.
var layers sync.Map

// RegisterLayer says how another layer stacks on connections of type C: f
// returns the Conn of one, which it then takes over. A protocol calls it when it
// is initialized, so that its connections need no exported method for that.
func RegisterLayer[C net.Conn](f func(C) Conn) {
	layers.Store(reflect.TypeFor[C](), func(c net.Conn) Conn { return f(c.(C)) })
}

// Below returns the Conn of a connection of volley's own, by which another layer
// stacks on it without a goroutine or copy in between. It is nil for all others,
// also for those in which one of volley's own is embedded: what they have
// changed would be passed over.
func Below(c net.Conn) Conn {
	if f, ok := layers.Load(reflect.TypeOf(c)); ok {
		return f.(func(net.Conn) Conn)(c)
	}
	return nil
}
