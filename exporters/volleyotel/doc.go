// Package volleyotel gives the figures of all listeners and connections of a process
// to OpenTelemetry, for volley, netcode, porous and riptide alike:
//
//	registration, err := volleyotel.Register(otel.GetMeterProvider())
//
// They are those of package volleyprom, as observable counters and gauges, and are
// asked for when a reader collects. Their names have dots for underscores and no
// units, such as volley.messages.sent: an exporter from OpenTelemetry to Prometheus
// makes the names of volleyprom of them, so that its dashboard and alerts fit.
package volleyotel
