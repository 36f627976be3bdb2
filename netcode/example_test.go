package netcode_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/netip"
	"time"

	"volley"
	"volley/netcode"
)

// A backend issues a token, a client uses it, and the server learns who came.
func Example() {
	key := netcode.GenerateKey() // known to backend and servers

	ln, err := netcode.Listen("udp", "127.0.0.1:0", key, 7)
	if err != nil {
		log.Fatal(err)
	}
	defer ln.Close()

	backend := netcode.Issuer{
		PrivateKey: key,
		ProtocolID: 7,
		Servers:    []netip.AddrPort{netip.MustParseAddrPort(ln.Addr().String())},
	}
	token, err := backend.Issue(42, []byte("blue"))
	if err != nil {
		log.Fatal(err)
	}

	client, err := netcode.Dial(token)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	client.Write([]byte("hello"))

	server, err := ln.AcceptConn(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	b := make([]byte, netcode.MaxMessageSize)
	n, err := server.Read(b)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("client %d of team %s says %s\n", server.ClientID(), server.UserData()[:4], b[:n])
	// Output: client 42 of team blue says hello
}

// A server that is to stop waits for the clients that play, and then tells those
// who are left.
func ExampleListener_Shutdown() {
	key := netcode.GenerateKey()
	ln, err := netcode.Listen("udp", "127.0.0.1:0", key, 0)
	if err != nil {
		log.Fatal(err)
	}
	client, err := new(netcode.Dialer).DialWithKey(context.Background(), ln.Addr().String(), key, 0, 1)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	server, err := ln.AcceptConn(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()

	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	err = ln.Shutdown(ctx)
	fmt.Println(errors.Is(err, context.DeadlineExceeded))
	_, err = client.Read(make([]byte, netcode.MaxMessageSize))
	fmt.Println(err)
	// Output:
	// true
	// EOF
}

// Messages of any size, with acknowledgements, over sessions.
func Example_messages() {
	key := netcode.GenerateKey()
	inner, err := netcode.Listen("udp", "127.0.0.1:0", key, 0)
	if err != nil {
		log.Fatal(err)
	}
	ln, err := volley.NewListener(inner, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer ln.Close()

	session, err := new(netcode.Dialer).DialWithKey(context.Background(), ln.Addr().String(), key, 0, 1)
	if err != nil {
		log.Fatal(err)
	}
	client, err := volley.NewConn(session, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	client.Write(make([]byte, 10_000)) // in ten fragments

	server, err := ln.Accept()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	b := make([]byte, 16384)
	n, err := server.Read(b)
	fmt.Println(n, err)
	// Output: 10000 <nil>
}

// Who the peer of a connection on top of a session is.
func ExampleConn_ClientID() {
	key := netcode.GenerateKey()
	sessions, err := netcode.Listen("udp", "127.0.0.1:0", key, 7)
	if err != nil {
		log.Fatal(err)
	}
	ln, err := volley.NewListener(sessions, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer ln.Close()

	backend := netcode.Issuer{
		PrivateKey: key,
		ProtocolID: 7,
		Servers:    []netip.AddrPort{netip.MustParseAddrPort(ln.Addr().String())},
	}
	token, err := backend.Issue(42, []byte("blue"))
	if err != nil {
		log.Fatal(err)
	}
	client, err := netcode.Dial(token)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	c, err := ln.Accept()
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	session := c.(*volley.Conn).NetConn().(*netcode.Conn)
	fmt.Printf("client %d of team %s\n", session.ClientID(), session.UserData()[:4])
	// Output: client 42 of team blue
}

// Everybody who has a session, and how much waits to be read.
func ExampleListener_Conns() {
	key := netcode.GenerateKey()
	ln, err := netcode.Listen("udp", "127.0.0.1:0", key, 0)
	if err != nil {
		log.Fatal(err)
	}
	defer ln.Close()
	for id := range uint64(3) {
		client, err := new(netcode.Dialer).DialWithKey(context.Background(), ln.Addr().String(), key, 0, id)
		if err != nil {
			log.Fatal(err)
		}
		defer client.Close()
		session, err := ln.AcceptConn(context.Background())
		if err != nil {
			log.Fatal(err)
		}
		defer session.Close()
	}
	for c := range ln.Conns() {
		fmt.Println("client", c.ClientID())
	}
	// Unordered output:
	// client 0
	// client 1
	// client 2
}

// What a token says to everybody, and to those who have the private key.
func ExampleToken() {
	key := netcode.GenerateKey()
	issuer := netcode.Issuer{
		PrivateKey:      key,
		ProtocolID:      7,
		Servers:         []netip.AddrPort{netip.MustParseAddrPort("203.0.113.5:7777")},
		InternalServers: []netip.AddrPort{netip.MustParseAddrPort("10.0.0.5:7777")},
		Lifetime:        45 * time.Second,
	}
	token, err := issuer.Issue(42, nil)
	if err != nil {
		log.Fatal(err)
	}
	b, _ := token.MarshalBinary() // over HTTPS to the client, for instance
	token = new(netcode.Token)
	if err := token.UnmarshalBinary(b); err != nil {
		log.Fatal(err)
	}
	info := token.Info()
	fmt.Println(len(b), info.ProtocolID, info.Servers, info.Expires.Sub(info.Created))

	claims, err := token.Claims(key)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(claims.ClientID, claims.Servers, claims.Timeout)
	// Output:
	// 2048 7 [203.0.113.5:7777] 45s
	// 42 [10.0.0.5:7777] 10s
}

// A session in memory, for tests.
func ExamplePipe() {
	client, server := netcode.Pipe(42, nil)
	go func() {
		client.Write([]byte("one"))
		client.Write([]byte("two"))
		client.Close()
	}()
	for {
		b, err := server.ReadMessage(context.Background(), nil)
		if err == io.EOF {
			break
		}
		fmt.Printf("%s from client %d\n", b, server.ClientID())
	}
	// Output:
	// one from client 42
	// two from client 42
}

// Why datagrams were dropped, by reason.
func ExampleListener_Stats() {
	ln, err := netcode.Listen("udp", "127.0.0.1:0", netcode.GenerateKey(), 0)
	if err != nil {
		log.Fatal(err)
	}
	defer ln.Close()
	s := ln.Stats()
	for reason, n := range s.Drops {
		fmt.Println(reason, n)
	}
	fmt.Println(s.Conns, s.Drops["token_expired"])
	// Output: 0 0
}
