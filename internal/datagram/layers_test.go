package datagram

import (
	"net"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"
)

type layeredConn struct {
	net.Conn
	below Conn
}

type decorated struct{ *layeredConn }

// Another layer finds the Conn of a connection whose protocol has told how, and
// not that of one which the application has wrapped: it would pass over what
// the wrapper changes.
func TestBelow(t *testing.T) {
	a, _ := NewPipe(testAddr("a"), testAddr("b"))
	c := &layeredConn{below: a}
	layers.Delete(reflect.TypeFor[*layeredConn]()) // of an earlier run of this test
	require.Nil(t, Below(c))
	RegisterLayer(func(c *layeredConn) Conn { return c.below })
	require.Equal(t, Conn(a), Below(c))
	require.Nil(t, Below(decorated{c}))
	require.Nil(t, Below(nil))
}
