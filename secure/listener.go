package secure

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"iter"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"volley/internal/handover"
	"volley/internal/netconn"
	"volley/internal/sideband"
	"volley/netcode"
)

// A ListenConfig has options for servers. The zero value admits everybody who has the
// URL, which changes with each start.
type ListenConfig struct {
	// KeyFile is where the server keeps its private key, in PEM and PKCS #8. A file that
	// is not there is made, with mode 0600. It is an error if others can read it.
	// Empty, and without TLS: a new key at each start.
	KeyFile string
	// TLS is for a server with a certificate of a CA, in place of KeyFile. TLS 1.3 is
	// the least version, whatever it says.
	TLS *tls.Config
	// Authorize, if not nil, decides about each request for a token, and says who the
	// client is. The request is as net/http gives it: header, cookies, r.TLS and
	// RemoteAddr, and no body. The client is refused by an error, whose text it gets.
	// It is called by several goroutines at once, and must end soon after the request's
	// context, which lasts four seconds at most.
	Authorize func(r *http.Request) (*Grant, error)
	// Backend is a secret of at least 16 bytes that the server shares with backends, in
	// place of Authorize. Then only a [TokenHandler] with the same secret gets tokens, and
	// gives them to its own clients.
	Backend string
	// Public is the address of the sessions in UDP if clients cannot use the host and
	// port that they reach by TCP.
	Public netip.AddrPort
	// Sessions has more options for the sessions, such as MaxClients. Its PrivateKey,
	// Addresses and TokenLifetime are the Listener's own affair, and must be zero.
	// Nil: the defaults.
	Sessions *netcode.ListenConfig

	// dialTCP is for tests over a simulated network; nil: the system's.
	dialTCP func(ctx context.Context, network, address string) (net.Conn, error)
}

// A Grant is what Authorize knows of a client that it admits.
type Grant struct {
	// ClientID is the number of the client. A Listener has one session for each: the
	// newest ends the one before. 0: a random one.
	ClientID uint64
	// Identity is for Conn.Identity, at most 128 bytes.
	Identity []byte
	// Expires ends the session, by the clock of the game server. The zero time: never.
	Expires time.Time
}

// A Listener is a server: UDP for the sessions, and TCP with the same port for the
// tokens. It is safe for concurrent use.
type Listener struct {
	cfg      ListenConfig
	sessions *netcode.Listener
	keys     keys
	pins     []pin
	service  service
	seats    seats
	watch    atomic.Pointer[func(handover.Event)] // of a fleet
	refusal  atomic.Pointer[string]               // of new clients; nil: none
}

var _ net.Listener = (*Listener)(nil)

// Listen starts a server on a UDP address, and on TCP with the same port. The network is
// "udp", "udp4" or "udp6". A nil cfg is the zero one. The errors are those of
// [netcode.ListenConfig.Listen], and of the key file.
func Listen(network, address string, cfg *ListenConfig) (*Listener, error) {
	if cfg == nil {
		cfg = &ListenConfig{}
	}
	return cfg.Listen(context.Background(), network, address)
}

// Listen is [Listen]. The context is for resolving the address.
func (lc *ListenConfig) Listen(ctx context.Context, network, address string) (*Listener, error) {
	l, sessions, err := lc.newListener()
	if err != nil {
		return nil, err
	}
	for attempt := 0; ; attempt++ {
		err := l.open(ctx, sessions, network, address)
		_, port, _ := net.SplitHostPort(address)
		if err == nil {
			return l, nil
		}
		// The port that the system picked for UDP may be taken in TCP.
		if !errors.Is(err, syscall.EADDRINUSE) || port != "0" && port != "" || attempt == 9 {
			return nil, err
		}
	}
}

// open opens both ports, and starts to serve.
func (l *Listener) open(ctx context.Context, sessions *netcode.ListenConfig, network, address string) error {
	udp, err := sessions.Listen(ctx, network, address)
	if err != nil {
		return err
	}
	host, _, _ := net.SplitHostPort(address)
	_, port, _ := net.SplitHostPort(udp.Addr().String())
	control := net.ListenConfig{Control: sessions.Control}
	tcp, err := control.Listen(ctx, "tcp"+network[len("udp"):], net.JoinHostPort(host, port))
	if err != nil {
		udp.Close()
		return err
	}
	l.serve(udp, tcp)
	return nil
}

// ListenOn starts a server on a socket for the sessions and a listener for the tokens that
// exist, such as those of a test. The Listener closes both. After an error they are still
// the caller's.
func (lc *ListenConfig) ListenOn(pc net.PacketConn, tokens net.Listener) (*Listener, error) {
	if netconn.IsNil(tokens) {
		return nil, &netcode.ConfigError{Field: "tokens", Reason: "it is nil"}
	}
	l, sessions, err := lc.newListener()
	if err != nil {
		return nil, err
	}
	udp, err := sessions.ListenOn(pc)
	if err != nil {
		return nil, err
	}
	l.serve(udp, tokens)
	return l, nil
}

// newListener checks the options. It returns those of the sessions, too.
func (lc *ListenConfig) newListener() (*Listener, *netcode.ListenConfig, error) {
	var sessions netcode.ListenConfig
	if lc.Sessions != nil {
		sessions = *lc.Sessions
	}
	switch {
	case lc.KeyFile != "" && lc.TLS != nil:
		return nil, nil, configError("KeyFile", "there is TLS, too; use one of them")
	case sessions.PrivateKey != (netcode.Key{}):
		return nil, nil, configError("Sessions.PrivateKey", "the Listener makes its own keys")
	case sessions.Addresses != nil:
		return nil, nil, configError("Sessions.Addresses", "the Listener has its own; see Public")
	case sessions.TokenLifetime != 0:
		return nil, nil, configError("Sessions.TokenLifetime", "the Listener has its own")
	case lc.TLS != nil && len(lc.TLS.Certificates) == 0 && lc.TLS.GetCertificate == nil && lc.TLS.GetConfigForClient == nil:
		return nil, nil, configError("TLS", "it has no certificate")
	case lc.Backend != "" && len(lc.Backend) < minSecret:
		return nil, nil, configError("Backend", "its %d bytes are too easy to guess; use %d random ones or more", len(lc.Backend), minSecret)
	case lc.Backend != "" && lc.Authorize != nil:
		return nil, nil, configError("Backend", "there is Authorize, too; use one of them")
	case lc.Public != (netip.AddrPort{}) && !ofServer(lc.Public):
		return nil, nil, configError("Public", "%v is not the address of a server, with its port", lc.Public)
	}
	l := &Listener{cfg: *lc}
	l.seats.init()
	config, err := l.tlsConfig()
	if err != nil {
		return nil, nil, err
	}
	l.service.init(l, config)
	sessions.PrivateKey = netcode.GenerateKey() // until the first token
	sessions.Addresses = []netip.AddrPort{internalAddress}
	sessions.TokenLifetime = tokenLifetime
	var cfg netcode.Config
	if sessions.Config != nil {
		cfg = *sessions.Config
	}
	sideband.Own(&cfg, (*accepted)(l))
	sessions.Config = &cfg
	l.keys.protocolID = sessions.ProtocolID
	return l, &sessions, nil
}

func configError(field, format string, args ...any) error {
	return &netcode.ConfigError{Field: "secure.ListenConfig." + field, Reason: fmt.Sprintf(format, args...)}
}

// tlsConfig returns the settings of the token service, and fills in the pins.
func (l *Listener) tlsConfig() (*tls.Config, error) {
	if l.cfg.TLS != nil {
		c := l.cfg.TLS.Clone()
		c.MinVersion, c.NextProtos = tls.VersionTLS13, protocols
		for _, cert := range c.Certificates {
			leaf, err := x509.ParseCertificate(cert.Certificate[0])
			if err != nil {
				return nil, configError("TLS", "its certificate cannot be read: %v", err)
			}
			l.pins = append(l.pins, pinOf(leaf))
		}
		return c, nil
	}
	key, err := l.privateKey()
	if err != nil {
		return nil, err
	}
	cert, err := selfSigned(key)
	if err != nil {
		return nil, err
	}
	l.pins = []pin{pinOf(cert.Leaf)}
	return &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS13, NextProtos: protocols}, nil
}

func (l *Listener) privateKey() (crypto.Signer, error) {
	if l.cfg.KeyFile != "" {
		return loadKey(l.cfg.KeyFile)
	}
	return ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
}

// serve begins to serve.
func (l *Listener) serve(udp *netcode.Listener, tcp net.Listener) {
	l.sessions = udp
	l.keys.set = udp.SetKeys
	udp.SetKeys() // there is no token yet
	l.service.serve(tcp)
}

// URL returns the URL by which clients reach the server at a host, a name or an IP address:
// all that a client needs. The port is the one listened on. With TLS the URL has no pins,
// because clients trust the certificate.
func (l *Listener) URL(host string) string {
	port := strconv.Itoa(int(netip.MustParseAddrPort(l.Addr().String()).Port()))
	a := address{}
	a.url.Scheme, a.url.Host = "volley", net.JoinHostPort(host, port)
	if l.cfg.TLS == nil {
		a.pins = l.pins
	}
	return a.String()
}

// Fingerprint returns the pin of the server's key, for people who compare it. It is empty
// if TLS chooses certificates by a function.
func (l *Listener) Fingerprint() string {
	if len(l.pins) == 0 {
		return ""
	}
	return l.pins[0].String()
}

// Addr returns the UDP address listened on, with the real port.
func (l *Listener) Addr() net.Addr { return l.sessions.Addr() }

// Accept waits for a session of a new client, a *[Conn]. The error matches net.ErrClosed
// after Close, and os.ErrDeadlineExceeded after the deadline.
func (l *Listener) Accept() (net.Conn, error) {
	c, err := l.AcceptConn(context.Background())
	if err != nil {
		return nil, err
	}
	return c, nil
}

// AcceptConn is Accept, but returns a *Conn, and an error that matches the cause of ctx's
// end if that comes first.
func (l *Listener) AcceptConn(ctx context.Context) (*Conn, error) {
	for {
		s, err := l.sessions.AcceptConn(ctx)
		if err != nil {
			return nil, err
		}
		if c := l.adopt(s); c != nil {
			return c, nil
		}
	}
}

// adopt makes the Conn of a session. It returns nil for a session that gets no seat.
func (l *Listener) adopt(s *netcode.Conn) *Conn {
	c := connOf(s)
	former, refusal := l.seats.take(c)
	if refusal != "" {
		c.CloseWithReason(refusal)
		return nil
	}
	if sideband.Of(s).Failure() != nil {
		(*accepted)(l).Ended(s) // which was called too early
	}
	if former != nil {
		former.CloseWithReason(anotherLogin)
	}
	return c
}

// SetDeadline sets the deadline of Accept; the zero time is none.
func (l *Listener) SetDeadline(t time.Time) error { return l.sessions.SetDeadline(t) }

// Conns returns an iterator over the open sessions that Accept has returned, as that of
// [netcode.Listener.Conns].
func (l *Listener) Conns() iter.Seq[*Conn] {
	return func(yield func(*Conn) bool) {
		for s := range l.sessions.Conns() {
			if c := connOf(s); c != nil && !yield(c) {
				return
			}
		}
	}
}

// Stats returns the figures of the sessions.
func (l *Listener) Stats() netcode.ListenerStats { return l.sessions.Stats() }

// Close stops the token service, and ends sessions that Accept has not returned. The other
// sessions live on; the socket closes with the last of them. The keys of tokens are
// overwritten.
func (l *Listener) Close() error {
	l.stop()
	return l.sessions.Close()
}

// Shutdown is Close, and waits for the sessions, as [netcode.Listener.Shutdown] does.
func (l *Listener) Shutdown(ctx context.Context) error {
	l.stop()
	return l.sessions.Shutdown(ctx)
}

func (l *Listener) stop() {
	l.service.close()
	l.keys.close()
}

// accepted is a Listener as the owner of its sessions.
type accepted Listener

var _ sideband.Owner = (*accepted)(nil)

func (*accepted) Protocol() string { return "secure" }

func (a *accepted) Label(s net.Conn) string {
	if c := connOf(s); c != nil {
		return "client " + strconv.FormatUint(c.clientID, 10)
	}
	return ""
}

// Admit takes a session that another one goes on as, and makes the Conn of others.
func (a *accepted) Admit(_ time.Time, s net.Conn) (kept bool) {
	session := s.(*netcode.Conn)
	t, ok := parseTicket(session.UserData())
	if !ok { // tokens are sealed by us
		s.Close()
		return true
	}
	if t.generation > 1 && a.move(session, &t) {
		return true
	}
	c := &Conn{Conn: session, clientID: t.clientID, serial: t.serial, identity: t.identity, session: t.session, expires: t.expires}
	c.generation, c.issued = t.generation, t.generation
	if t.handed {
		c.handed, c.foreign = &t.state, true
	}
	if t.clientID == 0 {
		c.clientID, c.anonymous = session.ClientID(), true
	}
	sideband.Of(s).Keep(c)
	a.seats.begin(c)
	if !t.expires.IsZero() {
		c.expireAt(t.expires)
	}
	(*Listener)(a).tell(handover.Begun, c)
	return false
}

// Broken implements sideband.Owner. The socket of a Listener is that of all.
func (*accepted) Broken(net.Conn, error) (stays bool) { return false }

func (a *accepted) Control(now time.Time, s net.Conn, msg []byte) {
	switch {
	case handleControl(s, msg):
	case msg[0] == controlWant:
		if c := connOf(s); c != nil {
			var want byte
			if len(msg) > 1 {
				want = msg[1]
			}
			if want&wantNoOwn == 0 {
				(*Listener)(a).giveSpare(now, c)
			}
			if want&wantElsewhere != 0 {
				(*Listener)(a).tell(handover.Wants, c)
			}
		}
	case msg[0] == controlGone:
		sideband.Of(s).End(ErrMoved, nil)
	}
}

// Ended frees the seat of a session that is over.
func (a *accepted) Ended(s net.Conn) {
	if c := connOf(s); c != nil {
		left := sideband.Of(s).Left()
		was := a.seats.leave(c, left)
		c.over()
		if kind := handover.Over; was {
			if err := c.Err(); !left && (err == ErrMoved || err == netcode.ErrIdleTimeout) {
				kind = handover.Left
			}
			(*Listener)(a).tell(kind, c)
		}
	}
}
