package main

import (
	"net"

	"github.com/pion/dtls/v3"
)

var dtlsPeer = &peer{
	name:       "dtls",
	module:     "github.com/pion/dtls/v3",
	about:      "pion/dtls with a shared key and AES-128-GCM, one datagram a message; its listener's socket buffer cannot be set",
	maxMessage: 4096, // it reads datagrams of at most 8 KiB
	window:     narrowWindow,
	listen: func(int) (listener, error) {
		ln, err := dtls.Listen("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)}, dtlsConfig())
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
		c, err := dtls.Dial("udp4", raddr, dtlsConfig())
		if err != nil {
			return nil, err
		}
		return connLink{c}, nil
	},
}

func dtlsConfig() *dtls.Config {
	return &dtls.Config{
		PSK:             func([]byte) ([]byte, error) { return []byte("a key that both sides know"), nil },
		PSKIdentityHint: []byte("bench"),
		CipherSuites:    []dtls.CipherSuiteID{dtls.TLS_PSK_WITH_AES_128_GCM_SHA256},
	}
}
