// SPDX-License-Identifier: Apache-2.0

// The trial `ring` in Go: two goroutines on one processor hand over to one another,
// by giving up the turn or through a channel without room. As in probes/switching/ring.c a
// batch of laps is timed as a whole and the first is warm-up.
package main

import (
	"runtime"
	"sort"
	"time"
)

// quantile is the first value that a share p of the sorted ones are not above.
func quantile(sorted []int64, p float64) int64 {
	rank := p * float64(len(sorted))
	i := int(rank)
	if float64(i) == rank && i > 0 {
		i--
	}
	return sorted[min(i, len(sorted)-1)]
}

// timed calls lap so often for each batch and tells what the batches took.
func timed(t *Trial, lap func()) []int64 {
	took := make([]int64, 0, t.Batches)
	begin := time.Now()
	for batch := int64(0); batch <= t.Batches; batch++ {
		for i := int64(0); i < t.Laps; i++ {
			lap()
		}
		now := time.Now()
		if batch > 0 {
			took = append(took, now.Sub(begin).Nanoseconds())
		}
		begin = now
	}
	return took
}

func byYield(t *Trial) []int64 {
	laps := t.Laps * (t.Batches + 1)
	done := make(chan bool)
	go func() {
		for i := int64(0); i < laps; i++ {
			runtime.Gosched()
		}
		done <- true
	}()
	took := timed(t, runtime.Gosched)
	<-done
	return took
}

func byChannel(t *Trial) []int64 {
	there, back := make(chan int), make(chan int)
	go func() {
		for token := range there {
			back <- token
		}
		close(back)
	}()
	took := timed(t, func() {
		there <- 1
		<-back
	})
	close(there)
	<-back
	return took
}

func ring(t *Trial) {
	took := byYield
	if t.By == "channel" {
		took = byChannel
	}
	batches := took(t)
	wall := int64(0)
	for _, ns := range batches {
		wall += ns
	}
	sort.Slice(batches, func(i, k int) bool { return batches[i] < batches[k] })
	each := func(p float64) float64 {
		return float64(quantile(batches, p)) / float64(2*t.Laps)
	}
	say(map[string]any{"kind": "sample", "schema": schema, "model": t.Model,
		"wall_ns": wall, "passes": 2 * t.Laps * (t.Batches + 1),
		"each_p10_ns": each(0.1), "each_p50_ns": each(0.5), "each_p90_ns": each(0.9),
		"each_p99_ns": each(0.99), "version": runtime.Version()})
	say(map[string]any{"kind": "end", "schema": schema, "samples": 1})
}
