package main

import "time"

// Modes of a run.
const (
	modeOneWay   = "one-way"
	modePingPong = "ping-pong"
	modeFanIn    = "fan-in"
	modeBurst    = "burst"
	modePaced    = "paced"
	modeHazard   = "hazard"
	modeIdle     = "idle"
	modeGame     = "game"
	modeFanOut   = "fan-out"
)

// Roles of a process in a run.
const (
	roleBoth   = "both"
	roleServer = "server"
	roleClient = "client"
	rolePair   = "pair" // starts server and client in a network of their own
)

// A job says what a process is to do in one run.
type job struct {
	Peer, Mode, Role string
	Size             int // bytes of a message
	Clients          int
	Style            string // of modes game and fan-out
	Rate             int    // messages a second and client, of the same
	Warmup, Duration time.Duration
	Addr             string   // of the server, for the role of the client
	Board            string   // file of the shared board; "": one process
	Networks         []string // of server and client; nil: both are in the same
	Network          string   // of the process
}

// A result is what came of a run. Those of two processes are added up.
type result struct {
	Messages uint64 // received while measured
	Seconds  float64
	CPU      time.Duration // of all processes
	Mallocs  uint64

	Sent, Lost, Bad uint64 // of the whole run
	P50, P99, P999  time.Duration
	P9999           time.Duration

	// of mode idle, for one connection, both sides
	BytesServing float64 // with nobody in Read at the client
	Bytes        float64
	Goroutines   float64
	IdleCPU      float64 // microseconds a second

	// of modes game and fan-out
	ServerCPU, ClientCPU time.Duration
	Handled              uint64        // messages in and out of the server while it was measured
	ServerBytes          float64       // resident at the server's end, a client
	Packets              float64       // datagrams a message, both directions together; 0: not counted
	Due, InTime          uint64        // messages to the clients; InTime came within answerLimit
	Pass50, Pass99       time.Duration // of a pass over all clients, for each message of it

	// what volley itself says: shares in percent
	Acked, LossFigure float64

	// NoNetwork tells that there was none for the run alone.
	NoNetwork bool

	Error string
}

// merge adds what the server says to what the client says.
func (r *result) merge(server *result) {
	r.ServerCPU, r.ClientCPU = server.CPU, r.CPU
	r.Handled, r.Pass50, r.Pass99 = server.Handled, server.Pass50, server.Pass99
	r.ServerBytes = server.ServerBytes
	r.CPU += server.CPU
	r.Mallocs += server.Mallocs
	if server.P50 > 0 {
		r.P50, r.P99, r.P999, r.P9999 = server.P50, server.P99, server.P999, server.P9999
	}
	if r.Error == "" {
		r.Error = server.Error
	}
}

func (r *result) latency(h *histogram) {
	if h.n > 0 {
		r.P50, r.P99, r.P999, r.P9999 = h.quantile(.5), h.quantile(.99), h.quantile(.999), h.quantile(.9999)
	}
}

// perMessage divides a figure by the number of messages.
func (r *result) perMessage(v float64) float64 {
	if r.Messages == 0 {
		return 0
	}
	return v / float64(r.Messages)
}
