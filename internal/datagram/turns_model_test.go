package datagram

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"volley/internal/deadline"
	"volley/internal/inbox"
	"volley/internal/socket"
	"volley/internal/wire"
)

// A steppedSocket can be read in every way, and is filled by the test.
type steppedSocket struct {
	*fakeSocket
	mu       sync.Mutex
	queue    []socket.Packet
	broken   error
	deadline time.Time
	changed  chan struct{} // closed at every change
	sleeper  socket.Sleeper
	readers  int // in ReadLoop or ReadStep
	serves   int // calls of ReadLoop
}

func newSteppedSocket() *steppedSocket {
	return &steppedSocket{fakeSocket: newFakeSocket(), changed: make(chan struct{})}
}

// change makes a change and wakes who waits.
func (s *steppedSocket) change(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
	close(s.changed)
	s.changed = make(chan struct{})
}

// push gives the socket something to receive.
func (s *steppedSocket) push(ps ...socket.Packet) {
	s.change(func() {
		s.queue = append(s.queue, ps...)
		if s.sleeper != nil {
			go s.sleeper.WakeUp()
			s.sleeper = nil
		}
	})
}

func (s *steppedSocket) SetReadDeadline(t time.Time) error {
	s.change(func() { s.deadline = t })
	return nil
}

func (s *steppedSocket) Close() error {
	s.fakeSocket.Close()
	s.change(func() { s.sleeper = nil })
	return nil
}

func (s *steppedSocket) WakeOnPacket(sleeper socket.Sleeper) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sleeper = sleeper
	if s.closed() {
		return net.ErrClosed
	}
	if sleeper != nil && len(s.queue) > 0 {
		go s.sleeper.WakeUp()
		s.sleeper = nil
	}
	return nil
}

func (s *steppedSocket) Features() socket.Features {
	return socket.Features{Loop: s, Steps: s, Notifier: s, Deadline: s}
}

func (s *steppedSocket) ReadLoop(handle func([]socket.Packet)) error { return s.serve(handle, false) }
func (s *steppedSocket) ReadStep(handle func([]socket.Packet)) error { return s.serve(handle, true) }

func (s *steppedSocket) serve(handle func([]socket.Packet), once bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.readers++; s.readers > 1 {
		panic("two read the socket at once")
	}
	defer func() { s.readers-- }()
	if !once {
		s.serves++
	}
	for {
		switch {
		case s.closed():
			return net.ErrClosed
		case s.broken != nil:
			return s.broken
		case !s.deadline.IsZero() && !time.Now().Before(s.deadline):
			return os.ErrDeadlineExceeded
		case len(s.queue) > 0:
			ps := s.queue
			s.queue = nil
			s.hand(ps, handle)
			if once {
				return nil
			}
		default:
			s.wait()
		}
	}
}

func (s *steppedSocket) hand(ps []socket.Packet, handle func([]socket.Packet)) {
	s.mu.Unlock()
	defer s.mu.Lock()
	handle(ps)
}

// wait waits for a change or the deadline.
func (s *steppedSocket) wait() {
	changed, at := s.changed, s.deadline
	s.mu.Unlock()
	defer s.mu.Lock()
	if at.IsZero() {
		<-changed
		return
	}
	timer := time.NewTimer(time.Until(at))
	defer timer.Stop()
	select {
	case <-changed:
	case <-timer.C:
	}
}

// A turnsModel is a Single whose application does as it likes, at random. It has
// several inboxes with readers of their own, as a protocol of channels has.
type turnsModel struct {
	t        *testing.T
	sock     *steppedSocket
	conn     *Single
	channels []*modelChannel

	mu      sync.Mutex  // guards blocked of the channels, too
	sent    []time.Time // when each packet was pushed
	handled int
}

type modelChannel struct {
	in      inbox.Inbox
	read    deadline.Deadline
	blocked int // callers in Read
}

func newTurnsModel(t *testing.T, channels int) *turnsModel {
	m := &turnsModel{t: t, sock: newSteppedSocket()}
	m.conn = NewSingle(m.sock, nil, 1000)
	for range channels {
		ch := new(modelChannel)
		ch.in.Init(1<<20, nil)
		ch.in.SetPoller(m.conn)
		m.channels = append(m.channels, ch)
	}
	h := &fakeHandler{
		batch: func(bufs [][]byte, _ *wire.Batch) {
			for _, b := range bufs {
				ch := m.channels[b[0]]
				ch.in.Lock()
				ch.in.Push(b)
				ch.in.Unlock()
			}
			m.mu.Lock()
			defer m.mu.Unlock()
			m.handled += len(bufs)
		},
		close: func(err error) {
			for _, ch := range m.channels {
				ch.in.End(err)
			}
		},
	}
	if err := m.conn.Attach(h); err != nil {
		t.Fatal(err)
	}
	return m
}

// close ends the connection and the readers.
func (m *turnsModel) close() {
	m.conn.Close()
	for _, ch := range m.channels {
		ch.in.Fail(net.ErrClosed)
	}
}

// reader reads, with breaks.
func (m *turnsModel) reader(ch *modelChannel, r *rand.Rand) {
	var b [100]byte
	for {
		if r.IntN(4) == 0 {
			ch.read.Set(time.Now().Add(time.Duration(r.IntN(10)) * time.Millisecond))
			ch.in.Interrupt()
		} else if r.IntN(4) == 0 {
			ch.read.Set(time.Time{})
			ch.in.Interrupt()
		}
		m.enter(ch, 1)
		_, _, err := ch.in.Read(b[:], &ch.read)
		m.enter(ch, -1)
		switch {
		case err == nil:
		case os.IsTimeout(err):
			ch.read.Set(time.Time{})
			ch.in.Interrupt()
		default:
			return
		}
		if r.IntN(3) == 0 {
			time.Sleep(time.Duration(r.IntN(30)) * time.Millisecond)
		}
	}
}

func (m *turnsModel) enter(ch *modelChannel, n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	ch.blocked += n
}

// longestWait is how long a packet may wait: an alarm that puts itself off does so
// by at least minTick.
const longestWait = inlinePatience + minTick

// check looks at the state when nothing is left to do at this time.
func (m *turnsModel) check() {
	m.mu.Lock()
	defer m.mu.Unlock()
	inSocket := len(m.sent) - m.handled
	if inSocket > 0 {
		if late := time.Since(m.sent[m.handled]); late > longestWait {
			m.t.Fatalf("a packet waits %v in the socket", late)
		}
	}
	for i, ch := range m.channels {
		if ch.blocked > 0 && (inSocket > 0 || ch.in.Len() > 0) {
			m.t.Fatalf("%d callers are in Read of channel %d, while %d packets are in the socket and %d bytes in the inbox",
				ch.blocked, i, inSocket, ch.in.Len())
		}
	}
}

func (m *turnsModel) push(channel int) {
	m.mu.Lock()
	m.sent = append(m.sent, time.Now())
	m.mu.Unlock()
	m.sock.push(from(peerAddr(1), string(rune(channel)))...)
}

// Whatever callers of Read do, the packets that come go to them at once, or are
// read within inlinePatience if there are none.
func TestTurnsModel(t *testing.T) {
	rounds := 300
	if testing.Short() {
		rounds = 30
	}
	for seed := range uint64(rounds) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { runTurnsModel(t, seed) })
		})
	}
}

func runTurnsModel(t *testing.T, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 1))
	m := newTurnsModel(t, 1+r.IntN(3))
	var wg sync.WaitGroup
	defer func() {
		m.close()
		wg.Wait()
	}()
	for range r.IntN(4) {
		own := rand.New(rand.NewPCG(seed, r.Uint64()))
		ch := m.channels[own.IntN(len(m.channels))]
		wg.Go(func() { m.reader(ch, own) })
	}
	longest := []time.Duration{time.Millisecond, 20 * time.Millisecond, 3 * sleepAfter}
	for range 200 {
		end := time.Now().Add(time.Duration(r.Int64N(int64(longest[r.IntN(len(longest))]))))
		for step := time.Millisecond; time.Now().Before(end); step += step / 4 {
			time.Sleep(min(time.Until(end), step))
			synctest.Wait()
			m.check()
		}
		for range r.IntN(3) {
			m.push(r.IntN(len(m.channels)))
		}
		synctest.Wait()
		m.check()
	}
}
