package secure

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"time"

	"volley/internal/sideband"
)

// Servers with the same key are siblings. One asks another for tokens, for the clients that it
// sends there, by the token service. The protocol of ALPN is another one, and both sides show a
// certificate with the key.

const (
	siblingProtocol = "volley-sibling/1"
	maxTickets      = drainBatch // in a request
	maxTicketBody   = maxTickets * (2 + ticketHeader + maxIdentity + maxState)
)

// siblingConfig returns the settings of TLS between siblings, for both sides.
func (l *Listener) siblingConfig() (*tls.Config, error) {
	certs := l.service.tls.Certificates
	if len(certs) == 0 || len(l.pins) == 0 {
		return nil, errors.New("secure: the server has no certificate of its own, by which others know it")
	}
	return &tls.Config{
		MinVersion:         tls.VersionTLS13,
		NextProtos:         []string{siblingProtocol},
		Certificates:       certs,
		ClientAuth:         tls.RequireAnyClientCert,
		InsecureSkipVerify: true, // VerifyConnection looks at the key in place of names and dates
		VerifyConnection: func(state tls.ConnectionState) error {
			if len(state.PeerCertificates) == 0 || !slices.Contains(l.pins, pinOf(state.PeerCertificates[0])) {
				return errors.New("secure: the other server has another key")
			}
			return nil
		},
	}, nil
}

// ofSiblings returns the settings for a client that says it is a sibling; nil: it does not.
func (l *Listener) ofSiblings(hello *tls.ClientHelloInfo) (*tls.Config, error) {
	if !slices.Contains(hello.SupportedProtos, siblingProtocol) {
		return nil, nil
	}
	return l.siblingConfig()
}

// A sibling is another server as one sees it that sends clients there.
type sibling struct {
	address address
	tls     *tls.Config
	dial    func(ctx context.Context, network, address string) (net.Conn, error)
}

func (l *Listener) sibling(to string) (*sibling, error) {
	a, err := parseURL(to)
	if err != nil {
		return nil, err
	}
	if a.url.Scheme != "volley" {
		return nil, &urlError{to, "it must begin with volley://, because it is that of a server"}
	}
	config, err := l.siblingConfig()
	if err != nil {
		return nil, err
	}
	s := &sibling{address: a, tls: config, dial: l.cfg.dialTCP}
	if s.dial == nil {
		s.dial = new(net.Dialer).DialContext
	}
	return s, nil
}

// seal asks for spare tokens for the clients of tickets, at most maxTickets.
func (s *sibling) seal(ctx context.Context, tickets [][]byte) ([][]byte, error) {
	if len(tickets) == 0 {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	dial := s.dial
	if n := sideband.NetworkOf(ctx); n != nil {
		dial = n.DialTCP
	}
	raw, err := dial(ctx, "tcp", s.address.url.Host)
	if err != nil {
		return nil, &DialError{Step: "tcp", Address: s.address.url.Host, Err: err}
	}
	defer raw.Close()
	stop := context.AfterFunc(ctx, func() { raw.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	spares, err := s.sealOn(ctx, raw, tickets)
	if err != nil && ctx.Err() != nil {
		err = fmt.Errorf("%w (%w)", context.Cause(ctx), err)
	}
	return spares, err
}

func (s *sibling) sealOn(ctx context.Context, raw net.Conn, tickets [][]byte) ([][]byte, error) {
	fail := func(step string, err error) ([][]byte, error) {
		return nil, &DialError{Step: step, Address: s.address.url.Host, Err: err}
	}
	conn := tls.Client(raw, s.tls)
	if err := conn.HandshakeContext(ctx); err != nil {
		return fail(tlsStep(ctx, err), err)
	}
	var body []byte
	for _, t := range tickets {
		body = binary.LittleEndian.AppendUint16(body, uint16(len(t)))
		body = append(body, t...)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.address.tokenURL(), bytes.NewReader(body))
	if err != nil {
		return fail("token", err)
	}
	req.Header.Set("Content-Type", tokenType)
	req.Header.Set(serverHeader, unzoned(raw.RemoteAddr()))
	req.Close = true
	if err := req.Write(conn); err != nil {
		return fail("token", err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), req)
	if err != nil {
		return fail("token", err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, int64(len(tickets)*elsewhereSize+1)))
	switch {
	case err != nil:
		return fail("token", err)
	case resp.StatusCode != http.StatusOK:
		return nil, &RefusedError{Reason: clean(string(b[:min(len(b), maxRefusal)]), maxRefusal)}
	case len(b) != len(tickets)*elsewhereSize:
		return fail("token", errReply)
	}
	return slices.Collect(slices.Chunk(b, elsewhereSize)), nil
}

// serveSibling answers a sibling with spare tokens.
func (s *service) serveSibling(w http.ResponseWriter, r *http.Request) {
	l := s.listener
	if r.Method != http.MethodPost {
		http.Error(w, "tokens are asked for by POST", http.StatusMethodNotAllowed)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxTicketBody))
	if err != nil {
		http.Error(w, "the tickets cannot be read", http.StatusBadRequest)
		return
	}
	public, err := l.publicAddress(r)
	if err != nil {
		refuse(w, err)
		return
	}
	if reason := l.refusal.Load(); reason != nil {
		refuse(w, &RefusedError{Reason: *reason, RetryAfter: retryFull})
		return
	}
	var out []byte
	defer func() { clear(out) }()
	for n := 0; len(body) > 0; n++ {
		size := 0
		if len(body) >= 2 {
			size = 2 + int(binary.LittleEndian.Uint16(body))
		}
		if size == 0 || size > len(body) || n == maxTickets {
			http.Error(w, "the tickets cannot be read", http.StatusBadRequest)
			return
		}
		spare, err := l.seal(body[2:size], public)
		if err != nil {
			refuse(w, err)
			return
		}
		out = append(out, spare...)
		body = body[size:]
	}
	w.Header().Set("Content-Type", tokenType)
	w.Header().Set("Cache-Control", "no-store")
	w.Write(out)
}
