package main

import "github.com/prometheus/client_golang/prometheus"

// records are the metrics that Podium keeps of a request, under other names.
type records struct {
	registry *prometheus.Registry
	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
	inFlight prometheus.Gauge
	shed     prometheus.Counter
}

func newRecords() *records {
	r := &records{
		registry: prometheus.NewRegistry(),
		requests: prometheus.NewCounterVec(
			prometheus.CounterOpts{Name: "peer_admission_requests_total", Help: "Requests by what became of them."},
			[]string{"phase", "kind", "operation", "verdict", "rule"},
		),
		duration: prometheus.NewHistogramVec(
			prometheus.HistogramOpts{
				Name: "peer_admission_duration_seconds",
				Help: "From the request read to the answer made.",
				Buckets: []float64{
					.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10,
				},
			},
			[]string{"phase"},
		),
		inFlight: prometheus.NewGauge(
			prometheus.GaugeOpts{Name: "peer_admission_in_flight", Help: "Requests being judged."},
		),
		shed: prometheus.NewCounter(
			prometheus.CounterOpts{Name: "peer_admission_shed_total", Help: "Requests that were turned away."},
		),
	}
	r.registry.MustRegister(r.requests, r.duration, r.inFlight, r.shed)
	return r
}
