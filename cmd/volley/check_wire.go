package main

import (
	"encoding/json"
	"errors"
	"net"
	"time"
)

// Kinds of probes of check, beside those of ping and bench. Serve answers probeCheck with
// probeChecked and a checkReply behind the head; an echo server returns the question.
const (
	probeCheck   byte = 100 // client: who am I to you?
	probeChecked byte = 101 // server: a checkReply behind the head
)

// A checkReply is what serve says about a client.
type checkReply struct {
	Address string    `json:"address"` // as which the server sees the client
	Time    time.Time `json:"time"`    // by the server's clock
}

func appendCheckReply(dst []byte, q probe, from net.Addr, now time.Time) []byte {
	q.kind = probeChecked
	return appendJSON(dst, q, checkReply{Address: from.String(), Time: now})
}

var errNoReply = errors.New("not an answer of volley serve")

func parseCheckReply(b []byte) (r checkReply, err error) {
	if err := json.Unmarshal(b[probeSize:], &r); err != nil {
		return r, errNoReply
	}
	r.Address = harmless(r.Address)
	return r, nil
}
