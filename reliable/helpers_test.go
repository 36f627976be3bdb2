package reliable

import "time"

// newEndpoint is New for an endpoint whose ids are its sequences.
func newEndpoint(cfg *Config, now time.Time, h Handler) (*Endpoint, error) {
	e := new(Endpoint)
	return e, e.Init(cfg, now, 0, h)
}
