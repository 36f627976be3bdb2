package riptide

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"volley/simnet"
)

// A function of the application that panics ends the connection that it was called
// for; the panic is logged with its stack, nothing more of that client is handled, and
// the server and the others live on.
func TestServerPanics(t *testing.T) {
	for name, arm := range map[string]func(*Server, func()){
		"handler":      func(s *Server, f func()) { s.Handle(1, func(*Peer, *Message) error { f(); return nil }) },
		"Connected":    func(s *Server, f func()) { s.Connected = func(*Peer) { f() } },
		"Disconnected": func(s *Server, f func()) { s.Disconnected = func(*Peer, Reason) { f() } },
		"Notify":       func(s *Server, f func()) { s.Notify = func(*Peer, *Message) error { f(); return nil } },
		"Delivered":    func(s *Server, f func()) { s.Delivered = func(*Peer, uint16) { f() } },
		"Accept":       func(s *Server, f func()) { s.Accept = func(context.Context, *Request) error { f(); return nil } },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				var j journal
				var l logBuffer
				s := j.server(&Server{MaxClients: 1, Logger: l.logger()})
				s.Unhandled = func(p *Peer, m *Message) error { j.add("message %d", m.ID()); return nil }
				armed := true
				arm(s, func() {
					if armed {
						armed = false
						panic("boom")
					}
				})
				w := newWorld(t, s, simnet.Link{Latency: ms})
				c := &Client{}
				err := w.dial(c, "10.0.0.2:1")
				if name == "Accept" {
					var refused *DisconnectError
					require.ErrorAs(t, err, &refused)
					require.Equal(t, Rejected, refused.Reason)
				} else {
					require.NoError(t, err)
					m := shorts(1)
					if name == "Notify" {
						m = NewMessage(Notify, 0)
					}
					require.NoError(t, c.Send(m))
					for range 5 {
						require.NoError(t, c.Send(shorts(2)))
					}
					if name == "Disconnected" {
						time.Sleep(10 * ms)
						c.Close()
					}
					<-c.Done()
				}
				time.Sleep(10 * ms)
				require.Empty(t, s.Peers())
				logged := l.take()
				require.Contains(t, logged, "a function of the application panicked")
				require.Contains(t, logged, "panic=boom")
				require.Contains(t, logged, "panic_test.go", "the stack")
				lines := j.take()
				if name == "handler" || name == "Notify" || name == "Connected" {
					require.NotContains(t, lines, "message 2", "after the panic")
					require.Contains(t, lines, "server: 1 kicked")
				}

				other := &Client{}
				w.mustDial(other, "10.0.0.3:1") // whose id is that of the first
				require.NoError(t, other.Send(shorts(2)))
				time.Sleep(10 * ms)
				require.Contains(t, j.take(), "message 2")
				other.Close()
				w.close()
			})
		})
	}
}

// It is the same with a client, and where there is no Logger.
func TestClientPanics(t *testing.T) {
	for _, inEnd := range []bool{false, true} {
		bubble(t, func(t *testing.T) {
			var l, standard logBuffer
			defer slog.SetDefault(slog.Default())
			slog.SetDefault(standard.logger())
			s := &Server{}
			w := newWorld(t, s, simnet.Link{Latency: ms})
			calls, ends := 0, 0
			c := &Client{Disconnected: func(*Client, Reason, *Message) {
				if ends++; inEnd {
					panic("in the end")
				}
			}}
			logged := &standard
			if inEnd {
				logged, c.Logger = &l, l.logger()
			}
			c.Handle(1, func(*Client, *Message) error { calls++; panic(errors.New("boom")) })
			w.mustDial(c, "10.0.0.2:1")
			time.Sleep(10 * ms)
			for range 5 {
				require.NoError(t, s.SendAll(shorts(1)))
			}
			<-c.Done()
			require.Equal(t, 1, calls)
			require.Equal(t, 1, ends)
			text := logged.take()
			require.Contains(t, text, "panic=boom")
			require.Equal(t, inEnd, strings.Contains(text, "in the end"))
			time.Sleep(10 * ms)
			require.Empty(t, s.Peers())
			w.mustDial(c, "10.0.0.2:2") // once more
			c.Close()
			<-c.Done()
			w.close()
		})
	}
}
