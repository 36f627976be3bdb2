package volley_test

import (
	"context"
	"errors"
	"fmt"
	"io"

	"volley"
	"volley/simnet"
)

// simulated returns a Listener at 10.0.0.1:7777 of a simulated network, and a function
// that dials it, in the place of volley.Listen and volley.Dial.
func simulated(lc *volley.ListenConfig) (ln *volley.Listener, dial func(from string) *volley.Conn, end func()) {
	network := simnet.New(1)
	pc, err := network.Listen("10.0.0.1:7777")
	check(err)
	ln, err = lc.ListenOn(pc)
	check(err)
	dial = func(from string) *volley.Conn {
		pc, err := network.Listen(from)
		check(err)
		c, err := new(volley.Dialer).DialOn(context.Background(), pc, ln.Addr())
		check(err)
		return c
	}
	return ln, dial, func() { network.Close() }
}

// A server kicks a client that does not keep to the rules, and stops. Its clients
// learn at once which it was.
func ExampleConn_CloseWithReason() {
	ln, dial, end := simulated(&volley.ListenConfig{})
	defer end()
	cheat, fair := dial("10.0.0.2:5000"), dial("10.0.0.3:5000")
	defer cheat.Close()
	defer fair.Close()
	cheat.Write([]byte("teleport"))
	fair.Write([]byte("walk"))
	buf := make([]byte, 100)
	for range 2 {
		peer, err := ln.AcceptConn(context.Background())
		check(err)
		n, err := peer.Read(buf)
		check(err)
		if string(buf[:n]) == "teleport" {
			peer.CloseWithReason("kicked")
		}
	}
	stopped, stop := context.WithCancel(context.Background())
	stop()
	ln.Shutdown(stopped) // at once

	_, err := cheat.Read(buf)
	var ce *volley.CloseError
	if errors.As(err, &ce) {
		fmt.Println("closed by the server:", ce.Reason)
	}
	_, err = fair.Read(buf)
	fmt.Println(err == io.EOF)
	// Output:
	// closed by the server: kicked
	// true
}

// A client is told that the server is full.
func ExampleRefusedError() {
	_, dial, end := simulated(&volley.ListenConfig{MaxConns: 1})
	defer end()
	for i := range 2 {
		c := dial(fmt.Sprintf("10.0.0.%d:5000", 2+i))
		defer c.Close()
		if i == 0 {
			continue // it is in
		}
		_, err := c.Read(make([]byte, 100))
		var re *volley.RefusedError
		if errors.As(err, &re) {
			fmt.Println("refused:", re.Reason)
		}
	}
	// Output: refused: full
}
