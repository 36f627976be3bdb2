package secure_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"

	"volley/secure"
)

// The server prints a URL, and a client that has it opens a session.
func Example() {
	ln, err := secure.Listen("udp", "127.0.0.1:0", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer ln.Close()
	go func() {
		c, err := ln.AcceptConn(context.Background())
		if err != nil {
			return
		}
		msg, _ := c.ReadMessage(context.Background(), nil)
		c.Write(append([]byte("hello, "), msg...))
	}()

	c, err := secure.Dial(context.Background(), ln.URL("127.0.0.1"))
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	c.Write([]byte("player one"))
	msg, err := c.ReadMessage(context.Background(), nil)
	fmt.Println(string(msg), err)
	// Output: hello, player one <nil>
}

// Authorize decides about each client by its HTTP request, and its errors reach the client.
func ExampleListenConfig_authorize() {
	ln, err := secure.Listen("udp", "127.0.0.1:0", &secure.ListenConfig{
		Authorize: func(r *http.Request) (*secure.Grant, error) {
			if r.Header.Get("Authorization") != "Bearer 4711" {
				return nil, errors.New("please log in")
			}
			return &secure.Grant{ClientID: 1, Identity: []byte("ada")}, nil
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer ln.Close()

	_, err = secure.Dial(context.Background(), ln.URL("127.0.0.1"))
	fmt.Println(err)

	d := secure.Dialer{Header: http.Header{"Authorization": {"Bearer 4711"}}}
	c, err := d.Dial(context.Background(), ln.URL("127.0.0.1"))
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	s, err := ln.AcceptConn(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(s.ClientID(), string(s.Identity()))
	// Output:
	// secure: the server refuses the client: please log in
	// 1 ada
}

// A backend authorizes the clients, and asks the game servers for tokens.
func ExampleTokenHandler() {
	const secret = "of the backend and its game servers"
	ln, err := secure.Listen("udp", "127.0.0.1:0", &secure.ListenConfig{Backend: secret})
	if err != nil {
		log.Fatal(err)
	}
	defer ln.Close()
	http.Handle("/join", &secure.TokenHandler{
		Servers: []string{ln.URL("127.0.0.1")},
		Backend: secret,
		Authorize: func(*http.Request) (*secure.Grant, error) {
			return &secure.Grant{ClientID: 1}, nil
		},
	})
	// Serve it with http.ListenAndServeTLS. Clients dial "https://play.example/join".
}
