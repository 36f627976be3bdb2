// Package volleyprom gives the figures of all listeners and connections of a
// process to Prometheus, for volley, netcode, porous and riptide alike:
//
//	prometheus.MustRegister(volleyprom.NewCollector())
//	http.Handle("/metrics", promhttp.Handler())
//
// They are asked for when Prometheus scrapes, and cost nothing before.
//
// Names begin with volley_. Figures of listeners have the labels protocol, listener
// (the address listened on) and kind, those of connections protocol, listener and
// role: those of one listener are added up, and so are those that belong to none, by
// how they came to be ("dialed", "wrapped" or "pipe"); their label listener is empty.
// There is no label for a peer. The protocol is the one on the socket: "netcode" also
// where volley stands on it. Round-trip time, jitter and loss are percentiles over the
// connections that live, with the label percentile, of which "100" is the largest. A
// figure that a protocol does not tell is left out.
//
// Counters count on when connections end. What a connection has counted that was made
// and dropped without a Close, as only a Pipe can be, is lost.
//
// The folder has a dashboard for Grafana, dashboard.json, and rules for alerts,
// alerts.yml. docs/observability.md lists all figures.
package volleyprom
