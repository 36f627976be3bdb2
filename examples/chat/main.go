// Command chat is a chat room in which everybody also wanders about: what is
// said travels on a reliable channel, positions on an unreliable one that goes
// ahead of it.
//
//	go run ./examples/chat -listen 127.0.0.1:7777
//	go run ./examples/chat -name ann 127.0.0.1:7777
//
// The client says the lines of its standard input.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"

	"volley/porous"
)

// The channels. Both sides must agree on them.
const (
	talk     = 0 // lines of text, reliable
	position = 1 // where somebody is, unreliable and of high priority
)

// config is that of both sides.
func config() *porous.Config { return &porous.Config{Channels: 2, MaxMessageSize: 4096} }

// usage shows how to run the program.
func usage() {
	fmt.Fprint(flag.CommandLine.Output(), `usage:
  chat -listen 127.0.0.1:7777    # the room
  chat -name ann 127.0.0.1:7777  # a visitor; says the lines of its standard input

`)
	flag.PrintDefaults()
}

func main() {
	log.SetFlags(0)
	listen := flag.String("listen", "", "be the room, on this `address`")
	name := flag.String("name", "guest", "who you are")
	flag.Usage = usage
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the program at once

	var err error
	switch {
	case *listen != "":
		var l *porous.Listener
		lc := porous.ListenConfig{Config: config()}
		if l, err = lc.Listen(ctx, "udp", *listen); err == nil {
			log.Printf("the room is open on %v", l.Addr())
			err = serve(ctx, l)
		}
	case flag.NArg() == 1:
		err = visit(ctx, flag.Arg(0), *name, os.Stdin, os.Stdout)
	default:
		flag.Usage()
		os.Exit(2)
	}
	if err != nil {
		log.Fatal(err)
	}
}
