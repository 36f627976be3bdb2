package stacktest

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

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
		if err := tooLarge.ConnectConn(t.Context(), conn); !errors.As(err, &ce) || ce.Field != "Config.MaxPayload" {
			t.Errorf("messages that do not fit: %v", err)
		}

		sum := 0
		c := &riptide.Client{Config: cfg, Unhandled: func(_ *riptide.Client, m *riptide.Message) error {
			sum += len(m.Bytes())
			return m.Err()
		}}
		if err := c.ConnectConn(t.Context(), s.dial(t)); err != nil {
			t.Fatal(err)
		}
		for range 100 {
			m := cfg.NewMessage(riptide.Reliable, 1)
			m.AddBytes(make([]byte, 1100))
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
		if err := <-served; err != riptide.ErrServerClosed {
			t.Error(err)
		}
		s.net.Close()
	})
}
