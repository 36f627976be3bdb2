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
	riptide.Handle(a.server, idName, a.name)
	riptide.Handle(a.server, idPosition, a.position)
	a.server.SetRelay(idChat, true)
	return a
}

// accept turns away clients of another version.
func accept(r *riptide.Request) error {
	got := r.Data.String()
	if got == version && r.Data.Err() == nil {
		return nil
	}
	why := riptide.NewData()
	why.AddString("this server speaks " + version)
	return &riptide.RejectError{Data: why}
}

// connected tells a new player who is there: Riptide tells it only who comes.
func (a *arena) connected(p *riptide.Peer) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for id, name := range a.names {
		p.Send(named(id, name))
	}
}

func (a *arena) disconnected(p *riptide.Peer, _ riptide.DisconnectReason) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.names, p.ID())
}

var errName = errors.New("a name has 1 to 32 bytes")

func (a *arena) name(p *riptide.Peer, m *riptide.Message) error {
	name := strings.TrimSpace(m.String())
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
	m.AddUint16(id)
	m.AddString(name)
	return m
}

func (a *arena) position(p *riptide.Peer, m *riptide.Message) error {
	at := m.Vector3()
	if err := m.Err(); err != nil {
		return err
	}
	out := riptide.NewMessage(riptide.Unreliable, idPosition)
	defer out.Release()
	out.AddUint16(p.ID())
	out.AddVector3(at)
	return a.server.SendAllBut(p, out)
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
	go func() { ended <- a.server.ServePacket(pc) }()
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
