package secure

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/base32"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

const (
	defaultPort = "7777"                // of a volley URL without a port
	tokenPath   = "/.well-known/volley" // where a server hands out tokens
	maxPins     = 8                     // in one URL
	maxURL      = 2048                  // bytes of a URL
)

// An address is what a URL says: where a client asks for a token, and how it
// knows the server. There are two forms:
//
//	volley://host:port#pin,pin    the server itself; the port is 7777 by default
//	https://host/path             a backend that hands out tokens
//
// Without pins, the server has a certificate of a CA that the client trusts.
type address struct {
	url  url.URL // without a fragment, and with a port if the scheme is volley
	pins []pin
	at   string // host and port, in place of those of the URL; empty: there are none
}

// host returns where a client connects to.
func (a *address) host() string {
	if a.at != "" {
		return a.at
	}
	return a.url.Host
}

// A urlError is the error of a URL that does not say how to reach a server.
type urlError struct {
	url    string
	reason string // such as "it has no host"
}

func (e *urlError) Error() string {
	return "secure: invalid URL " + strconv.Quote(e.url) + ": " + e.reason
}

// parseURL reads a URL. A fragment that is not a list of pins is an error: a URL
// that was cut short must not lead to a server that nobody has checked.
func parseURL(s string) (address, error) {
	fail := func(reason string) (address, error) { return address{}, &urlError{s, reason} }
	if len(s) > maxURL {
		return address{}, &urlError{s[:40] + "…", "it is longer than " + strconv.Itoa(maxURL) + " bytes"}
	}
	if !strings.Contains(s, "://") {
		return fail(noScheme)
	}
	// Package url forgets an empty fragment, which is what is left of one cut short.
	plain, fragment, pinned := strings.Cut(s, "#")
	u, err := url.Parse(plain)
	if err != nil {
		return fail(err.(*url.Error).Err.Error())
	}
	if u.User != nil {
		return address{}, &urlError{u.Redacted(), "it must not have a user name or a password"}
	}
	if problem := checkURL(u); problem != "" {
		return fail(problem)
	}
	a := address{url: *u}
	if u.Scheme == "volley" {
		a.url.Path = ""
		a.url.Host = net.JoinHostPort(u.Hostname(), orDefault(u.Port(), defaultPort))
	}
	if !pinned {
		return a, nil
	}
	list := strings.Split(fragment, ",")
	if len(list) > maxPins {
		return fail("it has more than " + strconv.Itoa(maxPins) + " pins")
	}
	for _, text := range list {
		p, ok := parsePin(text)
		if !ok {
			return fail("the part behind # must be the fingerprints of the server's keys, each of " +
				strconv.Itoa(pinLength) + " letters a to z and digits 2 to 7; was the URL cut short?")
		}
		a.pins = append(a.pins, p)
	}
	return a, nil
}

const noScheme = "it must begin with volley:// or https://"

// checkURL returns what is wrong with a URL apart from its fragment, or "".
func checkURL(u *url.URL) string {
	port, err := strconv.ParseUint(orDefault(u.Port(), defaultPort), 10, 16)
	switch {
	case u.Scheme != "volley" && u.Scheme != "https":
		return noScheme
	case u.Hostname() == "":
		return "it has no host"
	case strings.Contains(u.Hostname(), ":") && !strings.HasPrefix(u.Host, "["):
		return "an IPv6 address needs brackets, as in volley://[::1]:7777"
	case !plainZone(u.Hostname()):
		return "the zone of the IPv6 address must be letters, digits, dots, dashes and underscores"
	case strings.HasSuffix(u.Host, ":"):
		return "the port is missing behind the colon"
	case err != nil || port == 0:
		return "the port must be from 1 to 65535"
	case u.Scheme == "https":
		return ""
	case u.Path != "" && u.Path != "/":
		return "a volley URL has no path"
	case u.RawQuery != "" || u.ForceQuery:
		return "a volley URL has no query"
	}
	return ""
}

// plainZone reports whether the zone of a host, if it has one, is the name of an interface,
// which package url reads again as it writes it.
func plainZone(host string) bool {
	_, zone, _ := strings.Cut(host, "%")
	return !strings.ContainsFunc(zone, func(r rune) bool {
		return r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune(".-_", r)
	})
}

func orDefault(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

// String returns the URL, which parseURL reads again. The default port of a
// volley URL is written, too.
func (a address) String() string {
	s := a.url.String()
	for i, p := range a.pins {
		s += string("#,"[min(i, 1)]) + p.String()
	}
	return s
}

// tokenURL returns the URL to which the request for a token is sent.
func (a address) tokenURL() string {
	u := a.url
	if u.Scheme == "volley" {
		u.Scheme, u.Path = "https", tokenPath
	}
	return u.String()
}

// A pin is the SHA-256 of a public key in its DER form, SubjectPublicKeyInfo.
type pin [sha256.Size]byte

const pinLength = 52 // characters of base32 for 256 bits

var pinEncoding = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// pinOf returns the pin of the public key in a certificate.
func pinOf(c *x509.Certificate) pin { return sha256.Sum256(c.RawSubjectPublicKeyInfo) }

// String returns the pin as it stands in a URL.
func (p pin) String() string { return pinEncoding.EncodeToString(p[:]) }

// parsePin reads what String has written, and nothing else: the last character
// holds four bits more than a pin has, and base32 would skip ends of lines.
func parsePin(s string) (p pin, ok bool) {
	if len(s) != pinLength {
		return pin{}, false
	}
	b, err := pinEncoding.DecodeString(s)
	if err != nil || len(b) != len(p) {
		return pin{}, false
	}
	p = pin(b)
	return p, p.String() == s
}

// pinned reports whether the URL admits a server with this key.
func (a address) pinned(p pin) bool { return slices.Contains(a.pins, p) }
