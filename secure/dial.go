package secure

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"net/url"
	"strconv"
	"sync/atomic"
	"time"

	"volley/internal/sideband"
	"volley/netcode"
)

// A Dialer has options for clients. The zero value is the default. Do not change one while a
// session lives that it has dialed, because the session moves by it.
type Dialer struct {
	// Header goes with the request for a token, for Authorize: such as a bearer token.
	Header http.Header
	// Trust has the CAs that vouch for servers whose URL has no pin. Nil: those of the
	// system.
	Trust *x509.CertPool
	// Config is for the sessions; nil: the defaults.
	Config *netcode.Config
	// NetDialer makes the sockets: local address, Control and so on. Its LocalAddr, if
	// not nil, is a *net.UDPAddr, whose IP is that of the TCP connection, too.
	NetDialer net.Dialer
	// HTTP is for URLs that begin with https. Nil: one with TLS 1.3, Trust, and no
	// redirects.
	HTTP *http.Client

	// dialTCP and dialUDP are for tests over a simulated network; nil: NetDialer.
	dialTCP func(ctx context.Context, network, address string) (net.Conn, error)
	dialUDP func() (net.PacketConn, error)
}

// Dial opens a session with default options, as [Dialer.Dial] does.
func Dial(ctx context.Context, url string) (*Conn, error) { return defaultDialer.Dial(ctx, url) }

var defaultDialer Dialer

// Dial opens a session with the server of a URL, in at most five round trips.
//
//   - volley://host:port#pin is a [Listener]: Dial asks it for a token over TLS 1.3, and
//     then joins over UDP at the same port. The pins are fingerprints of the server's key.
//     Without them the server has a certificate of a CA. The default port is 7777.
//   - https://host/path is a backend that serves a [TokenHandler].
//
// The session does not depend on ctx. The error is a *[RefusedError], a *[DialError], or
// says what is wrong with the URL.
func (d *Dialer) Dial(ctx context.Context, url string) (*Conn, error) {
	a, err := parseURL(url)
	if err != nil {
		return nil, err
	}
	if n := sideband.NetworkOf(ctx); n != nil {
		there := *d
		there.dialTCP, there.dialUDP = n.DialTCP, n.DialUDP
		d = &there
	}
	return d.dial(ctx, a)
}

func (d *Dialer) dial(ctx context.Context, a address) (*Conn, error) {
	w, err := d.token(ctx, a)
	if err != nil {
		return nil, err
	}
	return d.join(ctx, a, w)
}

// A welcome is a server's answer to a login.
type welcome struct {
	*netcode.Token
	session sessionID // which begins with the token; zero: not told, as by a backend
	from    string    // address of the token service; empty: a backend
}

// join opens the session of a token, which it overwrites.
func (d *Dialer) join(ctx context.Context, a address, w welcome) (*Conn, error) {
	r := newRoamer(d, a)
	r.session, r.from = w.session, w.from
	return d.begin(ctx, a, w.Token, r)
}

// begin is join with what keeps the session alive.
func (d *Dialer) begin(ctx context.Context, a address, tok *netcode.Token, r *roamer) (*Conn, error) {
	protocolID := tok.Info().ProtocolID
	s, err := d.joinAs(ctx, a, tok, func(cfg *netcode.Config) { sideband.Own(cfg, r) })
	if err != nil {
		return nil, err
	}
	c := &Conn{Conn: s, roamer: r}
	r.start(c, protocolID)
	if sideband.Of(s).Failure() != nil {
		r.Ended(s) // which was called too early
	}
	return c, nil
}

// joinAs is join for an owner that own sets.
func (d *Dialer) joinAs(ctx context.Context, a address, tok *netcode.Token, own func(*netcode.Config)) (s *netcode.Conn, err error) {
	defer wipeToken(tok)
	var cfg netcode.Config
	if d.Config != nil {
		cfg = *d.Config
	}
	own(&cfg)
	ctx, cancel := context.WithTimeout(ctx, maxJoin) // whatever the token says
	defer cancel()
	nd := netcode.Dialer{Config: &cfg, NetDialer: d.NetDialer}
	if d.dialUDP != nil {
		var pc net.PacketConn
		if pc, err = d.dialUDP(); err == nil {
			s, err = nd.DialOn(ctx, pc, tok)
		}
	} else {
		s, err = nd.Dial(ctx, tok)
	}
	if err != nil {
		return nil, joinError(a, err)
	}
	return s, nil
}

// maxJoin is how long Dial tries with a token, at most.
const maxJoin = 2 * tokenLifetime

// wipeToken overwrites the keys of a token.
func wipeToken(tok *netcode.Token) { *tok = netcode.Token{} }

// joinError returns the error of a session that did not come to be with a token.
func joinError(a address, err error) error {
	if errors.Is(err, netcode.ErrServerFull) {
		return &RefusedError{Reason: "the server is full", RetryAfter: retryFull}
	}
	where := a.url.Host
	if h := (*netcode.HandshakeError)(nil); errors.As(err, &h) {
		where = h.Server.String()
	}
	step := "udp"
	if errors.Is(err, netcode.ErrTokenExpired) {
		step = "expired"
	}
	return &DialError{Step: step, Address: where, Err: err}
}

// token asks for a token.
func (d *Dialer) token(ctx context.Context, a address) (welcome, error) {
	if a.url.Scheme == "https" {
		tok, err := d.tokenOfBackend(ctx, a)
		return welcome{Token: tok}, err
	}
	return d.tokenOfServer(ctx, a, d.Header)
}

// tokenOfServer asks a Listener for a token, on a connection of its own.
func (d *Dialer) tokenOfServer(ctx context.Context, a address, header http.Header) (welcome, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*requestTimeout)
	defer cancel()
	fail := func(step string, err error) (welcome, error) {
		if ctx.Err() != nil {
			err = fmt.Errorf("%w (%w)", context.Cause(ctx), err)
		}
		return welcome{}, &DialError{Step: step, Address: a.host(), Err: err}
	}
	raw, err := d.connect(ctx, a.host())
	if err != nil {
		return fail("tcp", err)
	}
	defer raw.Close()
	stop := context.AfterFunc(ctx, func() { raw.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	conn := tls.Client(raw, d.tlsConfig(a))
	if err := conn.HandshakeContext(ctx); err != nil {
		return fail(tlsStep(ctx, err), err)
	}
	if p := conn.ConnectionState().NegotiatedProtocol; p != protocol {
		return fail("version", fmt.Errorf("it does not know the protocol %s", protocol))
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, a.tokenURL(), nil)
	if err != nil {
		return fail("token", err)
	}
	if header != nil {
		req.Header = header.Clone()
	}
	if req.Header.Get(serverHeader) == "" {
		req.Header.Set(serverHeader, unzoned(raw.RemoteAddr()))
	}
	req.Close = true
	if err := req.Write(conn); err != nil {
		return fail("token", err)
	}
	reply, err := readAll(conn)
	defer clear(reply)
	if err != nil && len(reply) == 0 {
		return fail("token", err)
	}
	w, err := parseReply(reply, req)
	w.from = unzoned(raw.RemoteAddr())
	if refused := (*RefusedError)(nil); errors.As(err, &refused) {
		refused.server = w.from
	} else if err != nil {
		return fail("token", err)
	}
	if tcp, ok := raw.RemoteAddr().(*net.TCPAddr); ok && err == nil {
		sideband.Zone(w.Token, tcp.Zone)
	}
	return w, err
}

func (d *Dialer) connect(ctx context.Context, address string) (net.Conn, error) {
	if d.dialTCP != nil {
		return d.dialTCP(ctx, "tcp", address)
	}
	nd := d.NetDialer
	if udp, ok := nd.LocalAddr.(*net.UDPAddr); ok {
		nd.LocalAddr = &net.TCPAddr{IP: udp.IP, Zone: udp.Zone}
	}
	return nd.DialContext(ctx, "tcp", address)
}

func unzoned(a net.Addr) string {
	if ap, err := netip.ParseAddrPort(a.String()); err == nil {
		return netip.AddrPortFrom(ap.Addr().Unmap().WithZone(""), ap.Port()).String()
	}
	return a.String()
}

// tlsConfig returns the settings for a server. Pins are looked at in place of names and dates.
func (d *Dialer) tlsConfig(a address) *tls.Config {
	c := &tls.Config{
		MinVersion: tls.VersionTLS13,
		NextProtos: []string{protocol},
		ServerName: a.url.Hostname(),
		RootCAs:    d.Trust,
	}
	if len(a.pins) > 0 {
		c.InsecureSkipVerify = true
		c.VerifyConnection = func(state tls.ConnectionState) error {
			if got := pinOf(state.PeerCertificates[0]); !a.pinned(got) {
				return &pinError{want: a.pins, got: got}
			}
			return nil
		}
	}
	return c
}

// tlsStep returns the step of a DialError for the error of a handshake.
func tlsStep(ctx context.Context, err error) string {
	var invalid x509.CertificateInvalidError
	switch {
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "clock"
	case isAlert(err, alertNoProtocol), isAlert(err, alertVersion):
		return "version"
	case isAlert(err, alertBusy):
		return "busy"
	case ctx.Err() != nil, errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.As(err, new(*net.OpError)):
		return "token"
	}
	return "tls"
}

// isAlert reports whether the server has sent an alert. Package tls tells by the text alone.
func isAlert(err error, alert tls.AlertError) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "remote error" && op.Err.Error() == alert.Error()
}

// Alerts of TLS, from RFC 8446 and RFC 7301.
const (
	alertVersion    = 70  // protocol_version
	alertBusy       = 80  // internal_error, of a pace
	alertNoProtocol = 120 // no_application_protocol
)

// maxReply is the size of the largest reply, with its header, in bytes.
const maxReply = 16 << 10

// readAll reads all of a reply, into one piece of memory that the caller clears.
func readAll(r io.Reader) ([]byte, error) {
	b := make([]byte, maxReply)
	n, err := io.ReadFull(r, b)
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		err = nil
	}
	return b[:n], err
}

var errReply = errors.New("the reply is not that of a token service")

// parseReply reads a reply. The content of a token stays in reply, for the caller to clear.
func parseReply(reply []byte, req *http.Request) (w welcome, err error) {
	head, _, ok := bytes.Cut(reply, []byte("\r\n\r\n"))
	if !ok {
		return w, errReply
	}
	n := len(head) + len("\r\n\r\n")
	resp, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(reply[:n])), req)
	if err != nil {
		return w, errReply
	}
	w.session, _ = parseSessionID(resp.Header.Get(sessionHeader))
	w.Token, err = parseBody(resp, reply[n:])
	return w, err
}

// parseBody reads the token, or the reason of a refusal, in the body of a response.
func parseBody(resp *http.Response, body []byte) (*netcode.Token, error) {
	switch resp.StatusCode {
	case http.StatusOK:
	case http.StatusForbidden, http.StatusUnauthorized, http.StatusServiceUnavailable, http.StatusTooManyRequests:
		e := &RefusedError{Reason: clean(string(body[:min(len(body), maxRefusal)]), maxRefusal)}
		if s, err := strconv.ParseUint(resp.Header.Get("Retry-After"), 10, 31); err == nil {
			e.RetryAfter = time.Duration(s) * time.Second
		}
		if e.Reason == "" {
			e.Reason = clean(resp.Status, maxRefusal)
		}
		return nil, e
	default:
		return nil, fmt.Errorf("%w: its status is %s", errReply, clean(resp.Status, maxRefusal))
	}
	if n := resp.ContentLength; n >= 0 && int64(len(body)) > n {
		body = body[:n]
	}
	tok := new(netcode.Token)
	if err := tok.UnmarshalBinary(body); err != nil {
		return nil, fmt.Errorf("%w: %w", errReply, err)
	}
	return tok, nil
}

// tokenOfBackend asks a backend for a token, by the client of package net/http.
func (d *Dialer) tokenOfBackend(ctx context.Context, a address) (*netcode.Token, error) {
	fail := func(step string, err error) (*netcode.Token, error) {
		return nil, &DialError{Step: step, Address: a.url.Host, Err: err}
	}
	var connected atomic.Bool
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { connected.Store(true) }})
	req, err := http.NewRequestWithContext(traced, http.MethodPost, a.tokenURL(), nil)
	if err != nil {
		return fail("token", err)
	}
	if d.Header != nil {
		req.Header = d.Header.Clone()
	}
	client := d.HTTP
	if client != nil && len(a.pins) > 0 {
		return nil, &urlError{a.String(), "Dialer.HTTP would not look at the pins; leave one of them out"}
	}
	if client == nil {
		c := d.tlsConfig(a)
		c.NextProtos = nil
		transport := &http.Transport{TLSClientConfig: c, DialContext: d.connectHTTP, DisableKeepAlives: true, Proxy: http.ProxyFromEnvironment, MaxResponseHeaderBytes: maxReply}
		client = &http.Client{Transport: transport, Timeout: 2 * requestTimeout, CheckRedirect: noRedirect}
	}
	resp, err := client.Do(req)
	if err != nil {
		step := tlsStep(ctx, err)
		if op := (*net.OpError)(nil); errors.As(err, &op) && op.Op == "dial" {
			step = "tcp"
		} else if connected.Load() {
			step = "token"
		}
		if u := (*url.Error)(nil); errors.As(err, &u) {
			err = u.Err
		}
		return fail(step, err)
	}
	defer resp.Body.Close()
	body, err := readAll(resp.Body)
	defer clear(body)
	if err != nil {
		return fail("token", err)
	}
	tok, err := parseBody(resp, body)
	if refused := (*RefusedError)(nil); err != nil && !errors.As(err, &refused) {
		return fail("token", err)
	}
	return tok, err
}

func (d *Dialer) connectHTTP(ctx context.Context, _, address string) (net.Conn, error) {
	return d.connect(ctx, address)
}

func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
