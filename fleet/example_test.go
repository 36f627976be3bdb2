package fleet_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	"github.com/nats-io/nats.go"

	"volley/fleet"
	"volley/secure"
)

// Two nodes, which would be on two machines. The first one drains, as on SIGTERM, and its client
// goes on at the other one.
func Example() {
	dir, err := os.MkdirTemp("", "fleet-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	key := filepath.Join(dir, "fleet.key") // the same file on all machines
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	join := func(name string, routes ...string) (*fleet.Node, *secure.Listener) {
		node, err := fleet.Join(ctx, &fleet.Config{Name: name, KeyFile: key, Routes: routes})
		if err != nil {
			log.Fatal(err)
		}
		ln, err := node.Listen("udp", "127.0.0.1:0", nil)
		if err != nil {
			log.Fatal(err)
		}
		go ln.Serve(secure.Handler{Message: func(c *secure.Conn, msg []byte) { fmt.Fprintf(c, "%s heard %s", name, msg) }})
		return node, ln
	}
	eu1, ln1 := join("eu-1")
	eu2, ln2 := join("eu-2", eu1.Cluster().String())
	defer eu2.Close()
	defer ln2.Close()

	c, err := secure.Dial(ctx, ln1.URL("127.0.0.1"))
	if err != nil {
		log.Fatal(err)
	}
	ask := func(text string) {
		fmt.Fprint(c, text)
		answer, err := c.ReadMessage(ctx, nil)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(string(answer))
	}
	ask("hello")
	for eu1.Stats().Spared == 0 { // the nodes find each other
		time.Sleep(10 * time.Millisecond)
	}
	if err := eu1.Drain(ctx); err != nil {
		log.Fatal(err)
	}
	ln1.Close()
	eu1.Close()
	if c, err = c.Next(ctx); err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	ask("hello again")
	// Output:
	// eu-1 heard hello
	// eu-2 heard hello again
}

// Nodes tell each other of the game by subjects of NATS.
func ExampleNode_NATS() {
	dir, err := os.MkdirTemp("", "fleet-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	node, err := fleet.Join(context.Background(), &fleet.Config{Name: "eu-1", KeyFile: filepath.Join(dir, "fleet.key")})
	if err != nil {
		log.Fatal(err)
	}
	defer node.Close()
	heard := make(chan string)
	_, err = node.NATS().Subscribe("room.*", func(m *nats.Msg) { heard <- m.Subject + ": " + string(m.Data) })
	if err != nil {
		log.Fatal(err)
	}
	if err := node.NATS().Publish("room.tea", []byte("hello")); err != nil { // at any node
		log.Fatal(err)
	}
	fmt.Println(<-heard)
	// Output: room.tea: hello
}
