package netplay_test

import (
	"context"
	"fmt"
	"log"
	"net"

	"volley/netplay"
)

// A server that passes each line of a chat on to everybody.
func Example() {
	type Chat struct {
		From string `netplay:"0"`
		Text string `netplay:"1"`
	}
	reg := new(netplay.Registry)
	reg.MustAdd(2, Chat{}, netplay.Compress(100))

	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	srv := &netplay.Server{Registry: reg, MaxConns: 1000}
	netplay.Handle(srv, func(c *netplay.Conn, m *Chat) error { return srv.Broadcast(m) })
	go srv.Serve(ln)

	ctx := context.Background()
	c, err := netplay.Dial("tcp", ln.Addr().String(), reg)
	if err != nil {
		log.Fatal(err)
	}
	if err := c.WriteMessage(context.Background(), &Chat{"ann", "hi"}); err != nil {
		log.Fatal(err)
	}
	m, err := c.ReadMessage(context.Background())
	fmt.Println(m.(*Chat).Text, err)
	c.Close()
	fmt.Println(srv.Shutdown(ctx))
	// Output:
	// hi <nil>
	// <nil>
}

func ExampleMarshal() {
	type Player struct {
		ID     int32   `netplay:"0"`
		Name   string  `netplay:"1"`
		Health float32 `netplay:"2"`
	}
	body, err := netplay.Marshal(&Player{42, "John", 87.5})
	fmt.Printf("% x %v\n", body, err)
	var p Player
	err = netplay.Unmarshal(body, &p)
	fmt.Println(p, err)
	// Output:
	// 00 00 00 2a 00 04 4a 6f 68 6e 42 af 00 00 <nil>
	// {42 John 87.5} <nil>
}

// A codec makes frames for a transport of your own.
func ExampleCodec() {
	type Friends struct {
		Names []string `netplay:"0"`
	}
	reg := new(netplay.Registry)
	reg.MustAdd(5, Friends{})
	codec, err := netplay.NewCodec(reg, nil)
	if err != nil {
		log.Fatal(err)
	}
	wire, err := codec.Append(nil, &Friends{[]string{"Alice", "Bob", "Charlie"}})
	fmt.Printf("%x %v\n", wire, err)
	frame, rest, err := netplay.ParseFrame(wire)
	fmt.Println(frame.Type, len(rest), err)
	m, err := codec.Decode(frame)
	fmt.Println(m, err)
	// Output:
	// 001a00000500030005416c6963650003426f620007436861726c6965 <nil>
	// 5 0 <nil>
	// &{[Alice Bob Charlie]} <nil>
}

// What does not fit the format is refused when the type is registered, or when
// the message is written.
func ExampleRegistry_Add() {
	type Reading struct {
		Value float64 `netplay:"0"`
	}
	fmt.Println(new(netplay.Registry).Add(1, Reading{}))
	// Output:
	// netplay: netplay_test.Reading.Value: float64 cannot be a property; the protocol has no double, use float32
}

// A client logs in first on every connection, and comes back when it was lost.
func ExampleClient() {
	type Login struct {
		Name string `netplay:"0"`
	}
	type Note struct {
		Text string `netplay:"0"`
	}
	reg := new(netplay.Registry)
	reg.MustAdd(0, Login{})
	reg.MustAdd(1, Note{})

	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	srv := &netplay.Server{Registry: reg}
	netplay.Handle(srv, func(c *netplay.Conn, m *Login) error {
		return c.WriteMessage(context.Background(), &Note{"welcome, " + m.Name})
	})
	go srv.Serve(ln)

	client := &netplay.Client{
		Registry:  reg,
		Address:   ln.Addr().String(),
		Reconnect: true,
		OnConnect: func(c *netplay.Conn) error { return c.WriteMessage(context.Background(), &Login{"ann"}) },
	}
	netplay.Handle(client, func(c *netplay.Conn, m *Note) error {
		fmt.Println(m.Text)
		return client.Close()
	})
	fmt.Println(client.Run(context.Background()))
	srv.Close()
	// Output:
	// welcome, ann
	// netplay: client closed
}
