// Package volleyotel gives the figures of all listeners and connections of a process
// to OpenTelemetry, for volley, netcode, porous and riptide alike:
//
//	registration, err := volleyotel.Register(otel.GetMeterProvider())
//
// The figures are those of package volleyprom, as observable counters and gauges.
// Their names have dots and no units, such as volley.messages.sent. An exporter from
// OpenTelemetry to Prometheus turns them into the names of volleyprom, so its
// dashboard and alerts fit.
package volleyotel
