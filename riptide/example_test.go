package riptide_test

import (
	"context"
	"fmt"
	"log"
	"net"

	"volley/riptide"
)

// A server that sends the chat of each client to all others, and two clients. Unity
// programs with the stock library could be among them.
func Example() {
	s := &riptide.Server{MaxClients: 64}
	s.Accept = func(_ context.Context, r *riptide.Request) error {
		if password := r.Data.ReadString(); password != "swordfish" {
			return fmt.Errorf("wrong password %q", password)
		}
		return nil
	}
	s.Handle(1, func(p *riptide.Peer, m *riptide.Message) error {
		line := m.ReadString()
		if err := m.Err(); err != nil { // one check after all fields
			return err
		}
		out := riptide.NewMessage(riptide.Reliable, 2)
		riptide.Add(out, p.ID())
		out.AddString(line)
		return s.SendAll(out, p)
	})
	joined := make(chan struct{}) // the server learns it a moment after the client
	s.Connected = func(*riptide.Peer) { joined <- struct{}{} }
	pc, err := net.ListenPacket("udp", "127.0.0.1:0") // ListenAndServe does both
	if err != nil {
		log.Fatal(err)
	}
	go s.ServeOn(pc)
	defer s.Shutdown(context.Background())

	heard := make(chan string)
	ada, grace := new(riptide.Client), new(riptide.Client)
	grace.Handle(2, func(_ *riptide.Client, m *riptide.Message) error {
		heard <- fmt.Sprintf("player %d: %s", riptide.Read[uint16](m), m.ReadString())
		return m.Err()
	})
	for _, c := range []*riptide.Client{ada, grace} {
		c.Data = riptide.NewData()
		c.Data.AddString("swordfish")
		if err := c.Connect(context.Background(), "udp", pc.LocalAddr().String()); err != nil {
			log.Fatal(err)
		}
		defer c.Close()
		<-joined
	}

	m := riptide.NewMessage(riptide.Reliable, 1)
	m.AddString("hello")
	if err := ada.Send(m); err != nil {
		log.Fatal(err)
	}
	fmt.Println(<-heard)
	// Output: player 1: hello
}

// Values are read in the order and with the types with which they were added.
func ExampleMessage() {
	m := riptide.NewMessage(riptide.Unreliable, 7)
	m.AddString("gopher")
	m.AddValue(riptide.Vector3{X: 1, Y: 2, Z: 3})
	riptide.AddSlice(m, []int32{10, 20})

	name := m.ReadString()
	var at riptide.Vector3
	m.ReadValue(&at)
	fmt.Println(name, at, riptide.ReadSlice[int32](m), m.Err())
	fmt.Println(riptide.Read[uint64](m), m.Err())
	// Output:
	// gopher {1 2 3} [10 20] <nil>
	// 0 riptide: read past the end of the message
}

// A move has a method for each direction, so messages can hold it.
type move struct {
	Player uint16
	To     riptide.Vector2
}

func (v move) MarshalRiptide(m *riptide.Message) {
	riptide.Add(m, v.Player)
	m.AddValue(v.To)
}

func (v *move) UnmarshalRiptide(m *riptide.Message) {
	v.Player = riptide.Read[uint16](m)
	m.ReadValue(&v.To)
}

func ExampleMessage_ReadValue() {
	c := new(riptide.Client)
	c.Handle(7, func(c *riptide.Client, m *riptide.Message) error {
		var v move
		if m.ReadValue(&v); m.Err() != nil {
			return m.Err()
		}
		fmt.Println("player", v.Player, "moves to", v.To)
		return nil
	})
}

func ExampleAddValues() {
	m := riptide.NewMessage(riptide.Reliable, 7)
	riptide.AddValues(m, []move{{1, riptide.Vector2{X: 1}}, {2, riptide.Vector2{Y: 1}}})
	fmt.Println(riptide.ReadValues[move](m), m.Err())
	// Output: [{1 {1 0}} {2 {0 1}}] <nil>
}
