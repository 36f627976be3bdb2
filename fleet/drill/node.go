package main

import (
	"bufio"
	"context"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"volley/fleet"
	"volley/fleet/internal/hook"
	"volley/internal/handover"
	"volley/netcode"
	"volley/secure"
)

// A status is what a node says of itself.
type status struct {
	URL, Cluster string
	Seats        map[string]uint64 // generations by session
	Stats        fleet.Stats
	Alive        int // other nodes
	Memory       uint64
	Err          string
}

// node is a process with a node. It answers each line of its standard input with one of JSON,
// and ends when the input does.
func node(args []string) {
	fs := flag.NewFlagSet("node", flag.ExitOnError)
	name := fs.String("name", "", "")
	key := fs.String("key", "", "")
	routes := fs.String("routes", "", "")
	cluster := fs.String("cluster", "", "")
	url := fs.String("url", "", "")
	listen := fs.String("listen", "127.0.0.1:0", "")
	fs.StringVar(&hook.Advertise, "advertise", "", "")
	fs.Parse(args)
	cfg := &fleet.Config{Name: *name, KeyFile: *key, Cluster: *cluster, Logger: slog.New(slog.NewTextHandler(os.Stderr, nil))}
	if *routes != "" {
		cfg.Routes = strings.Split(*routes, ",")
	}
	if *url != "" {
		cfg.URL = *url
		cfg.App, cfg.Control = []nats.Option{nats.UserInfo("app", "app")}, []nats.Option{nats.UserInfo("control", "control")}
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	n, err := fleet.Join(ctx, cfg)
	if err != nil {
		fail(err)
	}
	sessions := &netcode.ListenConfig{MaxClients: 20000}
	ln, err := n.Listen("udp", *listen, &secure.ListenConfig{Sessions: sessions})
	if err != nil {
		fail(err)
	}
	host, _, err := net.SplitHostPort(*listen)
	if err != nil {
		fail(err)
	}
	go ln.Serve(secure.Handler{Message: func(c *secure.Conn, msg []byte) { c.Write(msg) }})
	out := json.NewEncoder(os.Stdout)
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		s := status{URL: ln.URL(host), Cluster: text(n.Cluster())}
		switch in.Text() {
		case "seats":
			s.Seats = make(map[string]uint64)
			handover.Of(ln).Sessions(func(c handover.Session) {
				id, generation := c.ID()
				s.Seats[hex.EncodeToString(id[:])] = generation
			})
		case "memory":
			var m runtime.MemStats
			runtime.GC()
			runtime.GC()
			runtime.ReadMemStats(&m)
			s.Memory = m.HeapAlloc + m.StackInuse
		case "drain":
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			if err := n.Drain(ctx); err != nil {
				s.Err = err.Error()
			}
			cancel()
		}
		s.Stats = n.Stats()
		for _, p := range n.Peers() {
			if p.Alive {
				s.Alive++
			}
		}
		out.Encode(s)
	}
	ln.Close()
	n.Close()
}

func text(a net.Addr) string {
	if a == nil {
		return ""
	}
	return a.String()
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
