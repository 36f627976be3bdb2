package main

import (
	"context"
	"sync/atomic"

	"volley"
	"volley/netcode"
)

// netcodeKey is shared by the two ends, which may be processes.
var netcodeKey = netcode.Key{1}

var volleyNetcodePeer = &peer{
	name:      "volley-netcode",
	loadModes: []string{modeGame, modeFanOut},
	crowd:     true,
	about:     "volley over sessions of volley/netcode: encrypted and authenticated, one Write a message, and WriteAll in mode fan-out",
	window:    wideWindow,
	fanOut:    volleyFanOut,
	listen: func(int) (listener, error) {
		l, err := listenVolleyNetcode()
		return netListener{l, newVolleyLink}, err
	},
	dial: func(addr string, _ int) (link, error) {
		c, err := new(netcode.Dialer).DialWithKey(context.Background(), addr, netcodeKey, 0, clientIDs.Add(1))
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

// clientIDs makes the number under which each link is known to the server.
var clientIDs atomic.Uint64
