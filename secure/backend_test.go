package secure

import (
	"context"
	"errors"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"volley/netcode"
)

const testSecret = "a secret of game servers"

// backend starts a backend over TLS, and returns the Dialer of its clients.
func backend(t *testing.T, h *TokenHandler) (url string, d *Dialer) {
	s := newTLSServer(t, h)
	return s.URL + "/join", &Dialer{HTTP: s.Client()}
}

func newTLSServer(t *testing.T, h http.Handler) *httptest.Server {
	s := httptest.NewUnstartedServer(h)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

func TestTokenHandler(t *testing.T) {
	l := newServer(t, &ListenConfig{Backend: testSecret})
	down := "volley://127.0.0.1:1" + l.URL("x")[strings.IndexByte(l.URL("x"), '#'):]
	h := &TokenHandler{
		Servers: []string{down, l.URL("127.0.0.1")},
		Backend: testSecret,
		Authorize: func(r *http.Request) (*Grant, error) {
			if r.Header.Get("Authorization") != "Bearer me" {
				return nil, errors.New("unknown player")
			}
			return &Grant{ClientID: 9, Identity: []byte("nine"), Expires: time.Now().Add(time.Hour)}, nil
		},
	}
	url, d := backend(t, h)
	_, err := d.Dial(t.Context(), url)
	var refused *RefusedError
	require.ErrorAs(t, err, &refused)
	require.Equal(t, &RefusedError{Reason: "unknown player"}, refused)

	d.Header = http.Header{"Authorization": {"Bearer me"}}
	for range 2 { // each server is the first one once
		c, err := d.Dial(t.Context(), url)
		require.NoError(t, err)
		defer c.Close()
		s, err := l.AcceptConn(t.Context())
		require.NoError(t, err)
		require.Equal(t, uint64(9), s.ClientID())
		require.Equal(t, "nine", string(s.Identity()))
		require.NotNil(t, s.expiry)
	}

	// The server gives tokens to nobody else.
	for _, header := range []http.Header{nil, d.Header, {"Authorization": {"Bearer " + testSecret + "x"}}} {
		_, err = (&Dialer{Header: header}).Dial(t.Context(), l.URL("127.0.0.1"))
		require.ErrorAs(t, err, &refused)
		require.Equal(t, errNoBackend, refused.Reason)
	}
}

// A client learns that the game servers are down or full, and nothing else of them.
func TestTokenHandlerWithoutServers(t *testing.T) {
	l := newServer(t, &ListenConfig{Backend: testSecret, Sessions: &netcode.ListenConfig{MaxClients: 1}})
	for _, test := range []struct {
		servers []string
		secret  string
		want    RefusedError
	}{
		{[]string{l.URL("127.0.0.1")}, testSecret + "x", RefusedError{Reason: "no game server answers", RetryAfter: retryNobody}},
		{[]string{"volley://127.0.0.1:1"}, testSecret, RefusedError{Reason: "no game server answers", RetryAfter: retryNobody}},
		{[]string{"not a URL"}, testSecret, RefusedError{Reason: "no game server answers", RetryAfter: retryNobody}},
	} {
		url, d := backend(t, &TokenHandler{Servers: test.servers, Backend: test.secret})
		_, err := d.Dial(t.Context(), url)
		var refused *RefusedError
		require.ErrorAs(t, err, &refused)
		require.Equal(t, test.want, *refused)
	}

	url, d := backend(t, &TokenHandler{Servers: []string{l.URL("127.0.0.1")}, Backend: testSecret})
	c, err := d.Dial(t.Context(), url)
	require.NoError(t, err)
	defer c.Close()
	_, err = d.Dial(t.Context(), url)
	var refused *RefusedError
	require.ErrorAs(t, err, &refused)
	require.Equal(t, RefusedError{Reason: "the server is full", RetryAfter: retryFull}, *refused)

}

// A handler without servers, or without their secret, logs its fault. Clients learn that there is one.
func TestTokenHandlerFaults(t *testing.T) {
	for want, h := range map[string]*TokenHandler{
		"TokenHandler.Servers is empty": {Backend: testSecret},
		"TokenHandler.Backend has 0 bytes, and the secret of game servers has at least 16": {Servers: []string{"volley://127.0.0.1:1"}},
	} {
		var text strings.Builder
		h.Logger = slog.New(slog.NewTextHandler(&text, nil))
		h.Authorize = func(*http.Request) (*Grant, error) { return nil, errors.New("it must not be asked") }
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/join", nil))
		require.Equal(t, http.StatusInternalServerError, w.Code)
		require.Equal(t, "the server has a fault\n", w.Body.String())
		require.Contains(t, text.String(), want)
	}
}

// A pin in the URL of a backend counts, and cannot be passed over by a client of package http.
func TestBackendPins(t *testing.T) {
	l := newServer(t, &ListenConfig{Backend: testSecret})
	s := newTLSServer(t, &TokenHandler{Servers: []string{l.URL("127.0.0.1")}, Backend: testSecret})
	good := s.URL + "/join#" + pinOf(s.Certificate()).String()
	c, err := Dial(t.Context(), good)
	require.NoError(t, err)
	c.Close()

	bad := s.URL + "/join#" + l.Fingerprint()
	_, err = Dial(t.Context(), bad)
	var de *DialError
	require.ErrorAs(t, err, &de)
	require.Equal(t, "tls", de.Step)
	_, err = (&Dialer{HTTP: s.Client()}).Dial(t.Context(), bad)
	require.ErrorContains(t, err, "Dialer.HTTP would not look at the pins")
	_, err = Dial(t.Context(), s.URL+"/join") // its CA is unknown here
	require.ErrorAs(t, err, &de)
	require.Equal(t, "tls", de.Step)
}

// A redirect could lead anywhere, with the credentials of the client.
func TestBackendRedirect(t *testing.T) {
	s := newTLSServer(t, http.RedirectHandler("https://127.0.0.1:1/", http.StatusTemporaryRedirect))
	_, err := Dial(t.Context(), s.URL+"/#"+pinOf(s.Certificate()).String())
	var de *DialError
	require.ErrorAs(t, err, &de)
	require.ErrorContains(t, err, "307")
}

func TestTokenHandlerMethod(t *testing.T) {
	h := &TokenHandler{}
	for method, body := range map[string]string{http.MethodGet: "", http.MethodPost: strings.Repeat("x", maxBody+1)} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(context.Background(), method, "/join", strings.NewReader(body)))
		require.Contains(t, []int{http.StatusMethodNotAllowed, http.StatusRequestEntityTooLarge}, w.Code)
	}
}
