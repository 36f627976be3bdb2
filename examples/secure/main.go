// Command secure is a server that sends every message back over encrypted
// sessions, and a client that sends it the words of its command line.
//
//	go run ./examples/secure                          # prints the URL of the server
//	go run ./examples/secure URL hello encrypted world
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"

	"volley/secure"
)

func main() {
	if len(os.Args) > 1 {
		send(os.Args[1], os.Args[2:], os.Stdout)
		return
	}
	ln, err := secure.Listen("udp", ":7777", &secure.ListenConfig{KeyFile: "server.key"})
	check(err)
	fmt.Println(ln.URL("localhost"))
	check(serve(ln))
}

// serve sends back what comes. With volley.NewListener in front, and NewConn at the
// client, messages may be larger than a datagram, and have receipts.
func serve(ln *secure.Listener) error {
	for {
		c, err := ln.Accept()
		if err != nil {
			return err
		}
		go io.Copy(c, c) // one message after the other, until the session ends
	}
}

// send sends words to the server of a URL, and prints what comes back.
func send(url string, words []string, out io.Writer) {
	c, err := secure.Dial(context.Background(), url)
	check(err)
	defer c.Close()
	buf := make([]byte, c.MaxMessageSize())
	for _, word := range words {
		c.Write([]byte(word))
		n, err := c.Read(buf) // it waits for ever if one got lost; see examples/echo
		check(err)
		fmt.Fprintf(out, "%s\n", buf[:n])
	}
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
