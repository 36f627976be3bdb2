package main

import (
	"sync"
	"time"
)

// A server receives the messages of a run and counts or returns them.
type server struct {
	job   *job
	peer  *peer
	board *board
	ring  func(client int) // wakes a client that waits
	ln    listener

	mu sync.Mutex
	// guarded by mu
	links   []link
	latency histogram // of modes with one client
	passes  histogram // time of a pass over all clients, for each message of it
	targets []target  // of modes game and fan-out
	err     error
}

func newServer(j *job, p *peer, b *board, ring func(int)) (*server, error) {
	ln, err := p.listen(j.Size)
	if err != nil {
		return nil, err
	}
	return &server{job: j, peer: p, board: b, ring: ring, ln: ln}, nil
}

// run accepts links until the listener is closed.
func (s *server) run() {
	switch l := s.ln.(type) {
	case handlerListener:
		_ = l.Serve(func(l link, msg []byte) { _ = s.gameMessage(l, msg) })
		return
	case pollListener:
		s.servePolled(l)
		return
	}
	for {
		l, err := s.ln.Accept()
		if err != nil {
			return
		}
		s.mu.Lock()
		s.links = append(s.links, l)
		s.mu.Unlock()
		if s.job.Rate > 0 {
			go s.serveGame(l)
		} else {
			go s.serve(l)
		}
	}
}

func (s *server) close() {
	s.ln.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.links {
		l.Close()
	}
}

// report adds the latency to a result.
func (s *server) report(r *result) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r.latency(&s.latency)
}

func (s *server) serve(l link) {
	var buf []byte
	if s.job.Mode == modeIdle {
		buf = make([]byte, s.job.Size) // counts as the connection's memory
	} else {
		buf = make([]byte, largestSize)
	}
	echo := s.job.Mode == modePingPong
	for {
		msg, err := l.ReadMessage(buf)
		if err != nil {
			return
		}
		client, n, sent, ok := inspect(msg, s.job.Size)
		if !ok || n != helloNumber && client >= maxClients {
			s.board.clients[0].bad.Add(1)
			continue
		}
		if echo || n == helloNumber {
			if l.WriteMessage(msg) != nil || l.Flush() != nil {
				return
			}
			continue
		}
		if sent != 0 && s.board.phase.Load() == phaseMeasure {
			s.mu.Lock()
			s.latency.add(time.Duration(time.Now().UnixNano() - int64(sent)))
			s.mu.Unlock()
		}
		if s.board.clients[client].count(n) {
			s.ring(client)
		}
	}
}
