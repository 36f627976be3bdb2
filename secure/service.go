package secure

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"
	"unicode"

	"volley/netcode"
)

// The token service: POST to tokenPath over TLS 1.3 returns a connect token in the wire
// form of netcode 1.02.
const (
	protocol     = "volley/1"      // of ALPN
	serverHeader = "Volley-Server" // of a request: the address that the client reaches by TCP
	tokenType    = "application/octet-stream"

	maxHeader      = 16 << 10        // bytes of a request's header
	maxBody        = 4 << 10         // bytes of a request's body, which nobody reads
	requestTimeout = 5 * time.Second // from the connection to the answer
	answerTime     = time.Second     // what of it is left to send the answer
	maxRefusal     = 256             // bytes of a reason
	retryFull      = 5 * time.Second // what a client waits if the server is full
)

var protocols = []string{protocol, "http/1.1"}

// A service answers requests for tokens.
type service struct {
	listener *Listener
	tls      *tls.Config
	shares   shares
	http     http.Server
	gate     *gate
}

func (s *service) init(l *Listener, config *tls.Config) {
	s.listener, s.tls = l, config
	s.http = http.Server{
		Handler:           s,
		ReadHeaderTimeout: requestTimeout,
		ReadTimeout:       requestTimeout,
		WriteTimeout:      requestTimeout,
		MaxHeaderBytes:    maxHeader,
		ConnContext:       func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, connKey{}, c) },
		ErrorLog:          log.New(io.Discard, "", 0),
	}
	if logger := l.logger(); logger != nil { // such as a panic of Authorize
		s.http.ErrorLog = slog.NewLogLogger(logger.Handler(), slog.LevelError)
	}
	s.http.SetKeepAlivesEnabled(false)
}

type connKey struct{}

// serve answers requests on a listener until close.
func (s *service) serve(tcp net.Listener) {
	history := max(minHistory, historyPerClient*s.listener.maxClients())
	s.shares.max = history - history/4 // the rest is for sessions that move
	s.gate = newGate(tcp, s.tls, s.listener.ofSiblings)
	go s.http.Serve(s.gate)
}

func (s *service) close() { s.http.Close() }

// ServeHTTP answers a request.
func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	conn, _ := r.Context().Value(connKey{}).(*tokenConn)
	if conn == nil {
		return
	}
	state := conn.tls.ConnectionState()
	r.TLS = &state
	ctx, cancel := context.WithDeadline(r.Context(), conn.end.Add(-answerTime))
	defer cancel()
	r = r.WithContext(ctx)
	if r.URL.Path != tokenPath {
		http.Error(w, "this is a token service for game clients; there is nothing else here", http.StatusNotFound)
		return
	}
	if state.NegotiatedProtocol == siblingProtocol {
		s.serveSibling(w, r)
		return
	}
	if !allowed(w, r) {
		return
	}
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil { // as over a Pipe
		from = netip.AddrPortFrom(netip.IPv4Unspecified(), 0)
	}
	switch tok, session, err := s.listener.token(r, from.Addr()); {
	case err == nil:
		w.Header().Set(sessionHeader, session.String())
		answer(w, tok)
	case errors.As(err, new(*fault)):
		s.listener.log(err)
		http.Error(w, "the server has a fault", http.StatusInternalServerError)
	default:
		refuse(w, err)
	}
}

// A fault is an error of the server's own, which is not the client's affair.
type fault struct{ err error }

func (f *fault) Error() string { return f.err.Error() }
func (f *fault) Unwrap() error { return f.err }

func (l *Listener) log(err error) {
	if logger := l.logger(); logger != nil {
		logger.Error("secure: no token", slog.Any("error", err))
	}
}

func (l *Listener) logger() *slog.Logger {
	if l.cfg.Sessions == nil {
		return nil
	}
	return l.cfg.Sessions.Logger
}

// allowed answers requests that are not for a token.
func allowed(w http.ResponseWriter, r *http.Request) bool {
	switch {
	case r.Method != http.MethodPost:
		w.Header().Set("Allow", http.MethodPost)
		http.Error(w, "a token is asked for by POST", http.StatusMethodNotAllowed)
	case r.ContentLength > maxBody:
		http.Error(w, "the body of a request is at most 4 KiB", http.StatusRequestEntityTooLarge)
	default:
		n, err := io.Copy(io.Discard, io.LimitReader(r.Body, maxBody+1))
		if err == nil && n <= maxBody {
			r.Body = http.NoBody
			return true
		}
		http.Error(w, "the body of a request is at most 4 KiB", http.StatusRequestEntityTooLarge)
	}
	return false
}

// refuse answers with an error: a *RefusedError, or one of Authorize.
func refuse(w http.ResponseWriter, err error) {
	code := http.StatusForbidden
	reason := err.Error()
	if refused := (*RefusedError)(nil); errors.As(err, &refused) {
		reason = refused.Reason
		if refused.RetryAfter > 0 {
			code = http.StatusServiceUnavailable
			w.Header().Set("Retry-After", strconv.Itoa(int((refused.RetryAfter+time.Second-1)/time.Second)))
		}
	}
	w.Header().Set("Cache-Control", "no-store")
	http.Error(w, clean(reason, maxRefusal), code)
}

// clean returns text of a stranger as one line of at most max bytes.
func clean(s string, max int) string {
	s = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
	if len(s) > max {
		s = strings.ToValidUTF8(s[:max], "")
	}
	return strings.TrimSpace(s)
}

// answer sends a token. It writes to the connection itself where it can, because the buffers
// of net/http would keep the keys in memory.
func answer(w http.ResponseWriter, tok *netcode.Token) {
	b, err := tok.MarshalBinary()
	*tok = netcode.Token{}
	defer clear(b)
	if err != nil {
		http.Error(w, "the server has a fault", http.StatusInternalServerError)
		return
	}
	h := tokenHeader(w, b)
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		w.Write(b)
		return
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(requestTimeout))
	h.Set("Connection", "close")
	var head bytes.Buffer
	head.WriteString("HTTP/1.1 200 OK\r\n")
	h.Write(&head)
	head.WriteString("\r\n")
	conn.Write(head.Bytes())
	conn.Write(b)
}

func tokenHeader(w http.ResponseWriter, b []byte) http.Header {
	h := w.Header()
	h.Set("Content-Type", tokenType)
	h.Set("Content-Length", strconv.Itoa(len(b)))
	h.Set("Cache-Control", "no-store")
	return h
}

// token decides about a request, and makes a token for a session.
func (l *Listener) token(r *http.Request, from netip.Addr) (*netcode.Token, sessionID, error) {
	var none sessionID
	public, err := l.publicAddress(r)
	if err != nil {
		return nil, none, err
	}
	going, err := l.goesOn(r)
	if err != nil {
		return nil, none, err
	}
	if reason := l.refusal.Load(); going == nil && reason != nil {
		return nil, none, &RefusedError{Reason: *reason, RetryAfter: retryFull}
	}
	if going == nil && l.full() {
		return nil, none, &RefusedError{Reason: "the server is full", RetryAfter: retryFull}
	}
	authorize := l.cfg.Authorize
	if l.cfg.Backend != "" {
		authorize = l.fromBackend
		from = netip.Addr{} // that of the backend, which asks for many clients
	}
	grant, err := authorized(r, authorize)
	if err != nil {
		return nil, none, err
	}
	if wait := l.service.shares.take(time.Now(), from); wait > 0 {
		return nil, none, &RefusedError{Reason: "too many clients of your network ask for tokens", RetryAfter: wait}
	}
	t := grant.ticket()
	t.serial = l.seats.serial.Add(1)
	if going == nil {
		t.session, t.generation = newSessionID(), 1
	} else if t, err = l.seats.next(going, grant); err != nil {
		return nil, none, err
	}
	tok, err := l.keys.issue(&t, public, tokenLifetime)
	if err != nil {
		return nil, none, &fault{err}
	}
	return tok, t.session, nil
}

// authorized returns the Grant for a request.
func authorized(r *http.Request, authorize func(*http.Request) (*Grant, error)) (*Grant, error) {
	if authorize == nil {
		return &Grant{}, nil
	}
	grant, err := authorize(r)
	switch {
	case err != nil:
		return nil, err
	case grant == nil:
		return nil, &fault{errors.New("neither a Grant nor an error came from Authorize")}
	case len(grant.Identity) > maxIdentity:
		return nil, &fault{fmt.Errorf("the Identity in a Grant has %d bytes, more than %d", len(grant.Identity), maxIdentity)}
	case !grant.Expires.IsZero() && !grant.Expires.After(time.Now()):
		return nil, errors.New("the login has expired")
	}
	return grant, nil
}

func (g *Grant) ticket() ticket {
	return ticket{clientID: g.ClientID, expires: g.Expires, identity: g.Identity}
}

// publicAddress returns where the client reaches the sessions: Public, or the address that it
// says it has reached by TCP. Only the client itself goes there.
func (l *Listener) publicAddress(r *http.Request) (netip.AddrPort, error) {
	if l.cfg.Public.IsValid() {
		return l.cfg.Public, nil
	}
	text := r.Header.Get(serverHeader)
	if text == "" {
		return l.localAddress(r)
	}
	ap, err := netip.ParseAddrPort(text)
	if err != nil || !ofServer(ap) {
		return netip.AddrPort{}, errors.New("the header " + serverHeader + " must be the server's address and port")
	}
	return netip.AddrPortFrom(ap.Addr().Unmap().WithZone(""), ap.Port()), nil
}

// ofServer reports whether an address can be that of a server.
func ofServer(ap netip.AddrPort) bool {
	a := ap.Addr().Unmap()
	return ap.IsValid() && ap.Port() != 0 && !a.IsUnspecified() && !a.IsMulticast() && a != netip.AddrFrom4([4]byte{255, 255, 255, 255})
}

// localAddress returns the address of this side of a request's connection, with the port of
// the sessions.
func (l *Listener) localAddress(r *http.Request) (netip.AddrPort, error) {
	udp, _ := l.Addr().(*net.UDPAddr)
	local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if local == nil || udp == nil {
		return netip.AddrPort{}, errors.New("the header " + serverHeader + " is missing")
	}
	ap, err := netip.ParseAddrPort(local.String())
	if err != nil {
		return netip.AddrPort{}, errors.New("the header " + serverHeader + " is missing")
	}
	return netip.AddrPortFrom(ap.Addr().Unmap().WithZone(""), uint16(udp.Port)), nil
}

// Bounds of package netcode: it remembers so many tokens, and has so many sessions.
const (
	minHistory        = 2048
	historyPerClient  = 8
	defaultMaxClients = 4096
)

func (l *Listener) maxClients() int {
	if l.cfg.Sessions != nil && l.cfg.Sessions.MaxClients > 0 {
		return l.cfg.Sessions.MaxClients
	}
	return defaultMaxClients
}

func (l *Listener) full() bool { return l.sessions.Stats().Conns >= l.maxClients() }
