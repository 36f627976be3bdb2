package volley

import (
	"log/slog"
	"net"

	"volley/internal/datagram"
	"volley/internal/watch"
)

// newWatch prepares to tell Config.Logger what the Listener counts.
func (l *Listener) newWatch() *watch.Watch {
	events := []watch.Event{{
		Level:   slog.LevelWarn,
		Message: "volley: new peers are turned away, because MaxConns is reached",
		Total:   l.crowded.Load,
		Attrs:   func() []slog.Attr { return []slog.Attr{slog.Int("limit", l.maxConns)} },
	}, {
		Level:   slog.LevelWarn,
		Message: "volley: new peers are turned away, because the Backlog is full: Accept is called too rarely",
		Total:   l.waiting.Load,
	}, {
		Level:   slog.LevelWarn,
		Message: "volley: messages are refused, because MaxMemory is reached",
		Total:   l.budget.Refused,
		Attrs: func() []slog.Attr {
			return []slog.Attr{slog.Int64("limit", l.budget.Limit()), slog.Int64("held", l.budget.Used())}
		},
	}, l.set.rejectedEvent()}
	return watch.New(l.set.logger, append(events, watch.Transport("volley", l.side.Stats)...)...)
}

// logBroken tells that a socket is gone.
func (l *Listener) logBroken(err error) {
	l.watch.Tell(slog.LevelError, "volley: the socket is broken, and the Listener ends", slog.Any("error", err))
}

// watchDialed begins to log a dialed connection's socket, and returns how to end that.
func (s *settings) watchDialed(dc datagram.Conn) (stop func()) {
	if s.logger == nil {
		return func() {}
	}
	watch.Buffers(s.logger, "volley", s.socketBuffer, dc.Stats())
	below := watch.Transport("volley", func() []datagram.Stats { return []datagram.Stats{dc.Stats()} })
	w := watch.New(s.logger, append(below, s.rejectedEvent())...)
	w.Start()
	s.onClose = func(c *Conn) {
		dialedConns.Ended(c)
		c.mu.Lock()
		err := c.out.Err()
		c.mu.Unlock()
		if err != net.ErrClosed {
			w.Tell(slog.LevelInfo, "volley: the connection has ended", slog.Any("remote", dc.RemoteAddr()), slog.Any("error", err))
		}
		w.Stop()
	}
	return w.Stop
}

// newWatch prepares to tell Config.Logger what the PacketConn counts.
func (pc *PacketConn) newWatch() *watch.Watch {
	stats := func() []datagram.Stats { return []datagram.Stats{pc.mux.Stats()} }
	watch.Buffers(pc.set.logger, "volley", pc.set.socketBuffer, stats()[0])
	return watch.New(pc.set.logger, append(watch.Transport("volley", stats), watch.Event{
		Level:   slog.LevelWarn,
		Message: "volley: new peers are turned away, because MaxConns is reached",
		Total:   pc.refused.Load,
	}, watch.Event{
		Level:   slog.LevelWarn,
		Message: "volley: messages are refused, because MaxMemory is reached",
		Total:   pc.budget.Refused,
	}, pc.set.rejectedEvent())...)
}
