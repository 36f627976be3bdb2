package main

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"sync/atomic"
	"time"

	"volley/netcode"
)

// A joinRequest is what a player posts to /join.
type joinRequest struct {
	Name string `json:"name"`
}

// A joinAnswer is what it gets. The token stands in JSON as base64.
type joinAnswer struct {
	ClientID uint64         `json:"client_id"`
	Token    *netcode.Token `json:"token"`
}

// A matchmaker hands out connect tokens.
type matchmaker struct {
	issuer netcode.Issuer
	lastID atomic.Uint64
}

func newMatchmaker(key netcode.Key, server netip.AddrPort) http.Handler {
	m := &matchmaker{issuer: netcode.Issuer{
		PrivateKey: key,
		ProtocolID: protocolID,
		Servers:    []netip.AddrPort{server},
		Lifetime:   tokenLifetime,
		Timeout:    5 * time.Second,
	}}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /join", m.join)
	return mux
}

// join answers with a token. A real matchmaker would find out here who asks,
// choose a server with room, and use the client id of its user database.
func (m *matchmaker) join(w http.ResponseWriter, r *http.Request) {
	var req joinRequest
	body := http.MaxBytesReader(w, r.Body, 4096)
	if err := json.NewDecoder(body).Decode(&req); err != nil {
		http.Error(w, "a join request is a JSON object", http.StatusBadRequest)
		return
	}
	if req.Name == "" || len(req.Name) > maxName {
		http.Error(w, "a name has 1 to 32 bytes", http.StatusBadRequest)
		return
	}
	id := m.lastID.Add(1)
	token, err := m.issuer.Issue(id, []byte(req.Name))
	if err != nil {
		http.Error(w, "no token today", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	json.NewEncoder(w).Encode(joinAnswer{ClientID: id, Token: token})
}

// maxName is the longest name of a player, in bytes; it has to fit the user
// data of a token.
const maxName = 32

// serveListener serves h on web until ctx is done.
func serveListener(ctx context.Context, web net.Listener, h http.Handler) error {
	s := &http.Server{Handler: h, ReadTimeout: 5 * time.Second, WriteTimeout: 5 * time.Second}
	defer context.AfterFunc(ctx, func() { s.Close() })()
	if err := s.Serve(web); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
