package main

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// loop is how long the load lasts and what drives it.
type loop struct {
	warm, counted time.Duration
	rate          float64
	seed          uint64
}

// tally gathers latencies from many goroutines.
type tally struct {
	lock    sync.Mutex
	times   []time.Duration
	failed  int
	failure string
}

func (t *tally) add(took time.Duration, err error) {
	t.lock.Lock()
	defer t.lock.Unlock()
	if err != nil {
		t.failed++
		t.failure = err.Error()
		return
	}
	t.times = append(t.times, took)
}

func (l loop) run(s *sender, connections int) report {
	drive := l.closed
	if l.rate > 0 {
		drive = l.open
	}
	drive(s, connections, l.warm)
	cpu, started := processorSeconds(), time.Now()
	counted := drive(s, connections, l.counted)
	took := time.Since(started).Seconds()
	slices.Sort(counted.times)
	result := report{
		Sent:      int(s.count.Load()),
		Requests:  len(counted.times),
		Failures:  counted.failed,
		Failure:   counted.failure,
		Seconds:   took,
		Rate:      float64(len(counted.times)) / took,
		CPU:       processorSeconds() - cpu,
		Quantiles: map[string]float64{},
	}
	if len(counted.times) > 0 {
		for name, q := range map[string]float64{"p50": .5, "p90": .9, "p99": .99, "p999": .999, "max": 1} {
			// The nearest rank: the least time that the share q did not exceed.
			rank := max(int(math.Ceil(q*float64(len(counted.times)))), 1)
			result.Quantiles[name] = counted.times[rank-1].Seconds()
		}
	}
	return result
}

// closed keeps every connection busy.
func (l loop) closed(s *sender, connections int, lasts time.Duration) *tally {
	counted := &tally{}
	end := time.Now().Add(lasts)
	var all sync.WaitGroup
	for range connections {
		all.Go(func() {
			for started := time.Now(); started.Before(end); started = time.Now() {
				err := s.send(context.Background())
				counted.add(time.Since(started), err)
			}
		})
	}
	all.Wait()
	return counted
}

// open sends at the times of a Poisson process, whether or not earlier answers have come.
func (l loop) open(s *sender, _ int, lasts time.Duration) *tally {
	counted := &tally{}
	random := rand.New(rand.NewPCG(l.seed, 0))
	started := time.Now()
	var all sync.WaitGroup
	for after := time.Duration(0); ; {
		after += time.Duration(random.ExpFloat64() / l.rate * float64(time.Second))
		if after >= lasts {
			break
		}
		intended := started.Add(after)
		time.Sleep(time.Until(intended))
		all.Go(func() {
			err := s.send(context.Background())
			counted.add(time.Since(intended), err)
		})
	}
	all.Wait()
	return counted
}
