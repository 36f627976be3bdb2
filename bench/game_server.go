package main

import (
	"fmt"
	"iter"
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
	for {
		msg, err := l.ReadMessage(buf)
		if err != nil || s.gameMessage(l, msg) != nil {
			return
		}
	}
}

// gameMessage takes a message of a link, or answers it.
func (s *server) gameMessage(l link, msg []byte) error {
	client, n, _, ok := inspect(msg, s.job.Size)
	score := &s.board.clients[client%maxClients]
	switch {
	case !ok:
		score.bad.Add(1)
	case n == helloNumber:
		if err := l.WriteMessage(msg); err != nil {
			return err
		}
		s.join(l, client)
	case s.job.Style == styleEcho:
		score.received.Add(1)
		if err := l.WriteMessage(msg); err != nil {
			s.fail(fmt.Errorf("answer: %w", err))
			return err
		}
		score.written.Add(1)
	default:
		score.received.Add(1)
	}
	return nil
}

// A handlerListener has no goroutine for a link: it calls a handler.
type handlerListener interface {
	listener
	// Serve calls handle for each message until the listener is closed.
	Serve(handle func(l link, msg []byte)) error
}

// A pollListener is polled by the server.
type pollListener interface {
	listener
	// Poll calls handle for each message that has arrived.
	Poll(handle func(l link, msg []byte)) error
}

// pollEvery is how often a server polls that has no tick of its own.
const pollEvery = time.Millisecond

// servePolled polls. A server that ticks does so before each pass, when all
// clients are there.
func (s *server) servePolled(l pollListener) {
	handle := func(l link, msg []byte) { _ = s.gameMessage(l, msg) }
	for s.board.phase.Load() < phaseExit {
		if err := l.Poll(handle); err != nil {
			return
		}
		if s.ticks() {
			s.tickPolled(func() error { return l.Poll(handle) })
			return
		}
		time.Sleep(pollEvery)
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
	if _, polled := s.ln.(pollListener); !polled && s.job.Style != styleEcho {
		go s.tick(s.pass())
	}
}

// ticks reports whether all clients of a server that ticks are there.
func (s *server) ticks() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.job.Style != styleEcho && len(s.targets) >= s.job.Clients
}

// pass returns what a server does at each tick.
func (s *server) pass() func(k uint64, sent time.Time) error {
	if s.job.Style == styleTick {
		return s.sendState
	}
	return s.fanOut()
}

// tickPolled is tick with a poll before each pass.
func (s *server) tickPolled(poll func() error) {
	pass := s.pass()
	s.tick(func(k uint64, sent time.Time) error {
		if err := poll(); err != nil {
			return err
		}
		return pass(k, sent)
	})
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
	msgs := s.state(k, sent)
	if s.peer.sendEach != nil {
		return s.peer.sendEach(msgs)
	}
	for l, msg := range msgs {
		if err := l.WriteMessage(msg); err != nil {
			return err
		}
	}
	return nil
}

// state returns the messages of a tick, which share their memory.
func (s *server) state(k uint64, sent time.Time) iter.Seq2[link, []byte] {
	return func(yield func(link, []byte) bool) {
		msg := newMessage(s.job.Size)
		for _, t := range s.targets {
			number(msg, t.client, k)
			stampAt(msg, sent)
			s.board.clients[t.client%maxClients].written.Add(1)
			if !yield(t.link, msg) {
				return
			}
		}
	}
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
