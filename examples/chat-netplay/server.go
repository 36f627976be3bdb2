package main

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"

	"volley/netplay"
)

// A room is the server's side of the chat.
type room struct {
	server *netplay.Server

	mu    sync.Mutex
	names map[*netplay.Conn]string // of those who have logged in
}

// serve lets clients chat until ctx is done.
func serve(ctx context.Context, ln net.Listener, logger *slog.Logger) error {
	r := &room{names: make(map[*netplay.Conn]string)}
	r.server = &netplay.Server{
		Registry:     registry(),
		Config:       netplay.ReferenceConfig(), // clients may be the Java library's
		OnDisconnect: r.leave,
		Logger:       logger,
	}
	netplay.Handle(r.server, r.login)
	netplay.Handle(r.server, r.chat)

	stopped := make(chan error, 1)
	stop := context.AfterFunc(ctx, func() {
		ctx, cancel := context.WithTimeout(context.Background(), grace)
		defer cancel()
		stopped <- r.server.Shutdown(ctx)
	})
	err := r.server.Serve(ln)
	if stop() || !errors.Is(err, net.ErrClosed) {
		return err
	}
	return <-stopped
}

// login gives a client its name, or shows it the door.
func (r *room) login(c *netplay.Conn, m *Login) error {
	if refusal := r.take(c, m.Username); refusal != "" {
		return r.server.Kick(c, &Notification{refusal})
	}
	return r.tell(&Notification{m.Username + " has joined"})
}

// take enters a name, and says why not if it cannot be had.
func (r *room) take(c *netplay.Conn, name string) (refusal string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if name == "" {
		return "a name is needed"
	}
	if r.names[c] != "" {
		return "one login is enough"
	}
	for _, other := range r.names {
		if other == name {
			return "the name " + name + " is in use"
		}
	}
	r.names[c] = name
	return ""
}

// chat passes a line on, to those who have logged in. Who has not is not heard.
func (r *room) chat(c *netplay.Conn, m *Chat) error {
	r.mu.Lock()
	m.Sender = r.names[c]
	r.mu.Unlock()
	if m.Sender == "" {
		return nil
	}
	return r.tell(m)
}

// leave tells the others that somebody has gone.
func (r *room) leave(c *netplay.Conn, _ error) {
	r.mu.Lock()
	name := r.names[c]
	delete(r.names, c)
	r.mu.Unlock()
	if name != "" {
		r.tell(&Notification{name + " has left"})
	}
}

// tell sends a message to all who have logged in. One that cannot be sent, such
// as a line longer than a frame, concerns its writer only.
func (r *room) tell(v any) error {
	r.mu.Lock()
	to := make([]*netplay.Conn, 0, len(r.names))
	for c := range r.names {
		to = append(to, c)
	}
	r.mu.Unlock()
	return r.server.Multicast(v, to...)
}
