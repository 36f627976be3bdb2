// Command chat-netplay is a chat in the Netplay protocol: a server, and a client
// for the terminal. Messages and numbers are those of the Java library's sample
// chat, whose clients and servers it understands.
//
//	go run ./examples/chat-netplay -listen 127.0.0.1:8080
//	go run ./examples/chat-netplay -name ann 127.0.0.1:8080
//
// The client sends the lines of its standard input.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"time"

	"volley/netplay"
)

// A Login is the first message of a client.
type Login struct {
	Username string `netplay:"0"`
}

// A Notification is what the server has to say.
type Notification struct {
	Message string `netplay:"0"`
}

// A Chat is a line of somebody's. The server fills in who it is from.
type Chat struct {
	Sender  string `netplay:"0"`
	Message string `netplay:"1"`
}

// registry returns the messages of the chat by their numbers.
func registry() *netplay.Registry {
	reg := new(netplay.Registry)
	reg.MustAdd(0, Login{})
	reg.MustAdd(1, Notification{})
	reg.MustAdd(2, Chat{}, netplay.Compress(0))
	return reg
}

// usage shows how to run the program.
func usage() {
	fmt.Fprint(flag.CommandLine.Output(), `usage:
  chat-netplay -listen 127.0.0.1:8080    # the server
  chat-netplay -name ann 127.0.0.1:8080  # a client; sends the lines of its standard input

`)
	flag.PrintDefaults()
}

func main() {
	log.SetFlags(0)
	listen := flag.String("listen", "", "serve on this `address`")
	name := flag.String("name", "", "chat under this `name`")
	flag.Usage = usage
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the program at once

	var err error
	switch {
	case *listen != "":
		var ln net.Listener
		if ln, err = net.Listen("tcp", *listen); err == nil {
			err = serve(ctx, ln, slog.Default())
		}
	case flag.NArg() == 1 && *name != "":
		err = chat(ctx, flag.Arg(0), *name, os.Stdin, os.Stdout)
	default:
		flag.Usage()
		os.Exit(2)
	}
	if err != nil {
		log.Fatal(err)
	}
}

// grace is how long a server that was told to stop waits for its clients.
const grace = 5 * time.Second
