package volley_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"volley"
	"volley/simnet"
)

// A client learns by its next message that the server was started again, and
// dials anew.
func ExampleConfig_restartNotice() {
	cfg := &volley.Config{RestartNotice: true} // on both sides
	network := simnet.New(1)                   // where the port is nobody else's
	defer network.Close()
	listen := func() *volley.Listener {
		pc, err := network.Listen("10.0.0.1:7777")
		check(err)
		lc := volley.ListenConfig{Config: cfg}
		ln, err := lc.ListenPacket(pc)
		check(err)
		return ln
	}
	dial := func() *volley.Conn {
		inner, err := network.Dial("10.0.0.2:5000", "10.0.0.1:7777")
		check(err)
		return volley.NewConn(inner, cfg)
	}
	ln, c := listen(), dial()
	// The server knows a client by its first message.
	_, err := c.Write([]byte("hello"))
	check(err)
	peer, err := ln.Accept()
	check(err)
	buf := make([]byte, 100)
	_, err = peer.Read(buf)
	check(err)
	peer.Write([]byte("welcome"))
	n, err := c.Read(buf)
	check(err)
	fmt.Printf("%s\n", buf[:n])

	peer.Close() // the server stops, and starts again on its port once that is free
	check(ln.Shutdown(context.Background()))
	ln = listen()
	defer ln.Close()

	c.Write([]byte("hello"))
	_, err = c.Read(buf)
	fmt.Println(errors.Is(err, volley.ErrPeerRestarted))
	c.Close()
	c = dial()
	defer c.Close()
	_, err = c.Write([]byte("hello again"))
	check(err)
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
