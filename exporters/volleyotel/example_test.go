package volleyotel_test

import (
	"context"
	"fmt"
	"log"

	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"volley"
	"volley/exporters/volleyotel"
)

// A service has a reader that exports now and then; here it is asked by hand.
func ExampleRegister() {
	reader := metric.NewManualReader()
	provider := metric.NewMeterProvider(metric.WithReader(reader))
	registration, err := volleyotel.Register(provider)
	if err != nil {
		log.Fatal(err)
	}
	defer registration.Unregister()

	l, err := volley.Listen("udp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	defer l.Close()

	var got metricdata.ResourceMetrics
	if err := reader.Collect(context.Background(), &got); err != nil {
		log.Fatal(err)
	}
	for _, scope := range got.ScopeMetrics {
		fmt.Println(scope.Scope.Name, len(scope.Metrics) > 0)
	}
	// Output:
	// volley/exporters/volleyotel true
}
