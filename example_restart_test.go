package volley_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"volley"
)

// A client learns by its next message that the server was started again, and
// dials anew.
func ExampleConfig_restartNotice() {
	cfg := &volley.Config{RestartNotice: true} // on both sides
	lc := volley.ListenConfig{Config: cfg}
	ln, err := lc.Listen(context.Background(), "udp", "127.0.0.1:0")
	check(err)
	d := volley.Dialer{Config: cfg}
	c, err := d.Dial("udp", ln.Addr().String())
	check(err)
	peer, err := ln.Accept()
	check(err)
	peer.Write([]byte("welcome"))
	buf := make([]byte, 100)
	n, err := c.Read(buf)
	check(err)
	fmt.Printf("%s\n", buf[:n])

	peer.Close() // the server stops, and starts again on its port
	ln.Close()
	ln, err = lc.Listen(context.Background(), "udp", ln.Addr().String())
	check(err)
	defer ln.Close()

	c.Write([]byte("hello"))
	_, err = c.Read(buf)
	fmt.Println(errors.Is(err, volley.ErrPeerRestarted))
	c.Close()
	c, err = d.Dial("udp", ln.Addr().String())
	check(err)
	defer c.Close()
	peer, err = ln.Accept()
	check(err)
	defer peer.Close()
	fmt.Println("there is a new connection")
	// Output:
	// welcome
	// true
	// there is a new connection
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
