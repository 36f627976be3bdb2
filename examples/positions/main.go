// Command positions is a server of moving players, of which only the newest position
// counts, and a swarm of players for it.
//
//	go run ./examples/positions -listen 127.0.0.1:7777 -debug localhost:6060
//	go run ./examples/positions -players 200 127.0.0.1:7777
//
// Players send their position 30 times a second. As often the server sends the
// positions of all players to all of them, in one pass over its socket. Both sides drop
// a message that a newer one has overtaken. The server prints a line of figures each
// second, and -debug serves all of them as a page.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"net/http"
	"os"
	"os/signal"
	"time"

	"volley"
	"volley/volleydebug"
)

// rate is how many messages a second go each way, for each player.
const rate = 30

func usage() {
	fmt.Fprint(flag.CommandLine.Output(), `Usage:
  positions -listen 127.0.0.1:7777
  positions -players 200 127.0.0.1:7777

`)
	flag.PrintDefaults()
}

func main() {
	log.SetFlags(0)
	listen := flag.String("listen", "", "serve on this `address`")
	debug := flag.String("debug", "", "serve the debug page on this `address`, such as localhost:6060")
	players := flag.Int("players", 1, "`number` of players that connect, 1 to 200")
	flag.Usage = usage
	flag.Parse()
	if *debug != "" {
		go func() { log.Fatal(http.ListenAndServe(*debug, volleydebug.Handler())) }()
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var err error
	switch {
	case *listen != "" && flag.NArg() == 0:
		err = listenAndServe(ctx, *listen)
	case *listen == "" && flag.NArg() == 1 && *players >= 1 && *players <= maxPlayers:
		err = swarm(ctx, *players, flag.Arg(0))
	default:
		usage()
		os.Exit(2)
	}
	if err != nil {
		log.Fatal(err)
	}
}

func listenAndServe(ctx context.Context, address string) error {
	lc := volley.ListenConfig{MaxConns: maxPlayers}
	ln, err := lc.Listen(ctx, "udp", address)
	if err != nil {
		return err
	}
	log.Printf("listening on %v; Ctrl-C ends", ln.Addr())
	return newWorld(ln).run(ctx, log.Printf)
}

// swarm runs players until ctx ends, and reports how they fared.
func swarm(ctx context.Context, players int, address string) error {
	seen := make(chan view, players)
	for n := range players {
		c, err := volley.Dial("udp", address)
		if err != nil {
			return err
		}
		go func() { seen <- play(ctx, c, float64(n)) }()
	}
	log.Printf("%d players move; Ctrl-C ends", players)
	var total view
	for range players {
		v := <-seen
		total.states += v.states
		total.late += v.late
		if v.err != nil && ctx.Err() == nil {
			total.err = v.err
		}
	}
	log.Printf("%d states of the world were used, and %d dropped, because a newer one had overtaken them", total.states, total.late)
	return total.err
}

// tick calls f rate times a second, until ctx ends.
func tick(ctx context.Context, f func()) {
	t := time.NewTicker(time.Second / rate)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			f()
		case <-ctx.Done():
			return
		}
	}
}
