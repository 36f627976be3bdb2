// Command echo is a server that sends every message back, and a client that
// sends it lines and tells how long they took.
//
//	go run ./examples/echo -listen 127.0.0.1:7777
//	go run ./examples/echo 127.0.0.1:7777
//
// The client sends the lines of its standard input, one message each.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"os/signal"
	"sync"
	"time"

	"volley"
)

// usage shows how to run the program.
func usage() {
	fmt.Fprint(flag.CommandLine.Output(), `usage:
  echo -listen 127.0.0.1:7777  # the server
  echo 127.0.0.1:7777          # a client; sends the lines of its standard input

`)
	flag.PrintDefaults()
}

func main() {
	log.SetFlags(0)
	listen := flag.String("listen", "", "serve on this `address`")
	flag.Usage = usage
	flag.Parse()

	var err error
	switch {
	case *listen != "":
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
		context.AfterFunc(ctx, stop) // a second Ctrl-C ends the program at once
		var ln *volley.Listener
		if ln, err = volley.Listen("udp", *listen); err == nil {
			log.Printf("listening on %v", ln.Addr())
			err = serve(ctx, ln)
		}
	case flag.NArg() == 1:
		err = send(flag.Arg(0), os.Stdin, os.Stdout, time.Second)
	default:
		flag.Usage()
		os.Exit(2)
	}
	if err != nil {
		log.Fatal(err)
	}
}

// grace is how long clients are still answered after the server was told to
// stop.
const grace = 100 * time.Millisecond

// serve echoes on every connection until ctx is done. Then it takes no new
// client, and returns when those it has were answered and their connections
// are closed.
func serve(ctx context.Context, ln *volley.Listener) error {
	var clients sync.WaitGroup
	defer clients.Wait()
	defer context.AfterFunc(ctx, func() { ln.Close() })()
	defer ln.Close()
	for {
		c, err := ln.AcceptConn(context.Background())
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return err
		}
		clients.Go(func() { echo(ctx, c) })
	}
}

// echo sends back what it reads, until the connection ends: a client that has
// gone is noticed by its silence. Once ctx is done it ends with a read deadline,
// and not at once by Close, which drops what has arrived.
func echo(ctx context.Context, c *volley.Conn) {
	defer c.Close()
	defer context.AfterFunc(ctx, func() { c.SetReadDeadline(time.Now().Add(grace)) })()
	var msg []byte
	for {
		var err error
		if msg, err = c.ReadMessage(context.Background(), msg[:0]); err != nil {
			return
		}
		if _, err := c.Write(msg); err != nil {
			return
		}
	}
}

// send sends the lines of in to the server at address and prints the answers.
// A line or its answer may get lost: when its patience is over send gives up on it.
// (An answer later than that would pass for the next one; examples/losstest numbers
// its questions.)
func send(address string, in io.Reader, out io.Writer, patience time.Duration) error {
	c, err := volley.Dial("udp", address)
	if err != nil {
		return err
	}
	defer c.Close()

	buf := make([]byte, c.MaxMessageSize())
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		if len(lines.Bytes()) == 0 {
			continue // an empty message would not be sent
		}
		start := time.Now()
		if _, err := c.Write(lines.Bytes()); err != nil {
			return err
		}
		c.SetReadDeadline(start.Add(patience))
		n, err := c.Read(buf)
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			fmt.Fprintf(out, "no answer to %q\n", lines.Text())
		case err != nil:
			return err
		default:
			fmt.Fprintf(out, "%s (%v)\n", buf[:n], time.Since(start).Round(time.Microsecond))
		}
	}
	s := c.Stats()
	fmt.Fprintf(out, "sent %d, acknowledged %d, received %d, RTT %v, loss %.1f %%\n",
		s.MessagesSent, s.MessagesDelivered, s.MessagesReceived, s.RTT.Round(time.Microsecond), 100*s.Loss)
	return lines.Err()
}
