package webgate

import (
	"crypto/tls"
	"errors"
	"net/http"
	"slices"
	"strings"
)

// A Config says which browsers a [Gate] lets in. It must not be changed once it has been
// passed in.
type Config struct {
	// Certificate is the server's, for Listen. Browsers must trust it, unless it is one
	// of [DevCertificate]. A Gate of New does not use it.
	Certificate tls.Certificate
	// Path is that of the URL that browsers dial. Default "/join".
	Path string
	// Origins are the pages that may connect, such as "https://play.example", with a
	// port if it is not 443. "*" stands for every page. Default: none. A request
	// without an Origin is not from a page, and passes.
	Origins []string
	// Authorize decides about each request, by its ticket for instance:
	// r.FormValue("ticket"). Its result is [Conn.Identity]. After an error the
	// client gets the status 403 and nothing else. It may be called by several
	// goroutines. Nil: everybody who passes Origins.
	Authorize func(r *http.Request) (identity any, err error)
	// MaxSessions limits the sessions at a time, and likewise connections that are not
	// sessions yet. Default 1000. Negative: an error.
	MaxSessions int
}

const (
	defaultPath     = "/join"
	defaultSessions = 1000
)

// withDefaults returns a checked copy of c, which may be nil.
func (c *Config) withDefaults() (Config, error) {
	var cfg Config
	if c != nil {
		cfg = *c
	}
	if cfg.Path == "" {
		cfg.Path = defaultPath
	}
	if cfg.MaxSessions == 0 {
		cfg.MaxSessions = defaultSessions
	}
	cfg.Origins = slices.Clone(cfg.Origins)
	switch {
	case !strings.HasPrefix(cfg.Path, "/"):
		return cfg, errors.New("webgate: Config.Path must begin with a slash")
	case cfg.MaxSessions < 0:
		return cfg, errors.New("webgate: Config.MaxSessions is negative")
	}
	return cfg, nil
}

// admits reports whether a page of this origin may connect.
func (c *Config) admits(origin string) bool {
	return origin == "" || slices.ContainsFunc(c.Origins, func(o string) bool {
		return o == "*" || strings.EqualFold(strings.TrimSuffix(o, "/"), origin)
	})
}
