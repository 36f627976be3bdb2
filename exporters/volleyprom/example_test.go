package volleyprom_test

import (
	"fmt"
	"log"

	"github.com/prometheus/client_golang/prometheus"

	"volley"
	"volley/exporters/volleyprom"
)

// A service registers the Collector, and serves what is gathered by promhttp; here it
// is printed.
func ExampleNewCollector() {
	registry := prometheus.NewRegistry() // or the default one
	registry.MustRegister(volleyprom.NewCollector())

	l, err := volley.Listen("udp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	defer l.Close()

	families, err := registry.Gather()
	if err != nil {
		log.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != "volley_listener_accepted_total" {
			continue
		}
		for _, m := range family.GetMetric() {
			for _, label := range m.GetLabel() {
				if label.GetName() == "listener" && label.GetValue() == l.Addr().String() {
					fmt.Println("accepted:", m.GetCounter().GetValue())
				}
			}
		}
	}
	// Output:
	// accepted: 0
}
