package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"volley/riptide"
)

// connect joins the arena under a name.
func connect(ctx context.Context, c *riptide.Client, network, address, name string) error {
	c.Data = riptide.NewData()
	c.Data.AddString(version)
	if err := c.Connect(ctx, network, address); err != nil {
		if ce, ok := errors.AsType[*riptide.DisconnectError](err); ok && ce.Data != nil {
			return fmt.Errorf("%w: %s", err, ce.Data.ReadString())
		}
		return err
	}
	m := riptide.NewMessage(riptide.Reliable, idName)
	m.AddString(name)
	return c.Send(m)
}

// A screen prints lines of several goroutines, with the names of players.
type screen struct {
	mu    sync.Mutex
	out   io.Writer
	names map[uint16]string
}

func (s *screen) printf(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Fprintf(s.out, format, args...)
}

func (s *screen) name(id uint16) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if name := s.names[id]; name != "" {
		return name
	}
	return fmt.Sprint("player ", id)
}

// play plays under a name: the lines of in become chat.
func play(ctx context.Context, network, address, name string, in io.Reader, out io.Writer) error {
	s := &screen{out: out, names: make(map[uint16]string)}
	c := &riptide.Client{
		ClientDisconnected: func(_ *riptide.Client, id uint16) { s.printf("%s has gone\n", s.name(id)) },
	}
	c.Handle(idName, func(c *riptide.Client, m *riptide.Message) error {
		id, name := riptide.Read[uint16](m), m.ReadString()
		if err := m.Err(); err != nil {
			return err
		}
		s.mu.Lock()
		s.names[id] = name
		s.mu.Unlock()
		if id != c.ID() {
			s.printf("%s is here\n", name)
		}
		return nil
	})
	c.Handle(idChat, func(_ *riptide.Client, m *riptide.Message) error {
		s.printf("> %s\n", m.ReadString())
		return m.Err()
	})
	if err := connect(ctx, c, network, address, name); err != nil {
		return err
	}
	defer c.Close()
	s.printf("connected as player %d\n", c.ID())
	lines := make(chan string)
	go read(in, lines)
	for {
		select {
		case line, ok := <-lines:
			if !ok {
				return settle(ctx, c)
			}
			m := riptide.NewMessage(riptide.Reliable, idChat)
			m.AddString(name + ": " + line)
			if err := c.Send(m); err != nil {
				return err
			}
		case <-c.Done():
			return c.Err()
		case <-ctx.Done():
			return nil
		}
	}
}

func read(in io.Reader, lines chan<- string) {
	defer close(lines)
	for sc := bufio.NewScanner(in); sc.Scan(); {
		lines <- sc.Text()
	}
}

// settle waits until the server has everything.
func settle(ctx context.Context, c *riptide.Client) error {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for c.Stats().Unacknowledged > 0 {
		select {
		case <-tick.C:
		case <-c.Done():
			return c.Err()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}
