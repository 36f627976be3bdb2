package secure

import (
	"context"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"
)

const (
	minSecret    = 16 // bytes of ListenConfig.Backend
	grantHeader  = "Volley-Grant"
	bearer       = "Bearer "
	serverWait   = 2 * time.Second // for the answer of one game server
	retryNobody  = 5 * time.Second // what a client waits if no game server answers
	errNoBackend = "this server gives tokens to its backend only"
)

// A TokenHandler is the token service of a backend that knows the clients, apart from the
// game servers. It authorizes a client, asks a game server for a token by the server's own
// token service, and passes it on: so no key that seals tokens leaves a game server. Its
// clients dial the https URL at which it is mounted. It must be served over TLS, and is safe
// for concurrent use. The server on which it is mounted keeps tokens in its buffers for a
// while, with the keys of sessions: a [Listener] overwrites them, and the handler cannot.
type TokenHandler struct {
	// Servers are the URLs of the game servers, as of [Listener.URL], each with the same
	// [ListenConfig.Backend]. They take turns; one that is full or does not answer is passed
	// over. Clients reach a server by its [ListenConfig.Public], or else by the address at
	// which the handler reaches it.
	Servers []string
	// Backend is the secret of the game servers, at least 16 bytes.
	Backend string
	// Authorize decides about a request, as that of [ListenConfig]; nil: everybody may join.
	Authorize func(r *http.Request) (*Grant, error)
	// Dialer has options for the connections to the game servers; nil: the defaults.
	Dialer *Dialer
	// Logger, if not nil, gets the errors of game servers, which clients do not see.
	Logger *slog.Logger

	turn atomic.Uint32
}

// ServeHTTP answers a request for a token: with the token, or with a refusal of which the
// client learns by a *[RefusedError].
func (h *TokenHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), requestTimeout)
	defer cancel()
	if !allowed(w, r) {
		return
	}
	b, err := h.token(ctx, r.WithContext(ctx))
	switch {
	case errors.As(err, new(*fault)):
		h.log(err)
		http.Error(w, "the server has a fault", http.StatusInternalServerError)
	case err != nil:
		refuse(w, err)
	default:
		tokenHeader(w, b)
		w.Write(b)
		clear(b)
	}
}

// token returns a token of the first game server that gives one.
func (h *TokenHandler) token(ctx context.Context, r *http.Request) ([]byte, error) {
	switch {
	case len(h.Servers) == 0:
		return nil, &fault{errors.New("TokenHandler.Servers is empty")}
	case len(h.Backend) < minSecret:
		return nil, &fault{fmt.Errorf("TokenHandler.Backend has %d bytes, and the secret of game servers has at least %d", len(h.Backend), minSecret)}
	}
	grant, err := authorized(r, h.Authorize)
	if err != nil {
		return nil, err
	}
	t := grant.ticket()
	header := http.Header{
		"Authorization": {bearer + h.Backend},
		grantHeader:     {base64.RawURLEncoding.EncodeToString(t.append(nil))},
	}
	refused := &RefusedError{Reason: "no game server answers", RetryAfter: retryNobody}
	first := int(h.turn.Add(1) % uint32(len(h.Servers)))
	for i := range h.Servers {
		b, err := h.ask(ctx, h.Servers[(first+i)%len(h.Servers)], header)
		if err == nil {
			return b, nil
		}
		h.log(err)
		if full := (*RefusedError)(nil); errors.As(err, &full) && full.RetryAfter > 0 {
			refused = full
		}
	}
	return nil, refused
}

// ask asks a game server for a token, in its wire form.
func (h *TokenHandler) ask(ctx context.Context, server string, header http.Header) ([]byte, error) {
	a, err := parseURL(server)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, serverWait)
	defer cancel()
	d := h.Dialer
	if d == nil {
		d = new(Dialer)
	}
	w, err := d.tokenOfServer(ctx, a, header)
	if err != nil {
		return nil, err
	}
	defer wipeToken(w.Token)
	return w.MarshalBinary()
}

func (h *TokenHandler) log(err error) {
	if h.Logger != nil {
		h.Logger.Error("secure: no token of a game server", slog.Any("error", err))
	}
}

// fromBackend returns the Grant of a TokenHandler with our secret.
func (l *Listener) fromBackend(r *http.Request) (*Grant, error) {
	want := bearer + l.cfg.Backend
	if subtle.ConstantTimeCompare([]byte(r.Header.Get("Authorization")), []byte(want)) != 1 {
		return nil, errors.New(errNoBackend)
	}
	b, err := base64.RawURLEncoding.DecodeString(r.Header.Get(grantHeader))
	if err != nil {
		return nil, errors.New("the header " + grantHeader + " is not in base64")
	}
	t, ok := parseTicket(b)
	if !ok {
		return nil, errors.New("the header " + grantHeader + " is of another version")
	}
	return &Grant{ClientID: t.clientID, Identity: t.identity, Expires: t.expires}, nil
}
