package world

import (
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"volley/simnet"
)

// A socket is one of a simulated network to which faults happen.
type socket struct {
	*simnet.Conn

	mu       sync.Mutex
	dead     bool        // the process is gone: nothing leaves any more
	pause    time.Time   // until when nothing is read or sent
	deadline time.Time   // of reads
	held     *datagram   // read while the process stands still
	forged   []*datagram // that arrive next
	past     *past       // what has come; nil: nobody asks for it
	reads    trouble
	writes   trouble
	lies     trouble
}

// A trouble is what the system does to some of the calls for a while.
type trouble struct {
	until time.Time
	share float64       // of the calls
	errno syscall.Errno // 0: each call has one of all that pass
	draws *rand.Rand
}

// strikes reports whether a call is one of them.
func (t *trouble) strikes() bool {
	return t.draws != nil && time.Now().Before(t.until) && t.draws.Float64() < t.share
}

// passing are errors of the system that pass.
var passing = []syscall.Errno{syscall.ENOBUFS, syscall.EAGAIN, syscall.EPERM, syscall.ECONNREFUSED, syscall.EHOSTUNREACH,
	syscall.ENETUNREACH, syscall.ENETDOWN, syscall.EMSGSIZE, syscall.EINTR, syscall.ENOMEM, syscall.EIO, syscall.EINVAL, syscall.EACCES}

// gone are errors of the system that say that the socket is gone.
var gone = []syscall.Errno{syscall.EBADF, syscall.ENOTSOCK, syscall.EPIPE, syscall.ESHUTDOWN, syscall.ENOTCONN, syscall.ENOSYS}

// lastErrno is the largest error of the system.
const lastErrno = 133

// draw returns an error of the system that passes.
func draw(r *rand.Rand) syscall.Errno {
	for {
		if e := syscall.Errno(1 + r.IntN(lastErrno)); !slices.Contains(gone, e) {
			return e
		}
	}
}

// trouble begins a trouble.
func (s *socket) trouble(f fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := trouble{time.Now().Add(f.lasts), f.amount, passing[f.seed%uint64(len(passing))], rand.New(rand.NewPCG(f.seed, 0))}
	switch f.kind {
	case deaf:
		s.reads = t
	case mute:
		s.writes = t
	case lie:
		s.lies = t
	case broken:
		t.errno, t.share = gone[f.seed%uint64(len(gone))], 1
		s.reads, s.writes = t, t
	case errnos:
		t.errno = 0
		s.reads = t
		t.draws = rand.New(rand.NewPCG(f.seed, 1))
		s.writes = t
	}
}

// refused returns the error of a call, or nil.
func (s *socket) refused(t *trouble, op string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !t.strikes() {
		return nil
	}
	errno := t.errno
	if errno == 0 {
		errno = draw(t.draws)
	}
	return &net.OpError{Op: op, Net: "udp", Err: os.NewSyscallError(op, errno)}
}

// lie returns what leaves in the place of a datagram.
func (s *socket) lie(b []byte) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.lies.strikes() {
		return b
	}
	return garble(s.lies.draws, b)
}

// garble returns a changed copy of a datagram.
func garble(r *rand.Rand, b []byte) []byte {
	if len(b) == 0 {
		return b
	}
	b = slices.Clone(b)
	switch r.IntN(5) {
	case 0: // other bytes
		for range 1 + r.IntN(8) {
			b[r.IntN(len(b))] = byte(r.Uint32())
		}
	case 1: // in the header
		b[r.IntN(min(len(b), 12))] ^= 1 << r.IntN(8)
	case 2: // cut
		b = b[:r.IntN(len(b))]
	case 3: // longer
		for range r.IntN(200) {
			b = append(b, byte(r.Uint32()))
		}
	default: // nothing of it
		for i := range b {
			b[i] = byte(r.Uint32())
		}
	}
	return b
}

// A datagram is one with its sender.
type datagram struct {
	buf  []byte
	from netip.AddrPort
}

var _ net.PacketConn = (*socket)(nil)

// SetReadDeadline implements net.PacketConn.
func (s *socket) SetReadDeadline(t time.Time) error {
	s.mu.Lock()
	s.deadline = t
	s.mu.Unlock()
	return s.Conn.SetReadDeadline(t)
}

// SetDeadline implements net.PacketConn.
func (s *socket) SetDeadline(t time.Time) error {
	s.SetReadDeadline(t)
	return s.Conn.SetWriteDeadline(t)
}

// ReadFromUDPAddrPort reads a datagram. One that comes while the process stands still waits.
func (s *socket) ReadFromUDPAddrPort(b []byte) (int, netip.AddrPort, error) {
	d, err := s.next(b)
	if err != nil {
		return 0, netip.AddrPort{}, err
	}
	if err := s.refused(&s.reads, "recvfrom"); err != nil {
		return 0, netip.AddrPort{}, err // the datagram is lost
	}
	for {
		wait, late := s.standing()
		switch {
		case wait <= 0:
			return copy(b, d.buf), d.from, nil
		case s.gone():
			return 0, netip.AddrPort{}, net.ErrClosed
		case late:
			s.mu.Lock()
			s.held = d
			s.mu.Unlock()
			return 0, netip.AddrPort{}, os.ErrDeadlineExceeded
		}
		time.Sleep(min(wait, 20*time.Millisecond))
	}
}

// next returns the datagram that was held, one that a stranger has sent, or reads one into b.
func (s *socket) next(b []byte) (*datagram, error) {
	s.mu.Lock()
	d := s.held
	s.held = nil
	if d == nil && len(s.forged) > 0 {
		d, s.forged = s.forged[0], s.forged[1:]
	}
	s.mu.Unlock()
	if d != nil {
		return d, nil
	}
	n, from, err := s.Conn.ReadFromUDPAddrPort(b)
	if err != nil {
		return nil, err
	}
	traceDatagram(s.LocalAddr(), from, b[:n])
	s.mu.Lock()
	s.past.note(from, b[:n])
	s.mu.Unlock()
	d = &datagram{from: from}
	if wait, _ := s.standing(); wait > 0 {
		d.buf = append(d.buf, b[:n]...) // because b may be another one when it is given out
	} else {
		d.buf = b[:n]
	}
	return d, nil
}

// standing returns how long the process stands still, and whether the deadline of reads is over.
func (s *socket) standing() (wait time.Duration, late bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Until(s.pause), !s.deadline.IsZero() && !time.Now().Before(s.deadline)
}

// mayHold returns how much memory the datagrams may take that wait in the socket because the process
// stands still, or because a function of a Handler waits. A buffer that was made smaller keeps what
// it holds, so that its size of now is no limit.
func (s *socket) mayHold(stalled bool) int64 {
	if wait, _ := s.standing(); wait <= 0 && !stalled {
		return 0
	}
	return socketBuffer / smallestPacket * datagramCost
}

func (s *socket) gone() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dead
}

// ReadFrom implements net.PacketConn.
func (s *socket) ReadFrom(b []byte) (int, net.Addr, error) {
	n, from, err := s.ReadFromUDPAddrPort(b)
	if err != nil {
		return n, nil, err
	}
	return n, net.UDPAddrFromAddrPort(from), nil
}

// WriteToUDPAddrPort sends a datagram, unless the process is gone or stands still.
func (s *socket) WriteToUDPAddrPort(b []byte, to netip.AddrPort) (int, error) {
	s.mu.Lock()
	silent := s.dead || time.Now().Before(s.pause)
	s.mu.Unlock()
	if silent {
		return len(b), nil
	}
	if err := s.refused(&s.writes, "sendto"); err != nil {
		return 0, err
	}
	if _, err := s.Conn.WriteToUDPAddrPort(s.lie(b), to); err != nil {
		return 0, err
	}
	return len(b), nil
}

// WriteTo implements net.PacketConn.
func (s *socket) WriteTo(b []byte, to net.Addr) (int, error) {
	return s.WriteToUDPAddrPort(b, to.(*net.UDPAddr).AddrPort())
}

// A past is what a socket has received, for forgers.
type past struct {
	senders []netip.AddrPort // the newest of them
	recent  [][]byte
	n       int
}

func (p *past) note(from netip.AddrPort, b []byte) {
	if p == nil {
		return
	}
	if !slices.Contains(p.senders, from) {
		if len(p.senders) == 50 {
			p.senders = p.senders[1:]
		}
		p.senders = append(p.senders, from)
	}
	if len(p.recent) < 20 {
		p.recent = append(p.recent, nil)
	}
	p.recent[p.n%len(p.recent)] = slices.Clone(b)
	p.n++
}

// sender returns a peer that the socket has heard.
func (s *socket) sender(r *rand.Rand) (from netip.AddrPort, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.past == nil || len(s.past.senders) == 0 {
		return from, false
	}
	return s.past.senders[r.IntN(len(s.past.senders))], true
}

// heard returns a datagram that the socket has received, or nil.
func (s *socket) heard(r *rand.Rand) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.past == nil || len(s.past.recent) == 0 {
		return nil
	}
	return slices.Clone(s.past.recent[r.IntN(len(s.past.recent))])
}

// inherit gives the socket the troubles of another one of its process.
func (s *socket) inherit(from *socket) {
	from.mu.Lock()
	defer from.mu.Unlock()
	s.pause, s.reads, s.writes, s.lies = from.pause, from.reads, from.writes, from.lies
	for _, t := range []*trouble{&s.reads, &s.writes, &s.lies} {
		if t.draws != nil {
			t.draws = rand.New(rand.NewPCG(t.draws.Uint64(), 0))
		}
	}
}

// stand makes the process stand still for a while.
func (s *socket) stand(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pause = time.Now().Add(d)
}

// Close implements net.PacketConn.
func (s *socket) Close() error {
	s.mu.Lock()
	s.dead = true
	s.mu.Unlock()
	return s.Conn.Close()
}

// inject lets a datagram arrive that nobody on the network has sent. It is read with the next one.
func (s *socket) inject(buf []byte, from netip.AddrPort) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.forged) < 1000 {
		s.forged = append(s.forged, &datagram{buf, from})
	}
}
