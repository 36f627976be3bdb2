package main

import (
	"net"

	"github.com/pion/dtls/v4"
	"github.com/pion/dtls/v4/pkg/protocol"

	"volley"
)

var dtlsPeer = &peer{
	name:       "dtls",
	loadModes:  []string{modeGame},
	module:     "github.com/pion/dtls/v4",
	about:      "pion/dtls, DTLS 1.3 with a shared key, one datagram a message; its listener's socket buffer cannot be set",
	maxMessage: 4096, // it reads datagrams of at most 8 KiB
	window:     narrowWindow,
	listen: func(int) (listener, error) {
		ln, err := listenDTLS()
		if err != nil {
			return nil, err
		}
		return netListener{ln, func(c net.Conn) link { return connLink{c} }}, nil
	},
	dial: func(addr string, _ int) (link, error) {
		c, err := dialDTLS(addr)
		if err != nil {
			return nil, err
		}
		return connLink{c}, nil
	},
}

var volleyDTLSPeer = &peer{
	name:      "volley-dtls",
	loadModes: []string{modeGame},
	modes:     []string{},
	about:     "volley over pion/dtls, with a goroutine a connection",
	window:    narrowWindow,
	listen: func(int) (listener, error) {
		ln, err := listenDTLS()
		if err != nil {
			return nil, err
		}
		l, err := volley.NewListener(ln, nil)
		return netListener{l, newVolleyLink}, err
	},
	dial: func(addr string, _ int) (link, error) {
		c, err := dialDTLS(addr)
		if err != nil {
			return nil, err
		}
		v, err := volley.NewConn(c, nil)
		if err != nil {
			return nil, err
		}
		return newVolleyLink(v), nil
	},
}

func listenDTLS() (net.Listener, error) {
	laddr, err := net.ResolveUDPAddr("udp4", listenAddr())
	if err != nil {
		return nil, err
	}
	return dtls.ListenAddr("udp4", laddr, dtlsKey, dtlsVersion)
}

func dialDTLS(addr string) (net.Conn, error) {
	raddr, err := net.ResolveUDPAddr("udp4", addr)
	if err != nil {
		return nil, err
	}
	return dtls.Dial("udp4", raddr, dtlsKey, dtlsVersion)
}

// Options of both sides.
var (
	dtlsShared  = dtls.PSK{Identity: []byte("bench"), Key: []byte("a key that both sides know")}
	dtlsKey     = dtls.WithPSK(func() ([]dtls.PSK, error) { return []dtls.PSK{dtlsShared}, nil }, func([][]byte) (*dtls.PSK, error) { return &dtlsShared, nil })
	dtlsVersion = dtls.WithMinVersion(protocol.Version1_3)
)
