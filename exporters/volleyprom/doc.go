// Package volleyprom gives the figures of all listeners and connections of a
// process to Prometheus, for volley, netcode, porous and riptide alike:
//
//	prometheus.MustRegister(volleyprom.NewCollector())
//	http.Handle("/metrics", promhttp.Handler())
//
// They are asked for when Prometheus scrapes, and cost nothing before.
//
// Names begin with volley_. Figures of listeners have the labels protocol, listener
// (its address) and kind. Figures of connections have protocol, listener and role,
// and are added up for each listener. Connections without a listener are added up
// by role ("dialed", "wrapped" or "pipe"); their label listener is empty. There is
// no label for a peer. The protocol is the one on the socket: "netcode" also
// where volley stands on it. Round-trip time, jitter and loss are percentiles over the
// connections that live, with the label percentile, of which "100" is the largest. A
// figure that a protocol does not tell is left out.
//
// Counters go on when connections end. Only the counts of a Pipe that is dropped
// without a Close are lost.
//
// The folder has a dashboard for Grafana, dashboard.json, and rules for alerts,
// alerts.yml. docs/observability.md lists all figures.
package volleyprom
