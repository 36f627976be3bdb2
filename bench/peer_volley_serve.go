package main

import (
	"context"
	"iter"

	"volley"
	"volley/netcode"
)

// servePeers have no goroutine for a connection at the server. Their clients are those of
// the same transport with goroutines.
var servePeers = []*peer{
	servePeer(volleyPeer, "volley-serve", false, listenVolley,
		"volley with Listener.Serve: messages are handled on the goroutine that reads the socket, and a server that ticks writes by WriteEach"),
	servePeer(volleyPeer, "volley-poll", true, listenVolley,
		"volley with Listener.Poll, once a tick, and each millisecond in style echo; a server that ticks writes by WriteEach"),
	servePeer(volleyNetcodePeer, "volley-netcode-serve", false, listenVolleyNetcode, "volley over sessions of volley/netcode, with Listener.Serve"),
	servePeer(volleyNetcodePeer, "volley-netcode-poll", true, listenVolleyNetcode, "volley over sessions of volley/netcode, with Listener.Poll"),
}

func servePeer(clients *peer, name string, polled bool, listen func() (*volley.Listener, error), about string) *peer {
	return &peer{
		name:      name,
		loadModes: []string{modeGame, modeFanOut},
		modes:     []string{},
		crowd:     true,
		about:     about,
		window:    wideWindow,
		fanOut:    volleyFanOut,
		sendEach:  volleySendEach,
		listen: func(int) (listener, error) {
			ln, err := listen()
			if err != nil {
				return nil, err
			}
			s := volleyServer{netListener{ln, newVolleyLink}, ln}
			if polled {
				return polledListener{s}, nil
			}
			return serveListener{s}, nil
		},
		dial: clients.dial,
	}
}

func listenVolley() (*volley.Listener, error) { return volley.Listen("udp4", listenAddr()) }

func listenVolleyNetcode() (*volley.Listener, error) {
	lc := netcode.ListenConfig{PrivateKey: netcodeKey, MaxClients: maxLoadClients}
	ln, err := lc.Listen(context.Background(), "udp4", listenAddr())
	if err != nil {
		return nil, err
	}
	return volley.NewListener(ln, nil)
}

// volleySendEach writes to each its own in one pass.
func volleySendEach(msgs iter.Seq2[link, []byte]) error {
	return volley.WriteEach(func(yield func(*volley.Conn, []byte) bool) {
		for l, msg := range msgs {
			if !yield(l.(volleyLink).c, msg) {
				return
			}
		}
	})
}

type volleyServer struct {
	netListener
	ln *volley.Listener
}

func (s volleyServer) handler(handle func(l link, msg []byte)) volley.Handler {
	return volley.Handler{
		Open:    func(c *volley.Conn) { c.SetValue(newVolleyLink(c)) },
		Message: func(c *volley.Conn, msg []byte) { handle(c.Value().(link), msg) },
	}
}

type serveListener struct{ volleyServer }

func (s serveListener) Serve(handle func(l link, msg []byte)) error {
	return s.ln.Serve(s.handler(handle))
}

type polledListener struct{ volleyServer }

func (s polledListener) Poll(handle func(l link, msg []byte)) error {
	return s.ln.Poll(s.handler(handle))
}
