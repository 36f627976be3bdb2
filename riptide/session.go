package riptide

import (
	"context"
	"errors"
	"log/slog"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"volley/internal/datagram"
	"volley/internal/wire"
)

// Kinds of events beside user messages, which have the packetType of their mode. Methods of
// session append their bodies and take them apart.
const (
	eventConnected packetType = 0x20 + iota
	eventClient
	eventDelivered
	eventFate
	eventEnded
)

// An owner is what a session belongs to: a Peer or a Client.
type owner interface {
	// event handles an event, on the session's own goroutine.
	event(kind packetType, body []byte, m *Message)
	// wants reports whether anybody is interested in a kind of event.
	wants(kind packetType) bool
	// requested, joined and left are called with the session locked, when a
	// client has asked to be accepted, and when the connection begins and ends.
	// Only requested may use the connection. If joined reports false, the
	// application does not learn of it.
	requested(now time.Time, data []byte, out *wire.Batch)
	joined() bool
	left(end)
	// panicked is called with what a function of the application has panicked
	// with. It ends the connection.
	panicked(any)
	// started and stopped enclose the life of the session's goroutine.
	started()
	stopped()
}

// A session gives a connection the datagrams and the time of a transport. A
// goroutine, which exists while there are events, hands these to the application.
type session struct {
	owner owner
	conn  datagram.Conn
	set   *settings
	run   func() // dispatch, made once
	born  time.Time

	held   atomic.Int64 // bytes of events that wait or are being handled
	broken bool         // a function has panicked; belongs to dispatch

	// mu guards everything below. It is never held while something is sent,
	// or while code of the application runs.
	mu      sync.Mutex
	core    connection
	events  *queue // what waits; nil if nothing does
	running bool   // the goroutine is there
	armed   time.Time
	closed  bool          // the conn is being closed
	greeted chan struct{} // to be closed once a client's answer to the welcome has left
	asked   bool          // a client has asked to be accepted
	data    []byte        // with this, a body
}

var _ datagram.Handler = (*session)(nil)

func (s *session) init(o owner, conn datagram.Conn, set *settings, as side, now time.Time) {
	s.owner, s.conn, s.set, s.born = o, conn, set, now
	s.run = s.dispatch
	s.core.init(set, as, now, (*sessionEvents)(s))
}

// HandleBatch implements datagram.Handler.
func (s *session) HandleBatch(now time.Time, bufs [][]byte, out *wire.Batch) {
	s.mu.Lock()
	for _, b := range bufs {
		s.core.receive(now, b, out)
	}
	if s.asked {
		s.asked = false
		if s.core.state == statePending { // and has not gone since
			s.owner.requested(now, s.data, out)
		}
		s.data = nil
	}
	s.unlock(out)
}

// HandleTick implements datagram.Handler.
func (s *session) HandleTick(now time.Time, out *wire.Batch) (next time.Time) {
	s.mu.Lock()
	unread := false
	if s.core.sender.isDue(now) {
		unread = s.unread()
	}
	next = s.core.tick(now, unread, out)
	s.armed = next
	s.unlock(out)
	return next
}

// unread reports whether datagrams have come that HandleBatch was not given.
func (s *session) unread() bool {
	f := s.conn.Features().Unread
	return f != nil && f.Unread()
}

// HandleClose implements datagram.Handler.
func (s *session) HandleClose(err error) {
	reason := endTransport
	if errors.Is(err, errSlow) {
		reason = endPoor
	}
	s.end(reason)
}

// WaitRoom implements datagram.Handler.
func (s *session) WaitRoom(int, <-chan struct{}) error { return nil }

// end ends the connection without a word to the other side.
func (s *session) end(reason endReason) {
	s.mu.Lock()
	s.core.end(reason, 0, nil)
	s.unlock(nil)
}

// schedule asks for the first tick.
func (s *session) schedule() {
	s.mu.Lock()
	s.unlock(nil)
}

// stats returns the connection's counters and figures.
func (s *session) stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.core.stats()
}

// waiting returns the number of reliable messages without an acknowledgement.
func (s *session) waiting() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.core.sender.waiting()
}

func (s *session) change(f func(*settings)) {
	s.mu.Lock()
	set := *s.core.set
	f(&set)
	s.core.set = &set
	s.unlock(nil)
}

// do runs f with the connection, and sends what it appends.
func (s *session) do(f func(now time.Time, c *connection, out *wire.Batch)) {
	out := datagram.GetBatch()
	defer datagram.PutBatch(out)
	now := time.Now()
	s.mu.Lock()
	f(now, &s.core, out)
	s.unlock(out)
	s.conn.WriteBatch(out)
}

// unlock schedules tick and events, or at the end sends out and closes the transport.
func (s *session) unlock(out *wire.Batch) {
	if s.greeted != nil {
		s.greetUnlocking(out)
	}
	next := s.core.next()
	arm := !next.IsZero() && (s.armed.IsZero() || next.Before(s.armed))
	if arm {
		s.armed = next
	}
	if s.events != nil && !s.running {
		s.running = true
		s.owner.started()
		go s.run()
	}
	ended := s.core.state == stateClosed && !s.closed
	s.closed = s.closed || ended
	s.mu.Unlock()
	switch {
	case ended:
		if out != nil {
			s.conn.WriteBatch(out)
			out.Reset()
		}
		s.conn.Close()
	case arm:
		s.conn.Schedule(next)
	}
}

// greetUnlocking sends a client's answer first, so that no message overtakes it.
func (s *session) greetUnlocking(out *wire.Batch) {
	greeted := s.greeted
	s.greeted = nil
	s.mu.Unlock()
	s.conn.WriteBatch(out)
	out.Reset()
	close(greeted)
	s.mu.Lock()
}

// send sends a message. It returns ErrSendBuffer if too much waits.
func (s *session) send(m *Message) (id uint16, err error) {
	out := datagram.GetBatch()
	defer datagram.PutBatch(out)
	now := time.Now()
	s.mu.Lock()
	id, err = s.core.send(now, m.mode, m.body(), out)
	s.unlock(out)
	if err != nil {
		return 0, err
	}
	s.conn.WriteBatch(out) // errors of the socket are losses
	return id, nil
}

// gather is send, but what leaves may wait for g to be flushed.
func (s *session) gather(g *datagram.Gathering, m *Message) error {
	gatherer := s.conn.Features().Gather
	if gatherer == nil {
		_, err := s.send(m)
		return err
	}
	out := gatherer.Gather(g)
	before := out.Len()
	now := g.Now()
	s.mu.Lock()
	_, err := s.core.send(now, m.mode, m.body(), out)
	s.unlock(nil)
	if out.Len() > before { // else it waits for its window
		gatherer.Gathered(g, nil)
	}
	return err
}

// sendable returns an error if a message cannot be sent.
func (s *settings) sendable(m *Message) error {
	switch {
	case m == nil:
		return errNilMessage
	case m.err != nil:
		return m.err
	case m.maxPayload == 0:
		return errUnmade
	case !m.mode.valid(): // of data, or Rewind has forgotten the error
		return &modeError{m.mode}
	case m.layout != s.layout:
		return errLayout
	case len(m.body())+s.layout.headerBits(m.mode)/8 > s.maxPayload+maxHeaderSize:
		return ErrMessageFull
	}
	return nil
}

// dataBody returns data as the body of a datagram; nil if there is none.
func (s *settings) dataBody(data *Message) ([]byte, error) {
	if data == nil {
		return nil, nil
	}
	m := messages.Get().(*Message)
	defer m.release()
	m.init(s.layout, Unreliable, s.maxPayload)
	m.AddRest(data)
	if m.err != nil || m.BitLen() == 0 {
		return nil, m.err
	}
	return append([]byte(nil), m.body()...), nil
}

// messages are the memory of messages that only this package uses.
var messages = sync.Pool{New: func() any { return new(Message) }}

// maxPooled is the largest buffer in bytes that is kept for reuse.
const maxPooled = 8 << 10

func (m *Message) release() {
	if cap(m.buf) <= maxPooled {
		messages.Put(m)
	}
}

// queues are the memory of events, for sessions that have some.
var queues = sync.Pool{New: func() any { return new(queue) }}

// putQueue gives an empty queue back.
func putQueue(q *queue) {
	if !q.isLarge() {
		queues.Put(q)
	}
}

// dispatch hands events to the owner until there are none.
func (s *session) dispatch() {
	defer s.owner.stopped()
	m := messages.Get().(*Message)
	defer m.release()
	s.mu.Lock()
	for s.events != nil {
		q := s.events
		s.events = nil
		s.mu.Unlock()
		for q.len() > 0 {
			kind, body := q.pop()
			s.give(kind, body, m)
			s.held.Add(-eventCost(body))
		}
		putQueue(q)
		s.mu.Lock()
	}
	s.running = false
	s.mu.Unlock()
}

// give hands an event to the owner; after a panic of the application only the end.
func (s *session) give(kind packetType, body []byte, m *Message) {
	if s.broken && kind != eventEnded {
		return
	}
	defer func() {
		if v := recover(); v != nil {
			s.broken = true
			s.owner.panicked(v)
		}
	}()
	s.owner.event(kind, body, m)
}

func eventCost(body []byte) int64 { return int64(len(body) + messageCost) }

// sessionEvents is a session as its connection sees it. The session is locked.
type sessionEvents session

var _ events = (*sessionEvents)(nil)

// push queues an event whatever waits.
func (s *sessionEvents) push(kind packetType, body []byte) {
	if s.events == nil {
		s.events = queues.Get().(*queue)
	}
	s.held.Add(eventCost(body))
	s.events.push(kind, body)
}

func (s *sessionEvents) offer(kind packetType, body []byte) bool {
	if s.held.Load()+eventCost(body) > int64(s.set.readBuffer) {
		return false
	}
	s.push(kind, body)
	return true
}

func (s *sessionEvents) received(m Mode, body []byte) bool { return s.offer(typeOf(m), body) }

func (s *sessionEvents) client(id uint16, here bool) bool {
	if !s.owner.wants(eventClient) {
		return true
	}
	return s.offer(eventClient, []byte{byte(id), byte(id >> 8), flag(here)})
}

func (s *sessionEvents) delivered(id uint16) {
	if s.owner.wants(eventDelivered) {
		s.push(eventDelivered, []byte{byte(id), byte(id >> 8)})
	}
}

func (s *sessionEvents) notifyFate(id uint16, delivered, _ bool) {
	if s.owner.wants(eventFate) {
		s.push(eventFate, []byte{byte(id), byte(id >> 8), flag(delivered)})
	}
}

func flag(b bool) byte {
	if b {
		return 1
	}
	return 0
}

func (s *sessionEvents) connected(uint16) {
	if s.owner.joined() {
		s.push(eventConnected, nil)
	}
}

func (s *sessionEvents) request(data []byte) {
	s.asked, s.data = true, append([]byte(nil), data...)
}

func (s *sessionEvents) ended(reason endReason, rejected rejectReason, data []byte) {
	s.push(eventEnded, append([]byte{byte(reason), byte(rejected)}, data...))
	s.owner.left(end{reason, rejected, data})
}

func eventID(body []byte) uint16 { return uint16(body[0]) | uint16(body[1])<<8 }

func (s *settings) loadData(body []byte) *Message {
	m := new(Message)
	m.load(s.layout, Unreliable, body)
	m.mode = 0
	return m
}

// errPanicked is the error of Server.Accept if it has panicked.
var errPanicked = errors.New("riptide: Accept panicked")

// logPanic logs a panic of the application. The recovering function calls it.
func logPanic(l *slog.Logger, value any, attrs ...slog.Attr) {
	if l == nil {
		l = slog.Default()
	}
	attrs = append(attrs, slog.Any("panic", value), slog.String("stack", string(debug.Stack())))
	l.LogAttrs(context.Background(), slog.LevelError, "riptide: a function of the application panicked", attrs...)
}
