// Command rendezvous connects two programs behind firewalls. Both ask a server
// that they can reach for the other's public address. Then they dial each other at
// the same time, each from the socket from which it has asked. The first datagrams
// of each open the way for the other's (hole punching).
//
//	go run ./examples/rendezvous -listen :7777              # the server
//	go run ./examples/rendezvous -room blue host:7777       # twice, anywhere
//
// The two then talk to each other directly: each says the lines of its standard
// input.
package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"sync"
	"time"

	"volley/porous"
)

// usage shows how to run the program.
func usage() {
	fmt.Fprint(flag.CommandLine.Output(), `usage:
  rendezvous -listen :7777         # the server
  rendezvous -room blue host:7777  # twice, anywhere

`)
	flag.PrintDefaults()
}

func main() {
	log.SetFlags(0)
	listen := flag.String("listen", "", "be the server, on this `address`")
	room := flag.String("room", "", "where the two meet: any `name`")
	flag.Usage = usage
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	context.AfterFunc(ctx, stop)

	var err error
	switch {
	case *listen != "":
		var l *porous.Listener
		if l, err = porous.Listen("udp", *listen); err == nil {
			log.Printf("listening on %v", l.Addr())
			err = serve(ctx, l)
		}
	case *room != "" && flag.NArg() == 1:
		var c *porous.Conn
		if c, err = meet(ctx, ":0", flag.Arg(0), *room); err == nil {
			log.Printf("connected to %v", c.RemoteAddr())
			err = talk(c, os.Stdin, os.Stdout)
		}
	default:
		flag.Usage()
		os.Exit(2)
	}
	if err != nil {
		log.Fatal(err)
	}
}

// serve tells each two that name the same room the other's address, until ctx
// is done.
func serve(ctx context.Context, l *porous.Listener) error {
	defer l.Close()
	var mu sync.Mutex
	waiting := make(map[string]*porous.Conn) // by room
	for {
		c, err := l.AcceptConn(ctx)
		if err != nil {
			mu.Lock()
			defer mu.Unlock()
			for _, c := range waiting {
				c.Abort()
			}
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		go func() {
			room, err := c.ReadMessage(ctx, nil)
			if err != nil {
				c.Close()
				return
			}
			mu.Lock()
			other := waiting[string(room)]
			if other == nil {
				waiting[string(room)] = c
			} else {
				delete(waiting, string(room))
			}
			mu.Unlock()
			if other != nil {
				introduce(c, other)
			}
		}()
	}
}

// introduce tells two the addresses at which we see them.
func introduce(a, b *porous.Conn) {
	fmt.Fprint(a, b.RemoteAddr())
	fmt.Fprint(b, a.RemoteAddr())
	a.Close()
	b.Close()
}

// meet asks the server for the other one in the room, and connects to it, from
// one socket.
func meet(ctx context.Context, local, server, room string) (*porous.Conn, error) {
	l, err := porous.Listen("udp", local)
	if err != nil {
		return nil, err
	}
	defer l.Close() // connections live on
	s, err := l.Dial(ctx, server)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	fmt.Fprint(s, room)
	other, err := s.ReadMessage(ctx, nil) // when the other one has come
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	return l.Dial(ctx, string(other))
}

// talk says the lines of in, and writes what the other one says to out.
func talk(c *porous.Conn, in io.Reader, out io.Writer) error {
	go func() {
		defer c.Close()
		for lines := bufio.NewScanner(in); lines.Scan(); {
			if _, err := c.Write(lines.Bytes()); err != nil {
				return
			}
		}
	}()
	for {
		msg, err := c.ReadMessage(context.Background(), nil)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return c.Close()
		}
		fmt.Fprintf(out, "%s\n", msg)
	}
}
