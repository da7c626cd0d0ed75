// Toolbox is one static program with the parts that a cluster of real nodes needs from an image.
//
// Without flags it waits for SIGTERM and reaps its children. That makes it the first process of a PID namespace and the
// sandbox of a pod. With flags it is a workload whose answers, lifetime and end a test decides.
package main

import (
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
)

type workload struct {
	listen   string
	lifetime time.Duration
	grace    time.Duration
	exitCode int
}

func main() {
	var w workload
	flag.StringVar(&w.listen, "listen", "", "answer HTTP requests with the host name on this address")
	flag.DurationVar(&w.lifetime, "lifetime", 0, "exit after this time; 0: run until SIGTERM")
	flag.DurationVar(&w.grace, "grace", 0, "run for this time after SIGTERM")
	flag.IntVar(&w.exitCode, "exit-code", 0, "exit code")
	url := flag.String("get", "", "print the answer of this URL and exit")
	flag.Parse()
	log.SetFlags(log.LUTC | log.LstdFlags | log.Lmicroseconds)
	log.SetOutput(os.Stdout)
	if *url != "" {
		os.Exit(get(*url))
	}
	os.Exit(w.run())
}

func (w workload) run() int {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	go reap()
	if w.listen != "" {
		go serve(w.listen)
	}
	var ended <-chan time.Time
	if w.lifetime > 0 {
		ended = time.After(w.lifetime)
	}
	log.Print("started")
	select {
	case received := <-signals:
		log.Printf("received %v", received)
		time.Sleep(w.grace)
	case <-ended:
	}
	log.Print("exits")
	return w.exitCode
}

// reap collects every child that ends, because orphans of the namespace become children of its first process.
func reap() {
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGCHLD)
	for range ended {
		for {
			if pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); pid <= 0 || err != nil {
				break
			}
		}
	}
}

func serve(address string) {
	name, err := os.Hostname()
	if err != nil {
		log.Fatal(err)
	}
	http.HandleFunc("/", func(answer http.ResponseWriter, _ *http.Request) { fmt.Fprintln(answer, name) })
	log.Fatal(http.ListenAndServe(address, nil))
}

func get(url string) int {
	client := http.Client{Timeout: 5 * time.Second}
	answer, err := client.Get(url)
	if err != nil {
		log.Print(err)
		return 1
	}
	defer answer.Body.Close()
	if _, err := io.Copy(os.Stdout, answer.Body); err != nil || answer.StatusCode != http.StatusOK {
		log.Printf("%s: %v", answer.Status, err)
		return 1
	}
	return 0
}
