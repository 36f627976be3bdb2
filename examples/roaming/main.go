// Command roaming shows sessions that survive: a client that talks while its
// address changes, and while its server is restarted.
//
//	go run ./examples/roaming                   # all in one process, in a few seconds
//	go run ./examples/roaming -listen :7777     # a server, which prints its URL
//	go run ./examples/roaming URL               # a client of it
//
// Take the client from Wi-Fi to mobile data, or stop and start the server, by Ctrl-C or
// by kill -9. The client says what it notices.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"time"

	"volley/secure"
)

func main() {
	log.SetFlags(0)
	listen := flag.String("listen", "", "serve at this `address`")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var err error
	switch {
	case *listen != "":
		err = serve(ctx, *listen)
	case flag.NArg() == 1:
		err = (&client{out: os.Stdout}).roam(ctx, flag.Arg(0))
	default:
		err = demo(ctx, "127.0.0.1:7777", os.Stdout)
	}
	if err != nil && ctx.Err() == nil {
		log.Fatal(err)
	}
}

// serve runs a server until ctx ends. Then it tells its clients to come back, as before a restart.
func serve(ctx context.Context, address string) error {
	s, err := start(&secure.ListenConfig{KeyFile: "server.key"}, address)
	if err != nil {
		return err
	}
	fmt.Println(s.URL("localhost"))
	<-ctx.Done()
	s.stop()
	return nil
}

// A server tells each client the address from which its messages come.
type server struct {
	*secure.Listener
	served chan error
}

func start(lc *secure.ListenConfig, address string) (*server, error) {
	ln, err := lc.Listen(context.Background(), "udp", address)
	if err != nil {
		return nil, err
	}
	s := &server{ln, make(chan error, 1)}
	go func() {
		s.served <- ln.Serve(secure.Handler{Message: func(c *secure.Conn, _ []byte) {
			c.Write([]byte(c.RemoteAddr().String()))
		}})
	}()
	return s, nil
}

// stop sends the clients away, so that they dial their URL again, and ends the server.
func (s *server) stop() {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	s.Drain(ctx, "", nil) // the error says that not all have answered in time
	s.Close()
	<-s.served
}

// A client asks ten times a second where it is, and prints what has changed.
type client struct {
	out  io.Writer
	last time.Time     // when it heard the server
	seen chan struct{} // gets a value after ten answers to each address; nil: nobody wants to know
}

// roam keeps a session until ctx ends, or the server refuses it.
func (cl *client) roam(ctx context.Context, url string) error {
	c, err := secure.Dial(ctx, url)
	for err == nil {
		stop := context.AfterFunc(ctx, func() { c.Close() })
		cl.talk(c)
		stop()
		if ctx.Err() != nil {
			break
		}
		fmt.Fprintf(cl.out, "the session is over: %v\n", c.Err())
		c, err = c.Next(ctx)
	}
	return err
}

// talk asks and listens until the session is over.
func (cl *client) talk(c *secure.Conn) {
	defer c.Close()
	go func() {
		for ask := time.NewTicker(100 * time.Millisecond); ; {
			c.Write([]byte("where am I?")) // without a connection, it is lost
			select {
			case <-ask.C:
			case <-c.Done():
				ask.Stop()
				return
			}
		}
	}()
	where, answers := "", 0
	b := make([]byte, c.MaxMessageSize())
	for {
		n, err := c.Read(b)
		if err != nil {
			return
		}
		now := time.Now()
		if string(b[:n]) != where {
			where, answers = string(b[:n]), 0
			fmt.Fprintf(cl.out, "the server sees %s\n", where)
			if !cl.last.IsZero() {
				fmt.Fprintf(cl.out, "  after %v of silence; moves of this session: %d\n", now.Sub(cl.last).Round(time.Millisecond), c.Stats().Moves)
			}
		}
		if answers++; answers == 10 && cl.seen != nil {
			cl.seen <- struct{}{}
		}
		cl.last = now
	}
}
