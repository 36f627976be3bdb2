package volleyotel

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"volley/exporters/internal/figures"
)

// Scope is the name of the instrumentation scope.
const Scope = "volley/exporters/volleyotel"

// Register makes the instruments. Whenever a reader of the provider collects, one look
// at the connections observes all. Call Register once for a provider; the
// Registration ends it. An error is that of the provider.
func Register(provider metric.MeterProvider) (metric.Registration, error) {
	if provider == nil {
		return nil, errors.New("volleyotel: no MeterProvider")
	}
	meter := provider.Meter(Scope)
	e := &exporter{instruments: make(map[*figures.Metric]metric.Float64Observable, len(figures.Metrics))}
	all := make([]metric.Observable, 0, len(figures.Metrics))
	for _, m := range figures.Metrics {
		i, err := instrument(meter, m)
		if err != nil {
			return nil, err
		}
		e.instruments[m] = i
		all = append(all, i)
	}
	return meter.RegisterCallback(e.observe, all...)
}

func instrument(meter metric.Meter, m *figures.Metric) (metric.Float64Observable, error) {
	if m.Kind == figures.Counter {
		return meter.Float64ObservableCounter(m.Name, metric.WithUnit(m.Unit), metric.WithDescription(m.Help))
	}
	return meter.Float64ObservableGauge(m.Name, metric.WithUnit(m.Unit), metric.WithDescription(m.Help))
}

// An exporter observes all figures at once.
type exporter struct {
	source      figures.Source
	instruments map[*figures.Metric]metric.Float64Observable
}

func (e *exporter) observe(_ context.Context, o metric.Observer) error {
	for _, v := range e.source.Values() {
		attributes := make([]attribute.KeyValue, len(v.Labels))
		for i, value := range v.Labels {
			attributes[i] = attribute.String(v.Metric.Labels[i], value)
		}
		o.ObserveFloat64(e.instruments[v.Metric], v.Value, metric.WithAttributeSet(attribute.NewSet(attributes...)))
	}
	return nil
}
