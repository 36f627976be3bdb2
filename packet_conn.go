package volley

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"volley/internal/datagram"
	"volley/internal/deadline"
	"volley/internal/inbox"
	"volley/internal/listen"
	"volley/internal/registry"
	"volley/internal/socket"
	"volley/internal/watch"
)

// A PacketConn is a net.PacketConn of messages: one socket for all peers, as a
// net.UDPConn that is not connected. ReadFrom returns a whole message, of any
// peer, and its address; WriteTo sends one to any address. Each message is
// framed, split and acknowledged as by a [Conn], and both sides may use either
// of the two. Its methods may be called from several goroutines at once.
//
// On Linux, a PacketConn on all addresses, such as ":7777", answers from the address
// that it was asked at. A client that sends to two of our addresses counts as two
// peers. The net.Addr that ReadFrom returns leads back to the right one, although
// both look the same. WriteTo with another value, and WriteToUDPAddrPort, mean the
// first of them that has acknowledged something, until it has been silent for 3 s.
// So a forged datagram to another address does not turn answers away.
// To a peer that is not known the system chooses the address, as [Listen] says it
// does on other systems.
//
// There is nothing to accept, to dial or to close for a peer. A peer is
// known from its first message on. It is forgotten after Config.IdleTimeout without a
// message either way, and begins anew with the next one. Keepalives are not sent and
// do not count. So a Conn
// on the other side ends by its own IdleTimeout, unless messages flow.
//
// Towards a Conn it answers greetings, and its Close says goodbye. A peer that says
// goodbye is forgotten after 10 s, unless messages come. It greets peers that it
// writes to first. It refuses nobody, and neither ReadFrom nor WriteTo tells of a
// refusal or of the end of a peer: the next message begins anew.
//
// Peers need not forget each other at the same time, and one of them may be
// started again on its port. Then the other one notices by the next packet, and
// begins anew, too. No message is lost by that and none arrives twice, as long as no
// datagram lives in the network for longer than 10 s and IdleTimeout is 20 s or
// more. Otherwise, or if a peer comes back within 10 s of its last packet, its
// messages may be lost until it has heard this side again, and old copies may
// arrive. Copies may also arrive of messages that a peer sends before it has heard
// this side. That needs some that overtake more than 64 others: what comes late then
// looks like a peer that was started again.
//
// Like every socket of datagrams without authentication, a PacketConn takes a
// forged datagram for one of the peer it names.
type PacketConn struct {
	set  *settings
	idle clock // of peers, until they are forgotten; 0: they are not
	mux  *datagram.Mux
	sock socket.Socket
	ipv4 bool // the socket is one of the system that takes no other addresses

	told     unknownPeers // to be told that they are refused
	maxPeers int64
	filter   func(netip.AddrPort) bool
	budget   listen.Budget
	ended    registry.Ended
	peers    atomic.Int64
	born     atomic.Uint64 // peers so far
	admitted, filtered, refused,
	truncated atomic.Uint64

	in        inbox.Inbox // of all peers
	unsettled unsettled
	deadline  deadline.Deadline
	write     writeDeadline
	receipts  packetReceipts

	watch     *watch.Watch // nil without a Logger
	since     time.Time
	closed    atomic.Bool
	closeOnce sync.Once
	closeErr  error
}

var _ net.PacketConn = (*PacketConn)(nil)

// ListenUDP is [ListenPacket] for an address that is resolved, with the parameters of
// net.ListenUDP. With a nil laddr the system chooses a port on all addresses.
func ListenUDP(network string, laddr *net.UDPAddr) (*PacketConn, error) {
	pc, err := net.ListenUDP(network, laddr)
	if err != nil {
		return nil, err
	}
	c, err := NewPacketConn(pc, nil)
	if err != nil {
		pc.Close()
	}
	return c, err
}

// ListenPacket listens on a UDP address for messages of any peer. The network is
// "udp", "udp4" or "udp6"; the address is as for net.ListenPacket. Errors are
// those of net.ListenConfig.
func ListenPacket(network, address string) (*PacketConn, error) {
	var lc ListenConfig
	return lc.ListenPacket(context.Background(), network, address)
}

// ListenPacket is the function [ListenPacket] with options. Of these, MaxConns
// limits the peers that come by themselves, MaxMemory what all hold together;
// Config.ReadBuffer is for the messages of one peer, Config.Receipts for all,
// Config.KeepAlive means nothing. Backlog and AdmitMidStream mean nothing either,
// as every peer is taken in mid-stream; Sockets has to be 1. The context bounds
// the resolution of the address. Errors are those of net.ListenConfig and
// *[ConfigError].
func (lc *ListenConfig) ListenPacket(ctx context.Context, network, address string) (*PacketConn, error) {
	if err := listen.CheckNetwork("listen", network); err != nil {
		return nil, err
	}
	pc, err := lc.newPacketConn()
	if err != nil {
		return nil, err
	}
	nlc := net.ListenConfig{Control: lc.Control}
	udp, err := nlc.ListenPacket(ctx, network, address)
	if err != nil {
		return nil, err
	}
	if err := pc.serve(udp, lc.Config); err != nil {
		udp.Close()
		return nil, err
	}
	return pc, nil
}

// NewPacketConn puts messages on a socket that exists, a UDP socket or any other
// net.PacketConn, with the options of ListenConfig.ListenPacket; a nil lc is the default.
// It takes the socket over: it closes it, and nobody else may read from it. After
// an error, a *[ConfigError] or one of the system, the socket is still the
// caller's. Where addresses are not of UDP, Filter sees stand-ins from the block
// 100::/64; ReadFrom returns the real ones.
func NewPacketConn(pc net.PacketConn, lc *ListenConfig) (*PacketConn, error) {
	if lc == nil {
		lc = &ListenConfig{}
	}
	if err := checkPacketConn(pc); err != nil {
		return nil, err
	}
	p, err := lc.newPacketConn()
	if err != nil {
		return nil, err
	}
	if err := p.serve(pc, lc.Config); err != nil {
		return nil, err
	}
	return p, nil
}

func (lc *ListenConfig) newPacketConn() (*PacketConn, error) {
	if lc.Sockets > 1 {
		return nil, &ConfigError{Field: "ListenConfig.Sockets", Reason: "a PacketConn has one socket"}
	}
	pc := &PacketConn{since: time.Now(), filter: lc.Filter, maxPeers: int64(listen.Limit(lc.MaxConns, defaultMaxConns))}
	pc.budget.Init(listen.Limit(lc.MaxMemory, defaultMaxMemory))
	set, err := newSettings(lc.Config, datagram.MaxUDP, pc.budget.Reserve)
	if err != nil {
		return nil, err
	}
	if err := lc.check(set); err != nil {
		return nil, err
	}
	pc.idle, pc.receipts.max = set.idleTimeout, set.receipts
	set.idleTimeout, set.keepAlive = 0, 0
	set.onClose, set.packets = pc.gone, true
	set.requires = lc.RequireProtocol
	pc.set, pc.told.set, pc.told.filter = set, set, lc.Filter
	return pc, nil
}

// serve takes a socket over and begins to read it.
func (pc *PacketConn) serve(below net.PacketConn, cfg *Config) error {
	sock, err := socket.New(below, socketConfig(cfg))
	if err != nil {
		return err
	}
	if udp, ok := below.(*net.UDPConn); ok {
		local, _ := udp.LocalAddr().(*net.UDPAddr)
		pc.ipv4 = local != nil && local.IP.To4() != nil
	}
	pc.serveOn(sock)
	return nil
}

func (pc *PacketConn) serveOn(sock socket.Socket) {
	pc.sock = sock
	pc.mux = datagram.NewMux(sock, datagram.MuxConfig{
		Acceptor:    (*packetAcceptor)(pc),
		MaxDatagram: datagram.MaxUDP,
		OnClose:     pc.over,
		Settle:      pc.settle,
		TickLag:     packetTickLag,
	})
	pc.in.Init(maxInt, pc.set.reserve)
	pc.in.SetPoller(pc.mux.Inline())
	pc.watch = pc.newWatch()
	pc.watch.Start()
	pc.mux.Start()
	packetConns.Add(pc)
}

// packetTickLag is how late acknowledgements without a message to travel with may
// be, and whatever else peers are owed by time. The shortest such time is many
// times as long.
const packetTickLag = 5 * time.Millisecond

const maxInt = int(^uint(0) >> 1)

// ReadFrom waits for a message and copies it to b. If b is too short, the
// rest is lost and counted in Stats, without an error, as with a net.UDPConn on most
// systems. So a peer that sends long messages does not end a server. A buffer
// of [PacketConn.MaxMessageSize] bytes is never too short. The address is the
// same value for all messages of a peer and must not be changed.
//
// The error matches os.ErrDeadlineExceeded past the deadline and net.ErrClosed
// after Close, or is what broke the socket; what the network says of a peer is
// none.
func (pc *PacketConn) ReadFrom(b []byte) (n int, addr net.Addr, err error) {
	n, from, err := pc.read(b)
	if err != nil {
		return 0, nil, err
	}
	return n, from.Addr, nil
}

// ReadFromUDPAddrPort is ReadFrom with the address in another form. An IPv4 address
// is never mapped to IPv6. Where addresses are not of UDP it is a stand-in, which
// WriteToUDPAddrPort takes. The name is that of *net.UDPConn, so that a program
// compiles unchanged when its socket becomes a PacketConn.
func (pc *PacketConn) ReadFromUDPAddrPort(b []byte) (n int, addr netip.AddrPort, err error) {
	n, from, err := pc.read(b)
	if err != nil {
		return 0, netip.AddrPort{}, err
	}
	return n, addrPortOf(pc.sock, from.Addr), nil
}

func (pc *PacketConn) read(b []byte) (int, *inbox.Origin, error) {
	n, size, from, err := pc.in.ReadFrom(b, &pc.deadline)
	if err != nil {
		return 0, nil, pc.opError("read", nil, err)
	}
	if n < size {
		pc.truncated.Add(1)
	}
	return n, from, nil
}

// WriteTo sends b as one message to addr. It returns len(b), or 0 and the error:
// a *[MessageTooLargeError], a *net.AddrError without an address, or one that
// matches os.ErrDeadlineExceeded or net.ErrClosed, or that
// ListenConfig.MaxMemory leaves no room for a first message. An empty message is
// not sent: WriteTo returns 0, nil. That the network refused a datagram for the
// moment is not an error; such a message is lost and counted.
func (pc *PacketConn) WriteTo(b []byte, addr net.Addr) (int, error) {
	if _, err := pc.writeTo(b, addr, false); err != nil {
		return 0, pc.opError("write", addr, err)
	}
	return len(b), nil
}

// WriteToUDPAddrPort is WriteTo with the address in another form. The name is that
// of *net.UDPConn, as for ReadFromUDPAddrPort.
func (pc *PacketConn) WriteToUDPAddrPort(b []byte, addr netip.AddrPort) (int, error) {
	_, err := pc.send(b, plain(addr), nil, false)
	if err != nil {
		return 0, pc.opError("write", net.UDPAddrFromAddrPort(addr), err)
	}
	return len(b), nil
}

// WriteMessageTo is WriteTo, and returns the message's number, by which its
// receipt will name it, see [PacketConn.AppendReceipts]. No other message of this
// PacketConn has the same, until 2^24 peers have come and gone; the low 16 bits
// are the sequence number on the wire. With an error the number means nothing; a
// message that had got one before, as when the deadline passes while there is no
// room in the socket, has a receipt all the same.
func (pc *PacketConn) WriteMessageTo(b []byte, addr net.Addr) (id uint64, err error) {
	id, err = pc.writeTo(b, addr, true)
	return id, pc.opError("write", addr, err)
}

func (pc *PacketConn) writeTo(b []byte, addr net.Addr, receipts bool) (id uint64, err error) {
	if isNil(addr) {
		return 0, errMissingAddress
	}
	return pc.send(b, addrPortOf(pc.sock, addr), addr, receipts)
}

// send writes a message to a peer, which it makes if there is none. The value is
// what the caller has given as its address, see find.
func (pc *PacketConn) send(b []byte, to netip.AddrPort, value net.Addr, receipts bool) (id uint64, err error) {
	if pc.closed.Load() {
		return 0, net.ErrClosed
	}
	if err := checkAddr(to); err != nil {
		return 0, err
	}
	switch {
	case pc.ipv4 && !to.Addr().Is4(): // before a peer is made of it
		return 0, &net.AddrError{Err: "not an IPv4 address", Addr: to.Addr().String()}
	case len(b) > pc.set.maxMessage:
		return 0, &MessageTooLargeError{Size: len(b), Max: pc.set.maxMessage}
	case pc.write.deadline.Exceeded():
		return 0, os.ErrDeadlineExceeded
	case len(b) == 0:
		return 0, nil
	}
	if receipts {
		pc.receipts.arm()
	}
	pc.write.callers.Add(1)
	defer pc.write.callers.Add(-1)
	p, err := pc.peer(to, value)
	for err == nil {
		p.setWriteDeadline(&pc.write)
		if id, err = p.conn.write(b, false); err != errForgotten {
			return p.ids + id, err
		}
		p, err = pc.again(p)
	}
	return 0, err
}

// MaxMessageSize returns the largest message in bytes that WriteTo takes.
func (pc *PacketConn) MaxMessageSize() int { return pc.set.maxMessage }

// LocalAddr returns the address of the socket, with the real port.
func (pc *PacketConn) LocalAddr() net.Addr { return pc.sock.LocalAddr() }

// SetDeadline sets the deadlines of ReadFrom and WriteTo. The zero time is none.
// A deadline concerns pending calls as well. After Close the error matches
// net.ErrClosed.
func (pc *PacketConn) SetDeadline(t time.Time) error {
	if err := pc.SetReadDeadline(t); err != nil {
		return err
	}
	return pc.SetWriteDeadline(t)
}

// SetReadDeadline sets the deadline of ReadFrom.
func (pc *PacketConn) SetReadDeadline(t time.Time) error {
	if pc.closed.Load() {
		return pc.opError("set", nil, net.ErrClosed)
	}
	pc.deadline.Set(t)
	pc.in.Interrupt()
	return nil
}

// SetWriteDeadline sets the deadline of the calls that write, for all peers. They
// wait for each other, and for room in the socket, as those of [Conn] do.
func (pc *PacketConn) SetWriteDeadline(t time.Time) error {
	if pc.closed.Load() {
		return pc.opError("set", nil, net.ErrClosed)
	}
	pc.write.set(t, pc.mux)
	return nil
}

// Close closes the socket. Messages that WriteTo has accepted are given to the
// network, those that nobody has read are dropped, and pending calls return an
// error that matches net.ErrClosed. Peers that have greeted are told, by five
// datagrams at once. Close may be called more than once and returns the first call's
// result.
func (pc *PacketConn) Close() error {
	pc.closeOnce.Do(func() {
		pc.closed.Store(true)
		err := pc.mux.Close() // no more peers
		if e := closePeers(pc.mux.Handlers()); err == nil {
			err = e
		}
		pc.in.Fail(net.ErrClosed)
		pc.closeErr = pc.opError("close", nil, err)
	})
	return pc.closeErr
}

// closePeers closes peers and returns the first error. Those that something waits
// to leave for may take a while, all together as long as one of them.
func closePeers(hs []datagram.Handler) error {
	var slow sync.WaitGroup
	var first atomic.Pointer[error]
	for _, h := range hs {
		c := &h.(*peerHandler).conn
		end := func() {
			if err := c.Close(); err != nil {
				first.CompareAndSwap(nil, &err)
			}
		}
		c.mu.Lock()
		waits := c.out.Busy() || c.out.Pending()
		c.mu.Unlock()
		if waits {
			slow.Go(end)
		} else {
			end()
		}
	}
	slow.Wait()
	if err := first.Load(); err != nil {
		return *err
	}
	return nil
}

// over learns that the socket is gone, and what broke it, if that did.
func (pc *PacketConn) over(cause error) {
	if cause != nil {
		pc.watch.Tell(slog.LevelError, "volley: the socket is broken, and the PacketConn ends", slog.Any("error", cause))
	}
	pc.watch.Stop()
	if cause != nil {
		pc.closed.Store(true)
		pc.in.End(cause)
	}
}

// opError wraps err, once, as functions of package net do.
func (pc *PacketConn) opError(op string, addr net.Addr, err error) error {
	if err == nil {
		return nil
	}
	if _, wrapped := errors.AsType[*net.OpError](err); wrapped {
		return err
	}
	local := pc.sock.LocalAddr()
	return &net.OpError{Op: op, Net: local.Network(), Source: local, Addr: addr, Err: err}
}
