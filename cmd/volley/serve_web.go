package main

import (
	"errors"
	"fmt"
	"net"

	"volley"
	"volley/webgate"
)

// webServer lets browsers in beside other clients.
type webServer struct {
	ln   *volley.Listener
	url  string
	hash string // of the certificate
}

// listenWeb listens for browsers, with a certificate that is made for this run. It
// returns nil if the flags ask for none.
func (o *serveOptions) listenWeb() (*webServer, error) {
	if o.web == "" {
		return nil, nil
	}
	if o.secure || o.protocol == protocolPorous {
		return nil, errors.New("--web is for clients of volley without --secure: browsers encrypt by themselves")
	}
	host, _, err := net.SplitHostPort(o.web)
	if err != nil {
		return nil, fmt.Errorf("--web: %v", err)
	}
	cert, hash, err := webgate.DevCertificate(webHosts(host)...)
	if err != nil {
		return nil, err
	}
	gate, err := webgate.Listen(o.web, &webgate.Config{Certificate: cert, Origins: []string{"*"}, MaxSessions: maxServed})
	if err != nil {
		return nil, err
	}
	ln, err := volley.NewListener(gate, o.volleyConfig())
	if err != nil {
		gate.Close()
		return nil, err
	}
	_, port, _ := net.SplitHostPort(gate.Addr().String())
	if host == "" {
		host = "localhost"
	}
	return &webServer{ln, "https://" + net.JoinHostPort(host, port) + "/join", hash}, nil
}

// webHosts are the names that the certificate is for.
func webHosts(host string) []string {
	hosts := []string{"localhost", "127.0.0.1", "::1"}
	if host != "" {
		hosts = append(hosts, host)
	}
	return hosts
}

// announce prints what a page has to know.
func (w *webServer) announce(s *server) {
	if w != nil {
		s.print(fmt.Sprintf("browsers: %s\ncertificate hash: %s", w.url, w.hash))
	}
}

func (w *webServer) close() {
	if w != nil {
		w.ln.Close()
	}
}
