package porous_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/rpc"

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
	lc := porous.ListenConfig{Config: cfg}
	l, err := lc.Listen(ctx, "udp", "127.0.0.1:0")
	check(err)
	defer l.Close()

	d := porous.Dialer{Config: cfg}
	c, err := d.Dial(ctx, "udp", l.Addr().String())
	check(err)
	server, err := l.AcceptConn(ctx)
	check(err)

	fmt.Fprint(c, "hello") // channel 0, reliable
	pos := c.Channel(1)
	pos.SetHighPriority(true)
	_, err = pos.WriteMessage(ctx, []byte{1, 2, 3}, porous.Unreliable)
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
	client, err := porous.NewConn(session, nil)
	check(err)
	server, err := porous.NewConn(far, nil)
	check(err)

	fmt.Fprint(client, "sealed, reliable and in order")
	p, err := server.ReadMessage(context.Background(), nil)
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
	id, err := a.WriteMessage(ctx, []byte("did it arrive?"), porous.Passive)
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
	check(a.Flush(context.Background()))
	fmt.Println(a.Explain())
	// Output: Nothing limits sending: everything that may be sent has been sent.
}

// Programs that expect a TCP connection run over a stream, such as those of net/rpc.
func ExampleChannel_Stream() {
	a, b := porous.Pipe(nil)
	server := rpc.NewServer()
	check(server.Register(Arithmetic{}))
	go server.ServeConn(b.Stream())

	client := rpc.NewClient(a.Stream())
	var sum int
	check(client.Call("Arithmetic.Add", []int{1, 2, 3}, &sum))
	fmt.Println(sum)
	check(client.Close())
	// Output: 6
}

type Arithmetic struct{}

func (Arithmetic) Add(terms []int, sum *int) error {
	for _, t := range terms {
		*sum += t
	}
	return nil
}
