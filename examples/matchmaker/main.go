// Command matchmaker shows a deployment of secure sessions in one process: a
// matchmaker that hands out connect tokens over HTTP, a game server that admits
// who has one, and players. All of it runs on loopback.
//
//	go run ./examples/matchmaker
//	go run ./examples/matchmaker -players 20
//
// Or each part by itself, with a key that the first two share:
//
//	export MATCHMAKER_KEY=$(openssl rand -hex 32)
//	go run ./examples/matchmaker -role server -game 127.0.0.1:7777
//	go run ./examples/matchmaker -role matchmaker -game 127.0.0.1:7777 -http 127.0.0.1:8080
//	go run ./examples/matchmaker -role player -http 127.0.0.1:8080 -name ada
//
// The game: guess the server's number. In earnest the matchmaker would know its
// users and be reached by HTTPS only, since tokens hold the keys of sessions.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/signal"
	"sync"

	"volley/netcode"
)

// protocolID tells versions of the game apart. Change it with every one that
// cannot talk to the one before.
const protocolID = 0x67756573_00000001

// options are what the command line says.
type options struct {
	role, game, http, name string
	players                int
	key                    netcode.Key
}

func main() {
	log.SetFlags(0)
	var o options
	flag.StringVar(&o.role, "role", "all", "`part` to play: all, server, matchmaker or player")
	flag.StringVar(&o.game, "game", "127.0.0.1:0", "UDP `address` of the game server")
	flag.StringVar(&o.http, "http", "127.0.0.1:0", "HTTP `address` of the matchmaker")
	flag.StringVar(&o.name, "name", "player", "`name` of the player")
	flag.IntVar(&o.players, "players", 3, "`number` of players, 1 or more, with -role all")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, &o); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, o *options) (err error) {
	if o.key, err = privateKey(o.role); err != nil {
		return err
	}
	switch o.role {
	case "all":
		return runAll(ctx, o)
	case "server":
		ln, err := listen(o.game, o.key, defaultClients)
		if err != nil {
			return err
		}
		return newGame().serve(ctx, ln)
	case "matchmaker":
		server, err := netip.ParseAddrPort(o.game)
		if err != nil {
			return err
		}
		return serveHTTP(ctx, o.http, newMatchmaker(o.key, server))
	case "player":
		guesses, err := play(ctx, "http://"+o.http, o.name)
		if err == nil {
			log.Printf("%s: right after %d guesses", o.name, guesses)
		}
		return err
	}
	return fmt.Errorf("no role is called %q", o.role)
}

// privateKey returns the key that matchmaker and server share. A process that
// is both makes its own; a player has none.
func privateKey(role string) (netcode.Key, error) {
	switch role {
	case "all":
		return netcode.GenerateKey(), nil
	case "server", "matchmaker":
	default:
		return netcode.Key{}, nil
	}
	key, err := netcode.ParseKey(os.Getenv("MATCHMAKER_KEY"))
	if err != nil {
		return key, fmt.Errorf("environment variable MATCHMAKER_KEY: %w", err)
	}
	return key, nil
}

// runAll plays a round with every part in this process.
func runAll(ctx context.Context, o *options) error {
	if o.players < 1 {
		return fmt.Errorf("-players must be at least 1, not %d", o.players)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ln, err := listen(o.game, o.key, max(defaultClients, o.players))
	if err != nil {
		return err
	}
	web, err := net.Listen("tcp", o.http)
	if err != nil {
		ln.Close()
		return err
	}
	var parts, players sync.WaitGroup
	parts.Go(func() { newGame().serve(ctx, ln) })
	server := netip.MustParseAddrPort(ln.Addr().String())
	parts.Go(func() { serveListener(ctx, web, newMatchmaker(o.key, server)) })
	log.Printf("game server on %v, matchmaker on http://%v", ln.Addr(), web.Addr())

	errs := make([]error, o.players)
	for i := range errs {
		players.Go(func() {
			name := fmt.Sprintf("player%d", i+1)
			var guesses int
			if guesses, errs[i] = play(ctx, "http://"+web.Addr().String(), name); errs[i] == nil {
				log.Printf("%s: right after %d guesses", name, guesses)
			}
		})
	}
	players.Wait()
	cancel()
	parts.Wait()
	return errors.Join(errs...)
}

// serveHTTP serves the matchmaker until ctx is done.
func serveHTTP(ctx context.Context, address string, h http.Handler) error {
	web, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	log.Printf("matchmaker on http://%v", web.Addr())
	return serveListener(ctx, web, h)
}
