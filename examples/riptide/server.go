package main

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"sync"

	"volley/riptide"
)

// An arena is what the server knows of its players. Handlers of different
// players run at the same time, so it has a lock.
type arena struct {
	server *riptide.Server
	mu     sync.Mutex
	names  map[uint16]string
}

// newArena returns a server that is ready to serve.
func newArena(logger *slog.Logger) *arena {
	a := &arena{names: make(map[uint16]string)}
	a.server = &riptide.Server{
		MaxClients:   256,
		Accept:       accept,
		Connected:    a.connected,
		Disconnected: a.disconnected,
		KickOnError:  true, // a message that cannot be read is no accident
		Logger:       logger,
	}
	a.server.Handle(idName, a.name)
	a.server.Handle(idPosition, a.position)
	a.server.Handle(idChat, func(p *riptide.Peer, m *riptide.Message) error { return a.server.SendAll(m, p) })
	return a
}

var errVersion = errors.New("another version")

// accept turns away clients of another version.
func accept(_ context.Context, r *riptide.Request) error {
	got := r.Data.ReadString()
	if got == version && r.Data.Err() == nil {
		return nil
	}
	r.Reply = riptide.NewData()
	r.Reply.AddString("this server speaks " + version)
	return errVersion
}

// connected tells a new player who is there: Riptide tells it only who comes.
func (a *arena) connected(p *riptide.Peer) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for id, name := range a.names {
		p.Send(named(id, name))
	}
}

func (a *arena) disconnected(p *riptide.Peer, _ riptide.Reason) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.names, p.ID())
}

var errName = errors.New("a name has 1 to 32 bytes")

func (a *arena) name(p *riptide.Peer, m *riptide.Message) error {
	name := strings.TrimSpace(m.ReadString())
	if err := m.Err(); err != nil {
		return err
	}
	if name == "" || len(name) > 32 {
		return errName
	}
	a.mu.Lock()
	a.names[p.ID()] = name
	a.mu.Unlock()
	return a.server.SendAll(named(p.ID(), name))
}

func named(id uint16, name string) *riptide.Message {
	m := riptide.NewMessage(riptide.Reliable, idName)
	riptide.Add(m, id)
	m.AddString(name)
	return m
}

func (a *arena) position(p *riptide.Peer, m *riptide.Message) error {
	var at riptide.Vector3
	m.ReadValue(&at)
	if err := m.Err(); err != nil {
		return err
	}
	out := riptide.NewMessage(riptide.Unreliable, idPosition)
	riptide.Add(out, p.ID())
	out.AddValue(at)
	return a.server.SendAll(out, p)
}

// serve serves over UDP and TCP until ctx is done.
func serve(ctx context.Context, address string, logger *slog.Logger) error {
	pc, err := net.ListenPacket("udp", address)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", pc.LocalAddr().String())
	if err != nil {
		pc.Close()
		return err
	}
	logger.Info("listening", "address", pc.LocalAddr())
	return newArena(logger).serve(ctx, pc, l)
}

func (a *arena) serve(ctx context.Context, pc net.PacketConn, l net.Listener) error {
	ended := make(chan error, 2)
	go func() { ended <- a.server.ServeOn(pc) }()
	go func() { ended <- a.server.Serve(l) }()
	select {
	case err := <-ended: // it has broken
		a.server.Close()
		<-ended
		return err
	case <-ctx.Done():
	}
	bound, cancel := context.WithTimeout(context.Background(), shutdownTime)
	defer cancel()
	err := a.server.Shutdown(bound)
	<-ended
	<-ended
	return err
}
