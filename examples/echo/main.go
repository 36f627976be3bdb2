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
	"time"

	"volley"
)

func main() {
	log.SetFlags(0)
	listen := flag.String("listen", "", "serve on this `address`")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()

	var err error
	switch {
	case *listen != "":
		var ln *volley.Listener
		if ln, err = volley.Listen("udp", *listen); err == nil {
			log.Printf("listening on %v", ln.Addr())
			err = serve(ctx, ln)
		}
	case flag.NArg() == 1:
		err = send(ctx, flag.Arg(0), os.Stdin, os.Stdout)
	default:
		flag.Usage()
		os.Exit(2)
	}
	if err != nil {
		log.Fatal(err)
	}
}

// serve echoes on every connection until ctx is done.
func serve(ctx context.Context, ln *volley.Listener) error {
	defer context.AfterFunc(ctx, func() { ln.Close() })()
	defer ln.Close()
	for {
		c, err := ln.AcceptConn()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return err
		}
		go echo(ctx, c)
	}
}

// echo sends back what it reads, until the connection ends: a client that has
// gone is noticed by its silence.
func echo(ctx context.Context, c *volley.Conn) {
	defer context.AfterFunc(ctx, func() { c.Close() })()
	defer c.Close()
	var msg []byte
	for {
		var err error
		if msg, err = c.ReadMessage(msg[:0]); err != nil {
			return
		}
		if _, err := c.Write(msg); err != nil {
			return
		}
	}
}

// send sends the lines of in to the server at address and prints the answers.
// A line or its answer may get lost: after a second send gives up on it. (An
// answer later than that would pass for the next one; examples/losstest numbers
// its questions.)
func send(ctx context.Context, address string, in io.Reader, out io.Writer) error {
	c, err := volley.Dial("udp", address)
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { c.Close() })()
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
		c.SetReadDeadline(start.Add(time.Second))
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
		s.MessagesSent, s.MessagesDelivered, s.MessagesReceived, s.RTT.Round(time.Microsecond), s.PacketLoss)
	return lines.Err()
}
