package watch

import (
	"context"
	"log/slog"

	"volley/internal/datagram"
)

// Transport returns the events of sockets by their Stats, in a package's name.
func Transport(name string, stats func() []datagram.Stats) []Event {
	sum := func(f func(datagram.Stats) uint64) func() uint64 {
		return func() (n uint64) {
			for _, s := range stats() {
				n += f(s)
			}
			return n
		}
	}
	buffer := func() []slog.Attr {
		return []slog.Attr{slog.Int("buffer", stats()[0].Socket.ReadBufferSize), adviceAttr}
	}
	return []Event{{
		Level:   slog.LevelWarn,
		Message: name + ": the kernel has dropped datagrams, for the socket's receive buffer was full",
		Total:   sum(func(s datagram.Stats) uint64 { return uint64(s.Socket.Drops) }),
		Attrs:   buffer,
	}, {
		Level:   slog.LevelWarn,
		Message: name + ": reading the socket has failed",
		Total:   sum(func(s datagram.Stats) uint64 { return s.ReadErrors }),
	}, {
		Level:   slog.LevelWarn,
		Message: name + ": the system has refused to send",
		Total:   sum(func(s datagram.Stats) uint64 { return s.WriteErrors }),
	}, {
		Level:   slog.LevelInfo,
		Message: name + ": the system has refused runs of datagrams, which were sent one by one",
		Total:   sum(func(s datagram.Stats) uint64 { return s.Socket.Fallbacks }),
		Attrs: func() []slog.Attr {
			return []slog.Attr{slog.Bool("offload", stats()[0].Socket.GSO)}
		},
	}}
}

// adviceAttr says what helps against small buffers.
var adviceAttr = slog.String("advice", "raise net.core.rmem_max and net.core.wmem_max, see docs/operations.md")

// Buffers logs a socket whose buffers are smaller than wanted, 0 for any.
func Buffers(logger *slog.Logger, name string, wanted int, s datagram.Stats) {
	r, w := s.Socket.ReadBufferSize, s.Socket.WriteBufferSize
	if logger == nil || r == 0 || w == 0 || min(r, w) >= wanted {
		return
	}
	logger.LogAttrs(context.Background(), slog.LevelWarn, name+": the system grants smaller socket buffers than asked for",
		slog.Int("wanted", wanted), slog.Int("receive", r), slog.Int("send", w), adviceAttr)
}
