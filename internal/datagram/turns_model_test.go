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
	return socket.Features{Loop: s, Steps: s, Notifier: s}
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

// A turnsModel is a Single whose application does as it likes, at random.
type turnsModel struct {
	t    *testing.T
	sock *steppedSocket
	conn *Single
	in   inbox.Inbox
	read deadline.Deadline

	mu      sync.Mutex
	blocked int         // callers in Read
	sent    []time.Time // when each packet was pushed
	handled int
}

func newTurnsModel(t *testing.T) *turnsModel {
	m := &turnsModel{t: t, sock: newSteppedSocket()}
	m.conn = NewSingle(m.sock, nil, nil, 1000)
	m.in.Init(1<<20, nil)
	m.in.SetPoller(m.conn)
	h := &fakeHandler{
		batch: func(bufs [][]byte, _ *wire.Batch) {
			m.in.Lock()
			defer m.in.Unlock()
			for _, b := range bufs {
				m.in.Push(b)
			}
			m.mu.Lock()
			defer m.mu.Unlock()
			m.handled += len(bufs)
		},
		close: func(err error) { m.in.End(err) },
	}
	if err := m.conn.Attach(h); err != nil {
		t.Fatal(err)
	}
	return m
}

// reader reads, with breaks.
func (m *turnsModel) reader(r *rand.Rand) {
	var b [100]byte
	for {
		if r.IntN(4) == 0 {
			m.read.Set(time.Now().Add(time.Duration(r.IntN(10)) * time.Millisecond))
			m.in.Interrupt()
		} else if r.IntN(4) == 0 {
			m.read.Set(time.Time{})
			m.in.Interrupt()
		}
		m.enter(1)
		_, _, err := m.in.Read(b[:], &m.read)
		m.enter(-1)
		switch {
		case err == nil:
		case os.IsTimeout(err):
			m.read.Set(time.Time{})
			m.in.Interrupt()
		default:
			return
		}
		if r.IntN(3) == 0 {
			time.Sleep(time.Duration(r.IntN(30)) * time.Millisecond)
		}
	}
}

func (m *turnsModel) enter(n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.blocked += n
}

// check looks at the state when nothing is left to do at this time.
func (m *turnsModel) check() {
	m.mu.Lock()
	defer m.mu.Unlock()
	inSocket := len(m.sent) - m.handled
	if inSocket > 0 {
		if late := time.Since(m.sent[m.handled]); late > inlinePatience {
			m.t.Fatalf("a packet waits %v in the socket", late)
		}
	}
	if m.blocked > 0 && (inSocket > 0 || m.in.Len() > 0) {
		m.t.Fatalf("%d callers are in Read, while %d packets are in the socket and %d bytes in the inbox",
			m.blocked, inSocket, m.in.Len())
	}
}

func (m *turnsModel) push() {
	m.mu.Lock()
	m.sent = append(m.sent, time.Now())
	m.mu.Unlock()
	m.sock.push(from(peerAddr(1), "x")...)
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
	m := newTurnsModel(t)
	var wg sync.WaitGroup
	defer func() {
		m.conn.Close()
		m.in.Fail(net.ErrClosed)
		wg.Wait()
	}()
	for range r.IntN(4) {
		own := rand.New(rand.NewPCG(seed, r.Uint64()))
		wg.Go(func() { m.reader(own) })
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
			m.push()
		}
		synctest.Wait()
		m.check()
	}
}
