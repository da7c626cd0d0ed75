// Command peer is the mutating webhook that `make bench` times beside `podium webhook`.
//
// It is what a Go team would write for the same job and no more: net/http over TLS, the typed admission/v1,
// core/v1 and scheduling/v1beta1 objects, the same patch for the two writes that the bench sends, and the
// same guards and records: body limit, in-flight cap, deadline, counter, histogram, JSON log at level info.
// Plain encoding/json with no scheme and no second pass for the kind is the fastest of the usual ways.
package main

import (
	"crypto/tls"
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

func main() {
	bind := flag.String("bind", "127.0.0.1:0", "where to serve TLS")
	metrics := flag.String("metrics", "127.0.0.1:0", "where to serve /metrics")
	certificate := flag.String("cert", "", "certificate chain, PEM")
	key := flag.String("key", "", "its key, PEM")
	state := flag.String("state", "", "classes and groups, JSON")
	flag.Parse()
	log := slog.New(slog.NewJSONHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelInfo}))
	if err := serve(log, *bind, *metrics, *certificate, *key, *state); err != nil {
		log.Error("ended", "error", err.Error())
		os.Exit(1)
	}
}

func serve(log *slog.Logger, bind, metrics, certificate, key, state string) error {
	cache, err := readCache(state)
	if err != nil {
		return err
	}
	pair, err := tls.LoadX509KeyPair(certificate, key)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", bind)
	if err != nil {
		return err
	}
	plain, err := net.Listen("tcp", metrics)
	if err != nil {
		return err
	}
	records := newRecords()
	mux := http.NewServeMux()
	mux.Handle("POST /mutate", &handler{cache: cache, records: records, log: log, slots: make(chan struct{}, 100)})
	server := &http.Server{
		Handler:           mux,
		TLSConfig:         &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12},
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      30 * time.Second,
		IdleTimeout:       300 * time.Second,
	}
	exposition := &http.Server{
		Handler:           promhttp.HandlerFor(records.registry, promhttp.HandlerOpts{}),
		ReadHeaderTimeout: 5 * time.Second,
	}
	go func() {
		if err := exposition.Serve(plain); err != nil {
			log.Error("metrics ended", "error", err.Error())
		}
	}()
	line, err := json.Marshal(map[string]any{
		"event":        "serving",
		"port":         listener.Addr().(*net.TCPAddr).Port,
		"metrics_port": plain.Addr().(*net.TCPAddr).Port,
	})
	if err != nil {
		return err
	}
	fmt.Fprintln(os.Stderr, string(line))
	return server.ServeTLS(listener, "", "")
}
