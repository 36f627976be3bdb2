package riptide

import (
	"errors"
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	"volley/internal/loopback"
)

// Arguments that are nil are an error, and not a panic.
func TestNilArguments(t *testing.T) {
	for name, err := range map[string]error{
		"ConnectOn":               new(Client).ConnectOn(t.Context(), nil),
		"ConnectOn, typed":        new(Client).ConnectOn(t.Context(), (*net.UDPConn)(nil)),
		"Serve":                   new(Server).Serve(nil),
		"Serve, typed":            new(Server).Serve((*net.TCPListener)(nil)),
		"ServeOn":                 new(Server).ServeOn(nil),
		"ServeOn, typed":          new(Server).ServeOn((*net.UDPConn)(nil)),
		"more than 1024 Sockets":  (&Server{Sockets: 1025}).ListenAndServe("udp4", loopback.Addr()),
		"many Sockets of streams": (&Server{Sockets: 1 << 30}).ListenAndServe("tcp4", loopback.Addr()),
	} {
		_, ok := errors.AsType[*ConfigError](err)
		require.True(t, ok, "%s: %v", name, err)
	}
}
