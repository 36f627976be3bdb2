// Command chat is a chat with rooms over a fleet of three processes. The first command starts
// them, and restarts one after the other every ten seconds; the second one, on another terminal,
// is a visitor, who notices nothing of that:
//
//	go run ./fleet/examples/chat -restart 10s
//	go run ./fleet/examples/chat -room tea -name ann URL
//
// A visitor says the lines of its standard input.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"

	"volley/fleet"
	"volley/porous"
	"volley/secure"
)

func main() {
	log.SetFlags(0)
	restart := flag.Duration("restart", 0, "restart the nodes one by one, each after so long; 0: never")
	room := flag.String("room", "lobby", "the room of a visitor")
	name := flag.String("name", "guest", "the name of a visitor")
	node := flag.Int("node", 0, "be this node of the three; 0: start all")
	key := flag.String("key", filepath.Join(os.TempDir(), "volley-chat.key"), "the file of the fleet's key")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error
	switch {
	case flag.NArg() == 1:
		err = visit(ctx, flag.Arg(0), *room, *name, os.Stdin, os.Stdout)
	case *node > 0:
		err = serve(ctx, *node, *key, os.Stdin, func(url string) { log.Printf("node-%d: %s", *node, url) })
	default:
		err = supervise(ctx, *restart, *key)
	}
	if err != nil && ctx.Err() == nil {
		log.Fatal(err)
	}
}

const size = 3 // nodes

// Where the nodes hear each other, and visitors.
var (
	clusters  = [size]string{"127.0.0.1:6221", "127.0.0.1:6222", "127.0.0.1:6223"}
	addresses = [size]string{"127.0.0.1:7771", "127.0.0.1:7772", "127.0.0.1:7773"}
)

// supervise starts the nodes, and restarts them.
func supervise(ctx context.Context, restart time.Duration, key string) error {
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	start := func(node int) (stop func()) {
		cmd := exec.Command(exe, "-node", fmt.Sprint(node), "-key", key)
		in, err := cmd.StdinPipe() // a node drains and ends when its input does
		if err != nil {
			log.Fatal(err)
		}
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		if err := cmd.Start(); err != nil {
			log.Fatal(err)
		}
		return func() {
			in.Close()
			cmd.Wait()
		}
	}
	var stops [size]func()
	for i := range stops {
		stops[i] = start(i + 1)
		time.Sleep(200 * time.Millisecond) // the first one makes the key
	}
	defer func() {
		for _, stop := range stops {
			stop()
		}
	}()
	for i := 0; restart > 0; i = (i + 1) % size {
		select {
		case <-time.After(restart):
			stops[i]()
			stops[i] = start(i + 1)
		case <-ctx.Done():
			return nil
		}
	}
	<-ctx.Done()
	return nil
}

// serve is a node until the end of its input. It tells the URL for visitors once it is ready.
func serve(ctx context.Context, number int, key string, in io.Reader, ready func(url string)) error {
	cfg := &fleet.Config{
		Name:    fmt.Sprintf("node-%d", number),
		KeyFile: key,
		Cluster: clusters[number-1],
		Routes:  clusters[:],
		Logger:  slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
	}
	node, err := fleet.Join(ctx, cfg)
	if err != nil {
		return err
	}
	defer node.Close()
	ln, err := node.Listen("udp", addresses[number-1], nil)
	if err != nil {
		return err
	}
	pl, err := porous.NewListener(ln, nil)
	if err != nil {
		return err
	}
	ready(ln.URL("127.0.0.1"))
	var visitors sync.WaitGroup
	visitors.Go(func() {
		for {
			c, err := pl.AcceptConn(context.Background())
			if err != nil {
				return
			}
			visitors.Go(func() { host(node.NATS(), c) })
		}
	})
	io.Copy(io.Discard, in)
	drain, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	err = node.Drain(drain)
	pl.Close()
	visitors.Wait()
	return err
}

// host has a visitor hear a room, and the room hear the visitor. The first message is the room's
// name.
func host(rooms *nats.Conn, c *porous.Conn) {
	defer c.Abort()
	room, err := c.ReadMessage(context.Background(), nil)
	if err != nil {
		return
	}
	subject := "room." + strings.Map(func(r rune) rune {
		if r < 'a' || r > 'z' {
			return '-'
		}
		return r
	}, string(room))
	sub, err := rooms.Subscribe(subject, func(m *nats.Msg) { c.Write(m.Data) })
	if err != nil {
		return
	}
	defer sub.Unsubscribe()
	for {
		line, err := c.ReadMessage(context.Background(), nil)
		if err != nil {
			return
		}
		rooms.Publish(subject, line)
	}
}

// visit says the lines of in, and writes what the room says to out.
func visit(ctx context.Context, url, room, name string, in io.Reader, out io.Writer) error {
	lines := make(chan string)
	go func() {
		defer close(lines)
		for s := bufio.NewScanner(in); s.Scan(); {
			lines <- s.Text()
		}
	}()
	session, err := new(secure.Dialer).Redial(ctx, url)
	for err == nil {
		var c *porous.Conn
		if c, err = porous.NewConn(session, nil); err != nil {
			return err
		}
		if done := talk(ctx, c, room, name, lines, out); done {
			return c.Close() // which waits until all was heard
		}
		c.Abort()
		if session.Err() == nil {
			return errors.New("the room does not answer")
		}
		session, err = session.Next(ctx)
	}
	return err
}

// talk talks until the session ends, or the lines do.
func talk(ctx context.Context, c *porous.Conn, room, name string, lines <-chan string, out io.Writer) (done bool) {
	c.Write([]byte(room))
	over := make(chan struct{})
	go func() {
		defer close(over)
		for {
			line, err := c.ReadMessage(ctx, nil)
			if err != nil {
				return
			}
			fmt.Fprintf(out, "%s\n", line)
		}
	}()
	for {
		select {
		case line, ok := <-lines:
			if !ok {
				return true
			}
			fmt.Fprintf(c, "%s: %s", name, line)
		case <-over:
			return ctx.Err() != nil
		}
	}
}
