// Command load sends one AdmissionReview over and over to a webhook and says how fast the answers came.
//
// It calls as an API server does: HTTP/1.1 over TLS 1.3 on kept connections, a new uid in each request, the
// deadline as ?timeout=. Two ways: a closed loop (each connection sends as soon as it has its answer) gives
// throughput, and an open one (-rate) sends at times drawn beforehand and counts from those, so an answer
// that makes others late is charged for them.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"syscall"
	"time"
)

// report is what is printed, as one line of JSON; times are in seconds, quantiles by name.
type report struct {
	Sent      int                `json:"sent"`     // the warm-up included
	Requests  int                `json:"requests"` // answered and counted
	Failures  int                `json:"failures"`
	Failure   string             `json:"failure,omitempty"`
	Seconds   float64            `json:"seconds"`
	Rate      float64            `json:"rate"`
	CPU       float64            `json:"cpu"` // of this process; near Seconds, the load is what was slow
	Quantiles map[string]float64 `json:"quantiles"`
}

func main() {
	target := flag.String("url", "", "where to, e.g. https://127.0.0.1:9443/mutate?timeout=3s")
	ca := flag.String("ca", "", "what to trust, PEM; not needed for http")
	review := flag.String("review", "", "a file with the AdmissionReview")
	connections := flag.Int("connections", 16, "kept connections")
	seconds := flag.Float64("seconds", 5, "how long to count")
	warm := flag.Float64("warm", 1, "how long to run before")
	rate := flag.Float64("rate", 0, "requests a second, in an open loop; 0 for a closed one")
	seed := flag.Uint64("seed", 1, "of the times in an open loop")
	flag.Parse()
	err := run(*target, *ca, *review, *connections, loop{span(*warm), span(*seconds), *rate, *seed})
	if err != nil {
		fmt.Fprintln(os.Stderr, "load:", err)
		os.Exit(1)
	}
}

func span(seconds float64) time.Duration {
	return time.Duration(seconds * float64(time.Second))
}

func run(target, ca, review string, connections int, loop loop) error {
	if _, err := url.Parse(target); err != nil {
		return err
	}
	trusted := x509.NewCertPool()
	if ca != "" {
		bundle, err := os.ReadFile(ca)
		if err != nil {
			return err
		}
		if !trusted.AppendCertsFromPEM(bundle) {
			return errors.New("no certificate in " + ca)
		}
	}
	body, err := os.ReadFile(review)
	if err != nil {
		return err
	}
	sender, err := newSender(target, body, &http.Client{
		Timeout: 10 * time.Second,
		Transport: &http.Transport{
			TLSClientConfig:     &tls.Config{RootCAs: trusted, MinVersion: tls.VersionTLS13},
			MaxIdleConnsPerHost: connections,
			MaxConnsPerHost:     connections,
			DisableCompression:  true,
		},
	})
	if err != nil {
		return err
	}
	if err := sender.send(context.Background()); err != nil {
		return fmt.Errorf("the first request failed: %w", err)
	}
	result := loop.run(sender, connections)
	return json.NewEncoder(os.Stdout).Encode(result)
}

func processorSeconds() float64 {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano()).Seconds()
}
