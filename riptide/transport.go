package riptide

import (
	"net"
	"strings"

	"volley/internal/datagram"
)

// Transports: datagrams come over a Mux at a server and over a connected socket
// at a client, or over any connection of volley's own or of others that
// preserves message boundaries; over streams they are framed (stream.go).

// maxDatagram is the size of the longest datagram plus one, so that a longer
// one that a transport cuts is not taken for one that fits.
func (s *settings) maxDatagram() int { return s.maxPayload + maxHeaderSize + 1 }

// overStream returns the settings for a stream, on which we repeat nothing, since
// nothing is lost, and the network neither.
func (s *settings) overStream() *settings {
	t := *s
	t.repeats, t.dupWindow = 1, 0
	return &t
}

// newTransport returns the transport on a connection to one peer, which it
// takes over, and the settings that go with it.
func newTransport(c net.Conn, set *settings) (datagram.Conn, *settings, error) {
	if dc := datagram.Below(c); dc != nil {
		if most := dc.MaxDatagram() - maxHeaderSize; set.maxPayload > most {
			return nil, nil, configError("Config.MaxPayload", "%d is more than the transport's %d", set.maxPayload, most)
		}
		return dc, set, nil
	}
	if isStream(c) {
		set = set.overStream()
		return newStream(c, set), set, nil
	}
	dc, err := datagram.Over(c, datagram.OverConfig{
		Socket:      set.socket,
		MaxDatagram: set.maxDatagram(),
		MaxForeign:  set.maxDatagram(),
		MaxMessage:  set.sendBuffer,
	})
	return dc, set, err
}

// isStream reports whether a connection does not preserve message boundaries.
func isStream(c net.Conn) bool {
	addr := c.LocalAddr()
	if addr == nil {
		return false
	}
	n := addr.Network()
	return n == "unix" || n == "pipe" || strings.HasPrefix(n, "tcp")
}

func isUDP(network string) bool { return strings.HasPrefix(network, "udp") }
