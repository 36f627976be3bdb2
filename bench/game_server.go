package main

import (
	"fmt"
	"time"
)

// A target is where a server's own messages to one client go.
type target struct {
	link   link
	client int
}

// A manyLink is the one link of a listener without connections. Sender returns
// a link that writes to whom it heard last.
type manyLink interface {
	Sender() link
}

// serveGame answers messages or only takes them, whichever the style wants. As
// users do, it has a goroutine for each link.
func (s *server) serveGame(l link) {
	buf := make([]byte, s.job.Size)
	echo := s.job.Style == styleEcho
	for {
		msg, err := l.ReadMessage(buf)
		if err != nil {
			return
		}
		client, n, _, ok := inspect(msg, s.job.Size)
		score := &s.board.clients[client%maxClients]
		switch {
		case !ok:
			score.bad.Add(1)
		case n == helloNumber:
			if l.WriteMessage(msg) != nil {
				return
			}
			s.join(l, client)
		case echo:
			score.received.Add(1)
			if err := l.WriteMessage(msg); err != nil {
				s.fail(fmt.Errorf("answer: %w", err))
				return
			}
			score.written.Add(1)
		default:
			score.received.Add(1)
		}
	}
}

// join notes a client. When all are there, a server that ticks begins.
func (s *server) join(l link, client int) {
	if many, ok := l.(manyLink); ok {
		l = many.Sender()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.targets = append(s.targets, target{l, client})
	if len(s.targets) < s.job.Clients {
		return
	}
	switch s.job.Style {
	case styleTick:
		go s.tick(s.sendState)
	case styleFanOut:
		go s.tick(s.fanOut())
	}
}

// tick calls pass at the rate of the job until the run is over. A pass that comes
// late does not move those after it.
func (s *server) tick(pass func(k uint64, sent time.Time) error) {
	period := time.Second / time.Duration(s.job.Rate)
	due := time.Now()
	s.board.tickOrigin.Store(due.UnixNano())
	for k := uint64(0); s.board.phase.Load() < phaseExit; k++ {
		time.Sleep(time.Until(due))
		start := time.Now()
		if err := pass(k, paceStamp(due, start)); err != nil {
			s.fail(fmt.Errorf("tick: %w", err))
			return
		}
		if s.board.phase.Load() == phaseMeasure {
			s.mu.Lock()
			s.passes.add(time.Since(start) / time.Duration(len(s.targets)))
			s.mu.Unlock()
		}
		due = due.Add(period)
	}
}

// paceStamp returns the time from which the latency of a message counts: when it
// was sent, but not much later than it was due.
func paceStamp(due, now time.Time) time.Time {
	if latest := due.Add(paceSlack); now.After(latest) {
		return latest
	}
	return now
}

// sendState writes to each client a message of its own.
func (s *server) sendState(k uint64, sent time.Time) error {
	msg := newMessage(s.job.Size)
	for _, t := range s.targets {
		number(msg, t.client, k)
		stampAt(msg, sent)
		if err := t.link.WriteMessage(msg); err != nil {
			return err
		}
		s.board.clients[t.client%maxClients].written.Add(1)
	}
	return nil
}

// fanOut returns what writes one message to all clients, in the way of the peer,
// or by a loop.
func (s *server) fanOut() func(k uint64, sent time.Time) error {
	links := make([]link, len(s.targets))
	for i, t := range s.targets {
		links[i] = t.link
	}
	writeAll := func(msg []byte) error {
		for _, l := range links {
			if err := l.WriteMessage(msg); err != nil {
				return err
			}
		}
		return nil
	}
	if s.peer.fanOut != nil {
		writeAll = s.peer.fanOut(links)
	}
	msg := newMessage(s.job.Size)
	return func(k uint64, sent time.Time) error {
		number(msg, 0, k)
		stampAt(msg, sent)
		s.board.clients[0].written.Add(uint64(len(links)))
		return writeAll(msg)
	}
}

// fail notes the first error while the clients are there.
func (s *server) fail(err error) {
	if s.board.phase.Load() >= phaseDone {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.err = err
	}
}

// game adds what the server knows of modes game and fan-out.
func (s *server) game(r *result) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	r.Pass50, r.Pass99 = s.passes.quantile(.5), s.passes.quantile(.99)
	return s.err
}
