package socket

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// A packetIO moves one datagram a call on whatever a plainSocket stands on.
type packetIO interface {
	readFrom(b []byte) (int, netip.AddrPort, error)
	writeTo(b []byte, addr netip.AddrPort) error
}

// A plainSocket moves one datagram a call, on any platform and net.PacketConn.
type plainSocket struct {
	pc   net.PacketConn
	io   packetIO
	buf  []byte // made by the first ReadBatch, which alone uses it
	open openState

	readCalls, sendCalls, retried atomic.Uint64
}

var _ Socket = (*plainSocket)(nil)

// NewPacket returns a Socket on any net.PacketConn, which it takes over. It moves one
// datagram a call, without allocation if pc has a net.UDPConn's AddrPort methods. Addresses
// other than UDP's get a stand-in, see [AddrMapper].
func NewPacket(pc net.PacketConn) Socket {
	switch c := pc.(type) {
	case *net.UDPConn:
		return newPlainSocket(c)
	case addrPortConn:
		forgetDeadlines(pc)
		return &plainSocket{pc: pc, io: addrPortIO{c}}
	}
	forgetDeadlines(pc)
	return newStandInSocket(pc)
}

func forgetDeadlines(pc net.PacketConn) { pc.SetDeadline(time.Time{}) }

// ForgetPassed takes back a read deadline that has passed.
func ForgetPassed(err error, c interface{ SetReadDeadline(time.Time) error }) {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		c.SetReadDeadline(time.Time{})
	}
}

func newPlainSocket(c *net.UDPConn) *plainSocket {
	forgetDeadlines(c)
	if peer := remoteAddrPort(c); peer.IsValid() {
		s := &plainSocket{pc: c}
		s.io = connectedIO{c, peer, &s.retried}
		return s
	}
	return &plainSocket{pc: c, io: addrPortIO{c}}
}

// remoteAddrPort returns the peer of a connected socket, otherwise the zero AddrPort.
func remoteAddrPort(c *net.UDPConn) netip.AddrPort {
	addr, _ := c.RemoteAddr().(*net.UDPAddr)
	if addr == nil {
		return netip.AddrPort{}
	}
	return unmap(addr.AddrPort())
}

// unmap turns an IPv4-mapped address into a plain one, so that equal peers are equal.
func unmap(addr netip.AddrPort) netip.AddrPort {
	if !addr.Addr().Is4In6() {
		return addr
	}
	return netip.AddrPortFrom(addr.Addr().Unmap(), addr.Port())
}

// ReadBatch implements Socket.
func (s *plainSocket) ReadBatch(ps []Packet) (int, error) {
	if len(ps) == 0 {
		return 0, nil
	}
	if s.buf == nil {
		s.buf = make([]byte, maxDatagram)
	}
	n, addr, err := s.io.readFrom(s.buf)
	s.readCalls.Add(1)
	if err != nil {
		ForgetPassed(err, s.pc)
		return 0, s.open.explain(err)
	}
	ps[0] = Packet{Buf: s.buf[:n], Addr: addr}
	return 1, nil
}

// WriteBatch implements Socket. An error in a run does not stop the rest of the run.
func (s *plainSocket) WriteBatch(ps []Packet) (int, error) {
	for i := range ps {
		if err := s.writeRun(&ps[i]); err != nil {
			return i, s.open.explain(err)
		}
	}
	return len(ps), nil
}

// writeRun sends every datagram of p and returns the first error.
func (s *plainSocket) writeRun(p *Packet) (first error) {
	for datagram, rest := NextDatagram(p.Buf, p.Segment); ; datagram, rest = NextDatagram(rest, p.Segment) {
		s.sendCalls.Add(1)
		if err := s.io.writeTo(datagram, p.Addr); err != nil {
			if first == nil {
				first = err
			}
			if !IsTransient(err) {
				return first
			}
		}
		if len(rest) == 0 {
			return first
		}
	}
}

// LocalAddr implements Socket.
func (s *plainSocket) LocalAddr() net.Addr { return s.pc.LocalAddr() }

// Close implements Socket. Every call returns the result of the first.
func (s *plainSocket) Close() error { return s.open.close(s.pc.Close) }

// Features implements Socket.
func (s *plainSocket) Features() Features { return Features{Deadline: s.pc, System: systemOf(s.pc)} }

// Stats implements Socket.
func (s *plainSocket) Stats() Stats {
	st := ReadingOf(s.pc)
	st.ReadCalls, st.SendCalls, st.Retries = s.readCalls.Load(), s.sendCalls.Load(), s.retried.Load()
	return st
}

// ReadingOf returns what a foreign connection tells of its receive buffer, if anything.
func ReadingOf(c any) Stats {
	t, ok := c.(interface {
		Drops() uint64
		ReadBuffer() int
	})
	if !ok {
		return Stats{}
	}
	return Stats{Drops: uint32(t.Drops()), ReadBufferSize: t.ReadBuffer()}
}

// connectedIO is a dialed UDP socket.
type connectedIO struct {
	c       *net.UDPConn
	peer    netip.AddrPort
	retried *atomic.Uint64
}

func (io connectedIO) readFrom(b []byte) (int, netip.AddrPort, error) {
	n, err := io.c.Read(b)
	return n, io.peer, err
}

// writeTo sends b, twice if the first attempt met the error of an earlier datagram.
func (io connectedIO) writeTo(b []byte, _ netip.AddrPort) error {
	_, err := io.c.Write(b)
	if IsTransient(err) && !errors.Is(err, os.ErrDeadlineExceeded) {
		io.retried.Add(1)
		_, err = io.c.Write(b)
	}
	return err
}

// An addrPortConn is a net.PacketConn that can do without net.Addr.
type addrPortConn interface {
	ReadFromUDPAddrPort(b []byte) (n int, addr netip.AddrPort, err error)
	WriteToUDPAddrPort(b []byte, addr netip.AddrPort) (int, error)
}

// addrPortIO is an unconnected UDP socket or something that looks like one.
type addrPortIO struct{ c addrPortConn }

func (io addrPortIO) readFrom(b []byte) (int, netip.AddrPort, error) {
	n, addr, err := io.c.ReadFromUDPAddrPort(b)
	return n, unmap(addr), err
}

func (io addrPortIO) writeTo(b []byte, addr netip.AddrPort) error {
	_, err := io.c.WriteToUDPAddrPort(b, addr)
	return err
}

// openState makes Close of a socket idempotent and errors after it uniform.
type openState struct {
	once   sync.Once
	closed atomic.Bool
	busy   atomic.Bool             // whether packets are being handled within a read, see Looper
	after  atomic.Pointer[remains] // nil: the first close has left nothing to tell
}

// remains are what is left of a close.
type remains struct {
	err  error         // that it returns
	gone chan struct{} // closed when the socket has gone; nil: it has
}

func (o *openState) close(do func() error) error {
	o.once.Do(func() {
		o.closed.Store(true)
		if o.busy.Load() {
			// Close waits for the read under way, and may have been called from within it.
			gone := make(chan struct{})
			o.after.Store(&remains{gone: gone})
			go func() {
				defer close(gone)
				do()
			}()
			return
		}
		if err := do(); err != nil {
			o.after.Store(&remains{err: err})
		}
	})
	if r := o.after.Load(); r != nil {
		return r.err
	}
	return nil
}

// released returns nil, or what close has left to be waited for.
func (o *openState) released() <-chan struct{} {
	if r := o.after.Load(); r != nil && r.gone != nil {
		return r.gone
	}
	return nil
}

// explain returns err, or net.ErrClosed for whatever a closed net.PacketConn says.
func (o *openState) explain(err error) error {
	if o.closed.Load() && !errors.Is(err, net.ErrClosed) {
		return net.ErrClosed
	}
	return err
}
