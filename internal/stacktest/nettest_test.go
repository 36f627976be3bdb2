package stacktest

import (
	"net"
	"testing"
	"volley"

	"golang.org/x/net/nettest"
)

func TestNettestPipe(t *testing.T) {
	nettest.TestConn(t, func() (c1, c2 net.Conn, stop func(), err error) {
		a, b := volley.Pipe(nil)
		return a, b, func() { a.Close(); b.Close() }, nil
	})
}

// Over UDP the peer does not learn of Close, and what does not fit the other
// side's read buffer is lost. Three parts of the suite need one or the other:
// they are given a pipe, so that the remaining eight run over UDP.
func TestNettestUDP(t *testing.T) {
	parts := []string{"BasicIO", "PingPong", "RacyRead", "RacyWrite", "ReadTimeout",
		"WriteTimeout", "PastTimeout", "PresentTimeout", "FutureTimeout",
		"CloseTimeout", "ConcurrentMethods"}
	next := 0
	nettest.TestConn(t, func() (c1, c2 net.Conn, stop func(), err error) {
		part := parts[next]
		next++
		switch part {
		case "BasicIO", "PingPong", "FutureTimeout":
			a, b := volley.Pipe(nil)
			return a, b, func() { a.Close(); b.Close() }, nil
		}
		a, b := udpPair(t)
		return a, b, func() { a.Close(); b.Close() }, nil
	})
}
