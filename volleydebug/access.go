package volleydebug

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"path"
	"strings"
)

func (h *handler) refuses(r *http.Request) string {
	if reason := foreign(r); reason != "" {
		return reason
	}
	switch {
	case h.allow == nil:
		return remote(r)
	case !h.allow(r):
		return "not allowed by Config.Allow"
	}
	return ""
}

// foreign says why a request seems to come from another site's page, unless by a link.
func foreign(r *http.Request) string {
	const reason = "the request comes from another site"
	site := r.Header.Get("Sec-Fetch-Site")
	if (site == "cross-site" || site == "same-site") && !followed(r) {
		return reason
	}
	if origin := r.Header.Get("Origin"); origin != "" {
		if u, err := url.Parse(origin); err != nil || !strings.EqualFold(u.Host, r.Host) {
			return reason
		}
	}
	return ""
}

// followed reports whether a request for the page comes from a link, not a frame.
func followed(r *http.Request) bool {
	_, name := path.Split(r.URL.Path)
	dest := r.Header.Get("Sec-Fetch-Dest")
	return name == "" && r.Header.Get("Sec-Fetch-Mode") == "navigate" && (dest == "document" || dest == "")
}

// forwarded are the headers that proxies add.
var forwarded = []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Real-Ip", "Via"}

// remote says why a request is not from this machine, by peer, proxies and host name.
func remote(r *http.Request) string {
	const advice = "; Config.Allow decides otherwise"
	if !localPeer(r) {
		return "only requests from this machine are answered" + advice
	}
	for _, name := range forwarded {
		if r.Header.Get(name) != "" {
			return "the request comes through a proxy" + advice
		}
	}
	if !localHost(r.Host) {
		return "only requests for localhost or a loopback address are answered" + advice
	}
	return ""
}

// localPeer reports whether a request comes over the loopback or a Unix socket.
func localPeer(r *http.Request) bool {
	if local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok && local.Network() == "unix" {
		return true
	}
	ap, err := netip.ParseAddrPort(r.RemoteAddr)
	return err == nil && ap.Addr().Unmap().IsLoopback()
}

// localHost reports whether a Host header names the loopback.
func localHost(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	if strings.EqualFold(host, "localhost") {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.Unmap().IsLoopback()
}
