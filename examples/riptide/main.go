// Command riptide is a server that a Unity client with the stock Riptide
// library can join, a client for the terminal, and a swarm of bots.
//
//	go run ./examples/riptide -listen 127.0.0.1:7777           # the server, UDP and TCP
//	go run ./examples/riptide -name ada 127.0.0.1:7777         # a client; lines become chat
//	go run ./examples/riptide -bots 50 -for 10s 127.0.0.1:7777 # fifty players that walk in circles
//
// Messages, by id:
//
//	1  client to server, reliable     string name
//	   server to clients, reliable    ushort player, string name
//	2  client to server, unreliable   Vector3 position
//	   server to clients, unreliable  ushort player, Vector3 position
//	3  anybody to all others          string line; relayed by the server
//
// A connect carries the string "arena 1"; others are turned away, with a reason
// in a string.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"log/slog"
	"os"
	"os/signal"
	"time"
)

const (
	idName     = 1
	idPosition = 2
	idChat     = 3

	version = "arena 1"
)

// usage shows how to run the program.
func usage() {
	fmt.Fprint(flag.CommandLine.Output(), `usage:
  riptide -listen 127.0.0.1:7777            # the server, UDP and TCP
  riptide -name ada 127.0.0.1:7777          # a client; lines become chat
  riptide -bots 50 -for 10s 127.0.0.1:7777  # fifty players that walk in circles

`)
	flag.PrintDefaults()
}

func main() {
	log.SetFlags(0)
	listen := flag.String("listen", "", "serve on this `address`")
	name := flag.String("name", "gopher", "play under this `name`")
	bots := flag.Int("bots", 0, "let so many bots play")
	duration := flag.Duration("for", 0, "let bots play for so long; 0: until interrupted")
	network := flag.String("network", "udp", "connect over udp or tcp")
	flag.Usage = usage
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the program at once
	var err error
	switch {
	case *listen != "":
		err = serve(ctx, *listen, slog.Default())
	case flag.NArg() != 1:
		flag.Usage()
		os.Exit(2)
	case *bots > 0:
		err = swarm(ctx, *network, flag.Arg(0), *bots, *duration, os.Stdout)
	default:
		err = play(ctx, *network, flag.Arg(0), *name, os.Stdin, os.Stdout)
	}
	if err != nil {
		log.Fatal(err)
	}
}

// shutdownTime is how long clients are given to learn that the server stops.
const shutdownTime = 10 * time.Second
