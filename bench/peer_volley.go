package main

import (
	"net"
	"slices"

	"volley"
)

var volleyPeer = &peer{
	name:      "volley",
	loadModes: []string{modeGame, modeFanOut},
	crowd:     true,
	about:     "this library with its defaults: messages acknowledged and measured, one Write a message, and WriteAll in mode fan-out",
	window:    wideWindow,
	fanOut:    volleyFanOut,
	listen: func(int) (listener, error) {
		ln, err := listenVolley()
		if err != nil {
			return nil, err
		}
		return netListener{ln, newVolleyLink}, nil
	},
	dial: func(addr string, _ int) (link, error) {
		c, err := volley.Dial("udp4", addr)
		if err != nil {
			return nil, err
		}
		return newVolleyLink(c), nil
	},
}

type volleyLink struct {
	connLink
	c *volley.Conn
}

func newVolleyLink(c net.Conn) link { return volleyLink{connLink{c}, c.(*volley.Conn)} }

func (l volleyLink) WriteBatch(msgs [][]byte) error {
	_, err := l.c.WriteBatch(nil, msgs)
	return err
}

// volleyFanOut writes to all in one pass.
func volleyFanOut(links []link) func(msg []byte) error {
	conns := make([]*volley.Conn, len(links))
	for i, l := range links {
		conns[i] = l.(volleyLink).c
	}
	all := slices.Values(conns)
	return func(msg []byte) error { return volley.WriteAll(msg, all) }
}

// figures is what the library says of a run; the report holds it to it.
func (l volleyLink) figures() (delivered, lost uint64, lossPercent float64) {
	s := l.c.Stats()
	return s.MessagesDelivered, s.MessagesLost, 100 * s.Loss
}
