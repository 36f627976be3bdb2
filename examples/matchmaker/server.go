package main

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"time"

	"volley"
	"volley/netcode"
)

// tokenLifetime is agreed between matchmaker and server.
const tokenLifetime = 30 * time.Second

// defaultClients is how many players the game server has room for, unless it
// is known that there will be more.
const defaultClients = 100

// listen starts the game server, with room for so many clients: messages over
// sessions.
func listen(address string, key netcode.Key, clients int) (net.Listener, error) {
	lc := netcode.ListenConfig{
		PrivateKey:    key,
		ProtocolID:    protocolID,
		TokenLifetime: tokenLifetime,
		MaxClients:    clients,
		Logger:        slog.Default(),
	}
	inner, err := lc.Listen(context.Background(), "udp", address)
	if err != nil {
		return nil, err
	}
	return volley.NewListener(inner, nil)
}

// A game has a number to be guessed.
type game struct{ number int }

// numbers is how many numbers there are to choose from.
const numbers = 100

func newGame() *game { return &game{number: 1 + rand.IntN(numbers)} }

// serve plays with everybody who comes until ctx is done.
func (g *game) serve(ctx context.Context, ln net.Listener) error {
	defer context.AfterFunc(ctx, func() { ln.Close() })()
	defer ln.Close()
	var players sync.WaitGroup
	defer players.Wait()
	for {
		c, err := ln.Accept()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return err
		}
		stop := context.AfterFunc(ctx, func() { c.Close() })
		players.Go(func() {
			defer stop()
			g.play(c.(*volley.Conn))
		})
	}
}

// play answers guesses until the player leaves.
func (g *game) play(c *volley.Conn) {
	defer c.Close()
	session := c.NetConn().(*netcode.Conn)
	name := bytes.TrimRight(session.UserData(), "\x00")
	slog.Info("player joined", "id", session.ClientID(), "name", string(name), "from", c.RemoteAddr())
	buf := make([]byte, c.MaxMessageSize())
	for {
		n, err := c.Read(buf)
		if err != nil {
			slog.Info("player left", "id", session.ClientID(), "why", err)
			return
		}
		if _, err := c.Write(g.answer(buf[:n])); err != nil {
			return
		}
	}
}

// answer returns the guess that was made and what is to be said of it.
func (g *game) answer(guess []byte) []byte {
	n, err := strconv.Atoi(string(guess))
	verdict := " right"
	switch {
	case err != nil:
		return []byte("0 what?")
	case n < g.number:
		verdict = " higher"
	case n > g.number:
		verdict = " lower"
	}
	return append(strconv.AppendInt(nil, int64(n), 10), verdict...)
}
