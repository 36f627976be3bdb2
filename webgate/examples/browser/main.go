// Command browser is a room in which native players and browsers move about together.
//
//	go -C webgate run ./examples/browser
//	go -C webgate run ./examples/browser -join 127.0.0.1:7777
//
// The first command is the server: open the page that it prints. The second is a native
// player, who walks in a circle.
package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"math"
	"net"
	"net/http"
	"os"
	"os/signal"
	"time"

	"volley"
	"volley/webgate"
)

func main() {
	log.SetFlags(0)
	native := flag.String("listen", "127.0.0.1:7777", "`address` for native players, UDP")
	web := flag.String("web", "127.0.0.1:7443", "`address` for browsers, UDP and TCP")
	page := flag.String("page", "localhost:8080", "`address` of the page")
	join := flag.String("join", "", "be a native player at the server with this `address`")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the program at once

	var err error
	if *join != "" {
		err = walk(ctx, *join, os.Stdout)
	} else {
		err = serve(ctx, *native, *web, *page)
	}
	if err != nil {
		log.Fatal(err)
	}
}

// serve runs the room until ctx is done.
func serve(ctx context.Context, native, web, page string) error {
	ln, err := volley.Listen("udp", native)
	if err != nil {
		return err
	}
	defer ln.Close()
	pages, err := net.Listen("tcp", page)
	if err != nil {
		return err
	}
	defer pages.Close()
	cert, hash, err := webgate.DevCertificate() // for development: browsers trust its hash
	if err != nil {
		return err
	}
	origin := "http://" + pages.Addr().String()
	gate, err := webgate.Listen(web, &webgate.Config{
		Certificate: cert,
		Origins:     []string{origin, "http://" + page},
	})
	if err != nil {
		return err
	}
	browsers, err := volley.NewListener(gate, nil)
	if err != nil {
		return err
	}
	defer browsers.Close()

	r := newRoom()
	go r.accept(ctx, ln)
	go r.accept(ctx, browsers) // a browser is a Conn like any other
	go http.Serve(pages, handler("https://"+gate.Addr().String()+"/join", hash))
	log.Printf("native players: %v", ln.Addr())
	log.Printf("page: %s", origin)
	r.run(ctx)
	return nil
}

//go:embed page.html
var pageHTML []byte

// handler serves the page, the client, and where the Gate is.
func handler(url, hash string) http.Handler {
	mux := http.NewServeMux()
	file := func(path, kind string, data []byte) {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			w.Write(data)
		})
	}
	gate, _ := json.Marshal(map[string]string{"url": url, "certificateHash": hash})
	file("/{$}", "text/html; charset=utf-8", pageHTML)
	file("/volley.js", "text/javascript", webgate.Script())
	file("/gate.json", "application/json", gate)
	return mux
}

// walk is a native player, who tells how many others there are.
func walk(ctx context.Context, address string, out io.Writer) error {
	c, err := volley.Dial("udp", address)
	if err != nil {
		return err
	}
	defer c.Close()
	go func() {
		begin := time.Now()
		for tick := time.NewTicker(tickTime); ctx.Err() == nil; <-tick.C {
			sin, cos := math.Sincos(time.Since(begin).Seconds())
			if _, err := c.Write(place{0.5 + 0.35*cos, 0.5 + 0.35*sin}.append(nil)); err != nil {
				return
			}
		}
	}()
	others := -1
	for {
		m, err := c.ReadMessage(ctx, nil)
		if ctx.Err() != nil || errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if n := countPlayers(m) - 1; n != others {
			others = n
			fmt.Fprintf(out, "%d others\n", n)
		}
	}
}
