package main

import (
	"net"

	"github.com/pion/dtls/v3"
)

var dtlsPeer = &peer{
	name:       "dtls",
	loadModes:  []string{modeGame},
	module:     "github.com/pion/dtls/v3",
	about:      "pion/dtls with a shared key and AES-128-GCM, one datagram a message; its listener's socket buffer cannot be set",
	maxMessage: 4096, // it reads datagrams of at most 8 KiB
	window:     narrowWindow,
	listen: func(int) (listener, error) {
		ln, err := dtls.ListenWithOptions("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)},
			dtlsKey, dtlsHint, dtlsSuite)
		if err != nil {
			return nil, err
		}
		return netListener{ln, func(c net.Conn) link { return connLink{c} }}, nil
	},
	dial: func(addr string, _ int) (link, error) {
		raddr, err := net.ResolveUDPAddr("udp4", addr)
		if err != nil {
			return nil, err
		}
		c, err := dtls.DialWithOptions("udp4", raddr, dtlsKey, dtlsHint, dtlsSuite)
		if err != nil {
			return nil, err
		}
		return connLink{c}, nil
	},
}

// Options of both sides.
var (
	dtlsKey   = dtls.WithPSK(func([]byte) ([]byte, error) { return []byte("a key that both sides know"), nil })
	dtlsHint  = dtls.WithPSKIdentityHint([]byte("bench"))
	dtlsSuite = dtls.WithCipherSuites(dtls.TLS_PSK_WITH_AES_128_GCM_SHA256)
)
