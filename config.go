package volley

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"volley/capture"
	"volley/internal/datagram"
	"volley/internal/inbox"
	"volley/internal/inner"
	"volley/internal/listen"
	"volley/internal/recording"
	"volley/reliable"
)

// A Config says how a connection behaves. The zero value, and a nil *Config, is
// the documented default of every field; a negative value is "off" where that
// is said. Fields may be added; use field names in literals. A Config is not
// changed by this package and must not be changed by others once it has been
// passed in.
//
// The defaults are for peers of this package. With them a connection sends empty
// packets that only acknowledge. The reference implementation in C hands these to
// its application, and a peer built on yojimbo disconnects at the first one. Use
// [ReferenceConfig] with such peers.
type Config struct {
	// MaxMessageSize is the largest message in bytes, to send and to receive:
	// 1 to 256 times FragmentSize. Default 16384. All datagrams of a message
	// leave at once, so one that is larger than the receive buffer of the
	// peer's socket (SocketBuffer) hardly ever arrives.
	MaxMessageSize int
	// FragmentSize is how many bytes of a large message one datagram carries:
	// 1 to what fits the connection below, over UDP 65493. Both sides must
	// use the same. Default 1024, which fits every path. Negative: an error.
	FragmentSize int
	// FragmentAbove is the largest message in bytes that is sent in one
	// datagram: 1 to what fits the connection below, over UDP 65498. Default
	// 1200, which fits the smallest packets of IPv6, or what fits the
	// connection below if that is less, or FragmentSize if that is more.
	// Negative: an error.
	FragmentAbove int

	// AckDelay is the longest that a received message waits for a message of
	// ours that acknowledges it along the way before a packet of its own does.
	// A connection that sends messages in a rhythm waits for the next one
	// where that comes within this time; others wait for half of it, and less
	// where the peer has to know. The peer's receipts come later by no more
	// than this; its RTT does not contain it. Default 125 ms, which serves
	// rates from 10 messages a second on. Negative: acknowledgements only
	// travel with messages.
	AckDelay time.Duration
	// LostAfter is the longest until a message that the peer does not
	// acknowledge is presumed lost, see [Conn.AppendReceipts]. Mostly it is
	// known much earlier; this is for a peer that has fallen silent. Default
	// 10 s. Negative, or in a ReferenceConfig: age decides nothing.
	LostAfter time.Duration
	// KeepAlive is the longest silence before an empty packet is sent.
	// Default 5 s, or a third of IdleTimeout if that is less. Negative: none
	// are, nor the greeting with which Dial makes the peer's Accept return.
	KeepAlive time.Duration
	// IdleTimeout ends the connection with ErrIdleTimeout when nothing was
	// heard from the peer for so long. The peer's KeepAlive must be shorter,
	// or silence ends the connection. Default 30 s. Negative: never.
	IdleTimeout time.Duration

	// ProtocolID keeps two programs, or two versions of one, apart: connections
	// between sides with different numbers end with a *RefusedError. A PacketConn
	// takes no messages of a peer with another number once both have greeted, and
	// with RequireProtocol none before. 0 goes with
	// any number, and so does a peer of the reference; see also RequireProtocol. Over
	// sessions, as of package netcode, it means nothing.
	ProtocolID uint64

	// ReadBuffer limits the received messages that wait for Read, in bytes
	// (a message counts 12 more than its length). At least one message of
	// MaxMessageSize must fit. Default 4 MiB, or more if one message needs
	// it.
	ReadBuffer int
	// ReassemblyBuffer limits the memory of messages of which some fragments
	// are still missing, in bytes. At least one message must fit, which takes
	// MaxMessageSize, rounded up to whole fragments, and some 400 bytes more.
	// Default 1 MiB, or room for four messages if that is more.
	ReassemblyBuffer int
	// Receipts limits how many receipts wait for AppendReceipts; a receipt
	// takes 24 bytes. Default 16384. Negative: none are kept.
	Receipts int

	// SocketBuffer is the size in bytes to ask for of the kernel's receive
	// and send buffer, each, of a UDP socket. The system may grant less.
	// Default 4 MiB. Negative: the system's default.
	SocketBuffer int
	// Logger gets lines for operators, each at most once in ten seconds with the
	// number of cases:
	//
	//   - A Listener or PacketConn turns peers away (Backlog, MaxConns) or refuses
	//     messages (MaxMemory).
	//   - The kernel drops datagrams, has granted less than SocketBuffer, reports
	//     errors, or refuses segmentation offload.
	//   - Datagrams do not fit MaxMessageSize or FragmentSize.
	//   - A socket or a dialed connection has ended other than by Close.
	//
	// It is called by Listen and Dial, and otherwise on goroutines of its own; it may
	// take its time.
	// Default: silence.
	Logger *slog.Logger

	// Capture records what the connections do, for Replay, see package capture. The
	// same Recorder may serve any number of them. Default: nothing is recorded, and
	// nothing is spent on it. A capture contains the messages, unless the Recorder
	// leaves them out.
	Capture *capture.Recorder

	reference     bool       // as ReferenceConfig has it
	maxWindow     int        // a power of two; 0: defaultMaxWindow; negative: fixedWindow
	firstSequence func() int // of each connection, in tests; nil: random
}

// ReferenceConfig returns a Config with which a connection sends nothing that
// the reference implementation in C would not: no packets that only
// acknowledge, keepalives, greeting or idle timeout. A connection remembers 256
// packets each way, where others remember up to 16384, and keeps a message that lacks
// fragments until newer ones push it out, where others give it up after 5 s. Use it
// with peers in C, which hand empty packets to their application. Peers built on
// yojimbo need it, because they disconnect at an empty packet; set MaxMessageSize
// to 8192, too.
func ReferenceConfig() *Config {
	return &Config{
		FragmentAbove: defaultFragment,
		AckDelay:      -1, KeepAlive: -1, IdleTimeout: -1,
		maxWindow: -1, reference: true,
	}
}

const (
	defaultMaxMessage   = 16384
	defaultFragment     = 1024
	defaultWhole        = 1200                   // with all headers 1257 bytes, of 1280
	defaultAckDelay     = 125 * time.Millisecond // what carries acks at 10 messages a second
	rttSmoothing        = 1. / 6                 // samples are up to 1.4 s apart
	defaultLostAfter    = 10 * time.Second       // the endpoint's
	defaultKeepAlive    = 5 * time.Second
	defaultIdleTimeout  = 30 * time.Second
	reassemblyTimeout   = 5 * time.Second
	defaultBuffer       = 4 << 20
	defaultReassemblies = 1 << 20
	defaultMaxWindow    = 16384
	fixedWindow         = 256 // of the reference, and the smallest
	defaultReceipts     = 16384

	maxFragments      = 256
	fragmentOverhead  = reliable.FragmentHeaderSize + reliable.MaxHeaderSize
	smoothingInterval = time.Second / 60
	// idleAfter is how long a connection without messages keeps memory that
	// only a busy one needs. It is more than the 10 s after which the endpoint
	// presumes a message lost, for it looks then for the last time.
	idleAfter = 11 * time.Second
)

// settings is a Config with its defaults applied, shared by all connections
// made with it. Durations of zero are off.
type settings struct {
	maxMessage             int
	keepAlive, idleTimeout time.Duration
	readBuffer, receipts   int
	window                 int // sequences behind the newest that are still accepted
	// What the inbox reserves memory by, while the peer has not shown to be at its
	// address, and afterwards; nil where there is no limit.
	reserve, reserveTrusted func(delta int) bool
	budget                  *listen.Budget // what these go to; nil where there is no limit
	onClose                 func(*Conn)    // may be nil; of the Listener
	onCome                  func(*Conn)    // of a Listener, when a hidden connection no longer is
	logger                  *slog.Logger
	capture                 *recording.Recorder // nil: none
	socketBuffer            int                 // as asked for; 0: nothing was
	protocol                uint64
	requires                bool          // a hello with it, of those who come
	firstSequence           func() int    // as in Config
	greets                  bool          // exchanges control datagrams
	session                 bool          // the layer below knows the peer, and tells it of the end
	below                   int           // with session: the largest datagram of that layer
	packets                 bool          // they are peers of a PacketConn
	answers                 bucket        // of all connections
	departed                *departed     // nil: of no Listener
	rejected                atomic.Uint64 // datagrams of peers refused for their size
	reliable                reliable.Config
}

// newSettings checks cfg, which may be nil, against a transport that carries
// datagrams of up to maxDatagram bytes.
func newSettings(cfg *Config, maxDatagram int, reserve func(delta int, acked bool) bool) (*settings, error) {
	if cfg == nil {
		cfg = &Config{}
	}
	idleTimeout := duration(cfg.IdleTimeout, defaultIdleTimeout)
	s := &settings{
		keepAlive:   duration(cfg.KeepAlive, keepAliveFor(idleTimeout)),
		idleTimeout: idleTimeout,
		receipts:    max(0, cmp.Or(cfg.Receipts, defaultReceipts)),

		protocol:      cfg.ProtocolID,
		firstSequence: cfg.firstSequence,
		greets:        !cfg.reference,
		logger:        cfg.Logger,
		capture:       (*recording.Recorder)(cfg.Capture),
		socketBuffer:  max(0, cmp.Or(cfg.SocketBuffer, defaultBuffer)),
	}
	if reserve != nil {
		s.reliable.Reserve = reserve
		s.reserve = func(delta int) bool { return reserve(delta, false) }
		s.reserveTrusted = func(delta int) bool { return reserve(delta, true) }
	}
	if err := s.setSizes(cfg, maxDatagram); err != nil {
		return nil, err
	}
	if err := s.setBuffers(cfg); err != nil {
		return nil, err
	}
	if s.keepAlive > 0 && s.idleTimeout > 0 && s.keepAlive >= s.idleTimeout {
		if cfg.KeepAlive == 0 {
			return nil, configError("IdleTimeout", "%v leaves no time for a keepalive", s.idleTimeout)
		}
		return nil, configError("KeepAlive", "%v is not below the IdleTimeout of %v", s.keepAlive, s.idleTimeout)
	}
	return s, s.finish(cfg)
}

// keepAliveFor returns the default of Config.KeepAlive.
func keepAliveFor(idleTimeout time.Duration) time.Duration {
	if idleTimeout == 0 {
		return defaultKeepAlive
	}
	return max(1, min(defaultKeepAlive, idleTimeout/3))
}

func (s *settings) setSizes(cfg *Config, maxDatagram int) error {
	r := &s.reliable
	r.FragmentSize = cmp.Or(cfg.FragmentSize, defaultFragment)
	r.FragmentAbove = cmp.Or(cfg.FragmentAbove,
		max(r.FragmentSize, min(defaultWhole, maxDatagram-reliable.MaxHeaderSize)))
	r.MaxPacketSize = cmp.Or(cfg.MaxMessageSize, defaultMaxMessage)
	switch {
	case r.FragmentSize < 1:
		return configError("FragmentSize", "%d is not positive", r.FragmentSize)
	case r.FragmentAbove < 1:
		return configError("FragmentAbove", "%d is not positive", r.FragmentAbove)
	case r.MaxPacketSize < 1:
		return configError("MaxMessageSize", "%d is not positive", r.MaxPacketSize)
	case r.FragmentSize > datagram.MaxUDP: // so that what follows does not overflow
		return configError("FragmentSize", "%d is more than %d, the largest datagram there is", r.FragmentSize, datagram.MaxUDP)
	case r.MaxPacketSize > maxFragments*r.FragmentSize:
		return configError("MaxMessageSize", "%d is more than %d fragments of %d bytes",
			r.MaxPacketSize, maxFragments, r.FragmentSize)
	}
	s.maxMessage = r.MaxPacketSize
	r.MaxFragments = (r.MaxPacketSize + r.FragmentSize - 1) / r.FragmentSize
	return fits(r, maxDatagram)
}

// fits checks the largest datagrams against what the transport carries.
func fits(r *reliable.Config, maxDatagram int) error {
	whole := min(r.FragmentAbove, r.MaxPacketSize)
	if limit := maxDatagram - reliable.MaxHeaderSize; whole > limit {
		if r.FragmentAbove == r.FragmentSize {
			limit = maxDatagram - fragmentOverhead
			return configError("FragmentSize", "%d is more than %d, all that fits the datagrams of %d bytes below (FragmentAbove: %d)",
				r.FragmentSize, limit, maxDatagram, maxDatagram-reliable.MaxHeaderSize)
		}
		return configError("FragmentAbove", "%d is more than %d, all that fits the datagrams of %d bytes below",
			r.FragmentAbove, limit, maxDatagram)
	}
	if limit := maxDatagram - fragmentOverhead; r.MaxPacketSize > r.FragmentAbove && r.FragmentSize > limit {
		return configError("FragmentSize", "%d is more than %d, all that fits the datagrams of %d bytes below (FragmentAbove: %d)",
			r.FragmentSize, limit, maxDatagram, maxDatagram-reliable.MaxHeaderSize)
	}
	return nil
}

func (s *settings) setBuffers(cfg *Config) error {
	one := s.maxMessage + inbox.NumberedOverhead
	s.readBuffer = cmp.Or(cfg.ReadBuffer, max(defaultBuffer, one))
	if s.readBuffer < one {
		return configError("ReadBuffer", "%d does not hold one message, which takes %d", s.readBuffer, one)
	}
	r := &s.reliable
	one = r.MaxFragments*r.FragmentSize + inner.ReassemblyOverhead
	r.ReassemblyBytes = cmp.Or(cfg.ReassemblyBuffer, max(defaultReassemblies, 4*one))
	if r.ReassemblyBytes < one {
		return configError("ReassemblyBuffer", "%d does not hold one message of %d, which takes %d",
			r.ReassemblyBytes, s.maxMessage, one)
	}
	return nil
}

// finish sets the options of the protocol core that make it fit for a
// connection.
func (s *settings) finish(cfg *Config) error {
	r := &s.reliable
	r.AckBuffer = -1
	r.AckGuard = true
	r.AckRefused = true
	r.AckDelay = duration(cfg.AckDelay, defaultAckDelay)
	if r.AckDelay > 0 {
		r.RTTSmoothing = rttSmoothing
	}
	r.LostAfter = min(max(cfg.LostAfter, -1), century)
	r.SmoothingInterval = smoothingInterval
	if !cfg.reference {
		r.ReassemblyTimeout = reassemblyTimeout
	}
	s.window = fixedWindow
	if cfg.maxWindow >= 0 {
		r.MaxWindow = cmp.Or(cfg.maxWindow, defaultMaxWindow)
		r.JumpGuard, r.MidStream = true, true
		s.window = r.MaxWindow
	}
	if err := r.Validate(); err != nil {
		var ce *reliable.ConfigError
		if errors.As(err, &ce) {
			return configError(ce.Field, "%s", ce.Reason)
		}
		return err
	}
	return nil
}

// maxDatagram returns the size in bytes of the largest datagram that a valid
// peer may send.
func (s *settings) maxDatagram() int {
	return s.maxMessage + fragmentOverhead
}

// duration applies the rule of Config: zero is the default, negative is off,
// which is zero inside.
func duration(d, def time.Duration) time.Duration {
	return min(max(0, cmp.Or(d, def)), century)
}

// century limits durations, so that sums do not overflow.
const century = 100 * 365 * 24 * time.Hour

func configError(field, format string, args ...any) error {
	return &ConfigError{Field: "Config." + field, Reason: fmt.Sprintf(format, args...)}
}
