package stacktest

import (
	"errors"
	"maps"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"volley/riptide"
	"volley/simnet"
)

// TestRiptideOverNetcode talks through sessions of netcode, so that everything
// is encrypted, and who cannot show a token is not heard.
func TestRiptideOverNetcode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSessions(t, simnet.Link{Latency: 10 * time.Millisecond, Loss: 0.1})
		cfg := &riptide.Config{MaxPayload: 1190, IgnoreQuality: true}
		server := &riptide.Server{
			Config:    cfg,
			Unhandled: func(p *riptide.Peer, m *riptide.Message) error { return p.Send(m) },
		}
		served := make(chan error, 1)
		go func() { served <- server.Serve(s.inner) }()

		tooLarge := new(riptide.Client)
		conn := s.dial(t)
		var ce *riptide.ConfigError
		if err := tooLarge.ConnectOn(t.Context(), conn); !errors.As(err, &ce) || ce.Field != "Config.MaxPayload" {
			t.Errorf("messages that do not fit: %v", err)
		}

		sum := 0
		c := &riptide.Client{Config: cfg, Unhandled: func(_ *riptide.Client, m *riptide.Message) error {
			sum += len(riptide.ReadSlice[byte](m))
			return m.Err()
		}}
		if err := c.ConnectOn(t.Context(), s.dial(t)); err != nil {
			t.Fatal(err)
		}
		for range 100 {
			m := cfg.NewMessage(riptide.Reliable, 1)
			riptide.AddSlice(m, make([]byte, 1100))
			if err := c.Send(m); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if sum != 100*1100 {
			t.Errorf("%d bytes came back", sum)
		}
		if err := server.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		<-c.Done()
		if err := <-served; !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
		s.net.Close()
	})
}

// A broadcast reaches clients over sessions and sockets alike.
func TestRiptideBroadcastOverAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSessions(t, simnet.Link{Latency: 10 * time.Millisecond})
		cfg := &riptide.Config{MaxPayload: 1190}
		server := &riptide.Server{Config: cfg, NoAnnouncements: true}
		pc, err := s.net.Listen("10.0.0.1:7778")
		require.NoError(t, err)
		served := make(chan error, 2)
		go func() { served <- server.Serve(s.inner) }()
		go func() { served <- server.ServeOn(pc) }()
		const clients = 40
		counts := make(map[*riptide.Client]uint32)
		var all []*riptide.Client
		var mu sync.Mutex
		for i := range clients {
			c := &riptide.Client{Config: cfg, Unhandled: func(c *riptide.Client, m *riptide.Message) error {
				mu.Lock()
				defer mu.Unlock()
				if n := riptide.Read[uint32](m); n != counts[c] {
					t.Errorf("message %d, want %d", n, counts[c])
				}
				counts[c]++
				return m.Err()
			}}
			var conn net.Conn
			if i%2 == 0 {
				conn = s.dial(t)
			} else {
				conn, err = s.net.Dial("10.0.2.1:0", "10.0.0.1:7778")
				require.NoError(t, err)
			}
			require.NoError(t, c.ConnectOn(t.Context(), conn))
			all = append(all, c)
		}
		time.Sleep(time.Second)
		const rounds = 100
		for k := range uint32(rounds) {
			m := cfg.NewMessage([]riptide.Mode{riptide.Unreliable, riptide.Reliable}[k%2], 1)
			riptide.Add[uint32](m, k)
			require.NoError(t, server.SendAll(m))
			time.Sleep(time.Millisecond)
		}
		time.Sleep(time.Second)
		mu.Lock()
		counted := maps.Clone(counts)
		mu.Unlock()
		for _, c := range all {
			require.EqualValues(t, rounds, counted[c])
		}
		require.NoError(t, server.Shutdown(t.Context()))
		for _, c := range all {
			<-c.Done()
		}
		<-served
		<-served
		s.net.Close()
	})
}
