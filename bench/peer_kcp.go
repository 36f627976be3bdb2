package main

import (
	"net"

	"github.com/xtaci/kcp-go/v5"
)

var (
	kcpFastPeer = &peer{
		name:      "kcp-fast",
		loadModes: []string{modeGame},
		window:    func(int) int { return 4096 }, // for fan-in: its own windows do not know of each other
		module:    "github.com/xtaci/kcp-go/v5",
		about:     "kcp-go in its fast mode (no delay, 10 ms clock, fast resend, acknowledgements at once), a length in front of each message",
		listen:    func(int) (listener, error) { return listenKCP(kcpFast) },
		dial:      func(addr string, _ int) (link, error) { return dialKCP(addr, kcpFast) },
	}
	kcpBulkPeer = &peer{
		name:   "kcp-bulk",
		window: func(int) int { return 16384 },
		module: "github.com/xtaci/kcp-go/v5",
		about:  "kcp-go with write delay, which packs messages and sends at the tick of its 10 ms clock",
		listen: func(int) (listener, error) { return listenKCP(kcpBulk) },
		dial:   func(addr string, _ int) (link, error) { return dialKCP(addr, kcpBulk) },
	}
)

// A kcpMode sets a session up.
type kcpMode func(*kcp.UDPSession)

func kcpFast(s *kcp.UDPSession) {
	s.SetNoDelay(1, 10, 2, 1)
	s.SetWindowSize(1024, 1024)
	s.SetACKNoDelay(true)
	s.SetWriteDelay(false)
}

func kcpBulk(s *kcp.UDPSession) {
	s.SetNoDelay(1, 10, 2, 1)
	s.SetWindowSize(4096, 4096)
	s.SetWriteDelay(true)
}

type kcpListener struct {
	*kcp.Listener
	mode kcpMode
}

func listenKCP(mode kcpMode) (listener, error) {
	ln, err := kcp.ListenWithOptions(listenAddr(), nil, 0, 0)
	if err != nil {
		return nil, err
	}
	setBuffers(ln)
	return kcpListener{ln, mode}, nil
}

func (l kcpListener) Accept() (link, error) {
	s, err := l.AcceptKCP()
	if err != nil {
		return nil, err
	}
	l.mode(s)
	return newStreamLink(s, false), nil
}

func (l kcpListener) Addr() net.Addr { return l.Listener.Addr() }

func dialKCP(addr string, mode kcpMode) (link, error) {
	s, err := kcp.DialWithOptions(addr, nil, 0, 0)
	if err != nil {
		return nil, err
	}
	setBuffers(s)
	mode(s)
	return newStreamLink(s, false), nil
}
