// SPDX-License-Identifier: Apache-2.0

package main

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// As in probes/running/starvation.c, whose trial this is: answerers sleep and answer,
// hogs loop. A loop calls nothing, or it would be a point at which Go stops
// goroutines even without signals; so it cannot look at a clock. It ends when a
// word says so, which a timer sets where loops are stopped; where they are not,
// nothing of this program would run any more to set it, and so each ends after
// as many additions as take the time.

const (
	batch  = 100
	settle = 100 * time.Millisecond
)

type tally struct {
	value int64
	_     [56]byte // a cache line for each
}

var (
	stop  atomic.Bool
	begin atomic.Int64 // ns since start; 0: nothing is recorded yet
	start = time.Now()
)

func now() int64 { return int64(time.Since(start)) }

//go:noinline
func hog(t *tally, batches int64) {
	for ; batches > 0 && !stop.Load(); batches-- {
		for i := 0; i < batch; i++ {
			atomic.StoreInt64(&t.value, t.value+1)
		}
	}
}

// batchesFor says how many batches take about so long alone: the fastest of
// some tries, for others may have had the CPU.
func batchesFor(ns int64) int64 {
	var t tally
	n := int64(1000)
	took := int64(0)
	for took < 2_000_000 {
		n *= 2
		took = hogTime(&t, n)
	}
	for i := 0; i < 8; i++ {
		if again := hogTime(&t, n); again < took {
			took = again
		}
	}
	return max(1, int64(float64(ns)*float64(n)/float64(took)))
}

func hogTime(t *tally, batches int64) int64 {
	before := now()
	hog(t, batches)
	return max(1, now()-before)
}

func max(a, b int64) int64 {
	if a > b {
		return a
	}
	return b
}

type answerer struct {
	state                          uint32
	tally                          tally
	late, response                 []int64 // of those that slept
	intendedLate, intendedResponse []int64 // of every moment
	slack                          int64
}

func (a *answerer) someTime(sleep int64) int64 {
	a.state = a.state*1664525 + 1013904223
	return sleep + int64(a.state>>16)*(sleep/2)/65536
}

func (a *answerer) run(t *Trial, work int64, asleep *sync.WaitGroup) {
	a.slack = timerSlack()
	asleep.Done()
	from, end := int64(0), int64(0)
	for due := now() + a.someTime(t.SleepNs); end == 0 || due < end; due += a.someTime(t.SleepNs) {
		slept := now() < due
		if slept {
			time.Sleep(time.Duration(due - now()))
		}
		woke := now()
		answer(&a.tally, work)
		from = begin.Load()
		if from == 0 || woke < from {
			continue
		}
		end = from + t.SpanNs
		done := now()
		if slept {
			a.late = append(a.late, woke-max(due, from))
			a.response = append(a.response, done-max(due, from))
		}
		if due >= from && due < end {
			a.intendedLate = append(a.intendedLate, woke-due)
			a.intendedResponse = append(a.intendedResponse, done-due)
		}
	}
}

func answer(t *tally, batches int64) {
	for ; batches > 0; batches-- {
		for i := 0; i < batch; i++ {
			atomic.StoreInt64(&t.value, t.value+1)
		}
	}
}

func starvation(t *Trial) {
	var asleep, done sync.WaitGroup
	work := batchesFor(t.WorkNs)
	cpus := runtime.GOMAXPROCS(0)
	preempt := t.Preempt == nil || *t.Preempt
	// Stopped by the word, long before; or by themselves, one after the other.
	batches := int64(1) << 60
	if !preempt && t.Hogs > 0 {
		all := batchesFor(t.SpanNs + int64(settle))
		batches = max(1, all*int64(cpus)/max(int64(t.Hogs), int64(cpus)))
	}
	tallies := make([]tally, t.Hogs)
	all := make([]answerer, t.Answerers)
	asleep.Add(t.Answerers)
	for i := range all {
		all[i].state = uint32(i)*7919 + 1
		all[i].late = make([]int64, 0, 65536)
		all[i].response = make([]int64, 0, 65536)
		all[i].intendedLate = make([]int64, 0, 65536)
		all[i].intendedResponse = make([]int64, 0, 65536)
		done.Add(1)
		go func(a *answerer) {
			defer done.Done()
			a.run(t, work, &asleep)
		}(&all[i])
	}
	asleep.Wait()
	time.Sleep(time.Millisecond)
	// Before the loops: nobody could after them.
	before := now()
	from := before + int64(settle)
	begin.Store(from)
	time.AfterFunc(settle+time.Duration(t.SpanNs), func() { stop.Store(true) })
	for i := range tallies {
		done.Add(1)
		go func(mine *tally) {
			defer done.Done()
			hog(mine, batches)
		}(&tallies[i])
	}
	done.Wait()
	record(t, all, before)
}

func record(t *Trial, all []answerer, before int64) {
	var late, response, intendedLate, intendedResponse []int64
	for i := range all {
		late = append(late, all[i].late...)
		response = append(response, all[i].response...)
		intendedLate = append(intendedLate, all[i].intendedLate...)
		intendedResponse = append(intendedResponse, all[i].intendedResponse...)
	}
	sample := map[string]any{
		"kind": "sample", "schema": schema, "model": "go",
		"wall_ns": now(), "start_ns": before, "procs": runtime.GOMAXPROCS(0),
		"go": runtime.Version(), "timer_slack": all[0].slack,
		"asked": float64(t.Answerers) * float64(t.SpanNs) / (float64(t.SleepNs) * 1.25),
	}
	distribution(sample, "late", late)
	distribution(sample, "response", response)
	distribution(sample, "intended_late", intendedLate)
	distribution(sample, "intended_response", intendedResponse)
	say(sample)
	say(map[string]any{"kind": "end", "schema": schema, "samples": 1})
}
