package volleyprom

import (
	"github.com/prometheus/client_golang/prometheus"

	"volley/exporters/internal/figures"
)

// A Collector gives the figures of all listeners and connections of the process to
// Prometheus. It is safe for concurrent use. Register one in a process.
type Collector struct {
	source figures.Source
	descs  map[*figures.Metric]*prometheus.Desc
}

var _ prometheus.Collector = (*Collector)(nil)

// NewCollector returns a Collector. It costs nothing until it is scraped.
func NewCollector() *Collector {
	c := &Collector{descs: make(map[*figures.Metric]*prometheus.Desc, len(figures.Metrics))}
	for _, m := range figures.Metrics {
		c.descs[m] = prometheus.NewDesc(m.Prometheus(), m.Help, m.Labels, nil)
	}
	return c
}

// Describe implements [prometheus.Collector].
func (c *Collector) Describe(descs chan<- *prometheus.Desc) {
	for _, m := range figures.Metrics {
		descs <- c.descs[m]
	}
}

// Collect implements [prometheus.Collector]. It takes one snapshot, some microseconds
// a connection; concurrent scrapes share it.
func (c *Collector) Collect(metrics chan<- prometheus.Metric) {
	for _, v := range c.source.Values() {
		kind := prometheus.GaugeValue
		if v.Metric.Kind == figures.Counter {
			kind = prometheus.CounterValue
		}
		metrics <- prometheus.MustNewConstMetric(c.descs[v.Metric], kind, v.Value, v.Labels...)
	}
}
