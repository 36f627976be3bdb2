package porous

import (
	"context"
	"fmt"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"volley/internal/serve"
	"volley/simnet"
)

// servers are the two ways to run a Handler, and what they are over.
var servers = []struct {
	polled, over bool
}{{false, false}, {true, false}, {false, true}, {true, true}}

// A plain listener accepts connections that are not known to be volley's own.
type plain struct{ conns chan net.Conn }

func (p plain) Accept() (net.Conn, error) {
	if c, ok := <-p.conns; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}

func (p plain) Close() error   { close(p.conns); return nil }
func (p plain) Addr() net.Addr { return &net.UDPAddr{Port: 7} }

// A handler learns of the beginning, each message with its channel, and the end of a
// connection, in this order, and may answer or abort it.
func TestServe(t *testing.T) {
	for _, s := range servers {
		t.Run(fmt.Sprintf("polled=%v over=%v", s.polled, s.over), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := simnet.New(1)
				defer n.Close()
				n.SetDefault(simnet.Link{Latency: 10 * time.Millisecond, Loss: 0.02})
				two := &Config{Channels: 2}
				var l *Listener
				dial := func() *Conn { return simDial(t, n, "10.0.0.2:0", "10.0.0.1:7", two) }
				if s.over {
					p := plain{make(chan net.Conn)}
					var err error
					l, err = NewListener(p, two)
					require.NoError(t, err)
					dial = func() *Conn {
						a, b := simnet.Pair(1, simnet.Link{Latency: 10 * time.Millisecond}, simnet.Link{Latency: 10 * time.Millisecond})
						p.conns <- a
						return wrapped(b, two)
					}
				} else {
					l = simListener(t, n, "10.0.0.1:7", &ListenConfig{Config: two})
				}
				accepts := make(chan error)
				go func() {
					_, err := l.Accept()
					accepts <- err
				}()
				synctest.Wait()
				var mu sync.Mutex
				log := make(map[any][]string)
				note := func(c *Conn, what string) {
					mu.Lock()
					defer mu.Unlock()
					log[c.Value()] = append(log[c.Value()], what)
				}
				h := Handler{
					Open: func(c *Conn) { note(c, "open") },
					Message: func(c *Conn, channel int, msg []byte) {
						if c.Value() == nil {
							c.SetValue(string(msg))
						}
						note(c, fmt.Sprintf("%d %s", channel, msg))
						if string(msg) == "abort" {
							c.Abort()
							return
						}
						c.Channel(channel).Write(msg)
					},
					Closed: func(c *Conn, err error) {
						note(c, "closed")
						if err == nil {
							t.Error("an end without an error")
						}
					},
				}
				done := make(chan error)
				run := func() error {
					if !s.polled {
						return l.Serve(h)
					}
					for {
						if err := l.Poll(h); err != nil {
							return err
						}
						time.Sleep(10 * time.Millisecond)
					}
				}
				go func() { done <- run() }()
				if s.over {
					time.Sleep(time.Second) // what accepts already is for Accept
				}
				require.ErrorIs(t, <-accepts, serve.ErrServed)
				var clients []*Conn
				for i := range 5 {
					c := dial()
					clients = append(clients, c)
					for _, msg := range []string{fmt.Sprint(i), "two", "three"} {
						ch := c.Channel(min(1, len(msg)-1))
						ch.Write([]byte(msg))
						require.Equal(t, msg, readString(t, ch))
					}
				}
				require.ErrorIs(t, l.Serve(h), serve.ErrServed)
				clients[1].Write([]byte("abort"))
				time.Sleep(5 * time.Second)
				mu.Lock()
				require.Len(t, log[nil], 5)
				require.Equal(t, []string{"0 1", "1 two", "1 three", "0 abort", "closed"}, log["1"])
				require.Equal(t, []string{"0 2", "1 two", "1 three"}, log["2"])
				mu.Unlock()
				abort(clients[0])
				time.Sleep(5 * time.Second)
				mu.Lock()
				require.Equal(t, []string{"0 0", "1 two", "1 three", "closed"}, log["0"])
				mu.Unlock()
				ctx, cancel := context.WithCancel(t.Context())
				cancel()
				require.ErrorIs(t, l.Shutdown(ctx), context.Canceled)
				require.ErrorIs(t, <-done, net.ErrClosed)
				time.Sleep(time.Second)
				mu.Lock()
				require.Equal(t, "closed", log["2"][3])
				mu.Unlock()
				require.ErrorContains(t, l.Serve(Handler{}), "Handler.Message is nil")
				abort(clients...)
				time.Sleep(time.Minute)
			})
		})
	}
}
