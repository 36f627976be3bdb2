package main

import "volley"

// volleyServePeer and volleyPollPeer have no goroutine for a connection at the
// server. Their clients are those of volley.
var (
	volleyServePeer = &peer{
		name:      "volley-serve",
		loadModes: []string{modeGame, modeFanOut},
		modes:     []string{},
		crowd:     true,
		about:     "volley with Listener.Serve: messages are handled on the goroutine that reads the socket",
		window:    wideWindow,
		fanOut:    volleyFanOut,
		listen: func(int) (listener, error) {
			ln, err := volley.Listen("udp4", "127.0.0.1:0")
			if err != nil {
				return nil, err
			}
			return serveListener{volleyServer{netListener{ln, newVolleyLink}, ln}}, nil
		},
		dial: volleyPeer.dial,
	}
	volleyPollPeer = &peer{
		name:      "volley-poll",
		loadModes: []string{modeGame, modeFanOut},
		modes:     []string{},
		crowd:     true,
		about:     "volley with Listener.Poll, once a tick, and each millisecond in style echo",
		window:    wideWindow,
		fanOut:    volleyFanOut,
		listen: func(int) (listener, error) {
			ln, err := volley.Listen("udp4", "127.0.0.1:0")
			if err != nil {
				return nil, err
			}
			return polledListener{volleyServer{netListener{ln, newVolleyLink}, ln}}, nil
		},
		dial: volleyPeer.dial,
	}
)

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
