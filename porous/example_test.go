package porous_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"volley/netcode"
	"volley/porous"
)

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// A server and a client with two channels: one for what must arrive, one for
// what is only of use while it is fresh.
func Example() {
	ctx := context.Background()
	cfg := &porous.Config{Channels: 2}
	l, err := porous.Listen("udp", "127.0.0.1:0", cfg)
	check(err)
	defer l.Close()

	c, err := porous.Dial(ctx, "udp", l.Addr().String(), cfg)
	check(err)
	server, err := l.AcceptConn()
	check(err)

	fmt.Fprint(c, "hello") // channel 0, reliable
	pos := c.Channel(1)
	pos.SetPriority(porous.High)
	_, err = pos.Send(ctx, []byte{1, 2, 3}, porous.Unreliable)
	check(err)

	buf := make([]byte, server.MaxMessageSize())
	n, err := server.Read(buf)
	check(err)
	fmt.Printf("%s\n", buf[:n])
	n, err = server.Channel(1).Read(buf)
	check(err)
	fmt.Println(buf[:n])

	check(c.Close()) // delivers what was accepted, or says what it did not
	_, err = server.Read(buf)
	fmt.Println(err)
	check(server.Close())
	// Output:
	// hello
	// [1 2 3]
	// EOF
}

// Over a session of package netcode everything is encrypted. Here the session
// is one in memory.
func ExampleNewConn() {
	session, far := netcode.Pipe(1, nil)
	client := porous.NewConn(session, nil)
	server := porous.NewConn(far, nil)

	fmt.Fprint(client, "sealed, reliable and in order")
	p, err := server.ReadMessage(nil)
	check(err)
	fmt.Printf("%s\n", p)
	check(client.Close())
	check(server.Close())
	// Output: sealed, reliable and in order
}

// Receipts tell what became of each message, once.
func ExampleConn_AppendReceipts() {
	a, b := porous.Pipe(nil)
	defer b.Abort()
	ctx := context.Background()
	id, err := a.Send(ctx, []byte("did it arrive?"), porous.Passive)
	check(err)
	check(a.Flush(ctx)) // waits until every message has its fate
	for _, r := range a.AppendReceipts(nil) {
		fmt.Println(r.ID == id, r.Channel, r.Fate)
	}
	check(a.Close())
	// Output: true 0 delivered
}

// Close says what it did not deliver.
func ExampleUndeliveredError() {
	a, b := porous.Pipe(&porous.Config{CloseTimeout: -1})
	a.Write([]byte("too late"))
	b.Abort()
	var lost *porous.UndeliveredError
	if err := a.Close(); errors.As(err, &lost) {
		fmt.Println("not delivered:", lost.Messages)
	}
}

// Explain says what limits sending at the moment.
func ExampleConn_Explain() {
	a, b := porous.Pipe(nil)
	defer a.Abort()
	defer b.Abort()
	check(a.Connected(context.Background()))
	fmt.Println(a.Explain())
	// Output: Nothing: everything that may be sent has been sent.
}
