// Command backend shows a backend that authorises players by a bearer token, with
// the game server apart. No key of the sessions leaves the game server.
//
//	export BACKEND_SECRET=$(openssl rand -hex 16)   # shared by the first two
//	backend server                                  # prints the URL for the second
//	backend backend URL cert.pem key.pem            # https://localhost:8443/join
//	backend player https://localhost:8443/join ada-secret
//
// The certificate of the backend is one that the players' machines trust.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"os"
	"strings"

	"volley/secure"
)

func main() {
	log.SetFlags(0)
	if err := run(os.Args[1:], os.Getenv("BACKEND_SECRET")); err != nil {
		log.Fatal(err)
	}
}

func run(args []string, secret string) error {
	switch {
	case len(args) > 0 && args[0] != "player" && secret == "":
		return errors.New("BACKEND_SECRET is not set, and without it everybody could join")
	case len(args) == 1 && args[0] == "server":
		ln, err := secure.Listen("udp", ":7777", &secure.ListenConfig{KeyFile: "server.key", Backend: secret})
		if err != nil {
			return err
		}
		fmt.Println(ln.URL("localhost"))
		return serve(ln)
	case len(args) == 4 && args[0] == "backend":
		http.Handle("POST /join", newBackend(args[1], secret))
		return http.ListenAndServeTLS(":8443", args[2], args[3], nil)
	case len(args) == 3 && args[0] == "player":
		welcome, err := play(context.Background(), new(secure.Dialer), args[1], args[2])
		fmt.Println(welcome)
		return err
	}
	return errors.New("usage: backend server | backend URL CERT KEY | player URL BEARER")
}

// players are those who have logged in, by their bearer tokens.
var players = map[string]secure.Grant{
	"ada-secret":  {ClientID: 1, Identity: []byte("Ada")},
	"alan-secret": {ClientID: 2, Identity: []byte("Alan")},
}

// newBackend returns the token service of a backend for one game server.
func newBackend(server, secret string) http.Handler {
	return &secure.TokenHandler{
		Servers: []string{server},
		Backend: secret,
		Authorize: func(r *http.Request) (*secure.Grant, error) {
			bearer, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
			grant, ok := players[bearer]
			if !ok {
				return nil, errors.New("please log in")
			}
			return &grant, nil
		},
	}
}

// serve answers each player by its name.
func serve(ln *secure.Listener) error {
	for {
		c, err := ln.AcceptConn(context.Background())
		if err != nil {
			return err
		}
		go func() {
			defer c.Close()
			buf := make([]byte, c.MaxMessageSize())
			for {
				if _, err := c.Read(buf); err != nil {
					return
				}
				fmt.Fprintf(c, "welcome, %s, player %d", c.Identity(), c.ClientID())
			}
		}()
	}
}

// play joins by the URL of a backend, and returns how the game server answers.
func play(ctx context.Context, d *secure.Dialer, url, bearer string) (welcome string, err error) {
	d.Header = http.Header{"Authorization": {"Bearer " + bearer}}
	c, err := d.Dial(ctx, url)
	if err != nil {
		return "", err
	}
	defer c.Close()
	buf := make([]byte, c.MaxMessageSize())
	c.Write([]byte("hello"))
	n, err := c.Read(buf)
	return string(buf[:n]), err
}
