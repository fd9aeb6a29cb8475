// SPDX-License-Identifier: Apache-2.0

// The trial `work` in Go: what peers/cpp/work.hpp is for C and C++. Batches grow until one
// takes long enough, those before are the warm-up, of which there is one at least, and only
// the last is reported; a sum that is wrong ends everything.
package main

import (
	"runtime"
	"slices"
	"time"
)

type outcome struct {
	ns, operations, sum, expected int64
	bytes                         float64 // of memory, each; negative: not asked
	late                          []int64 // ns, each time somebody was to run
}

var pieces = map[string]func(*Trial) outcome{
	"yield":      yielding,
	"create":     create,
	"batch":      inBatches,
	"skynet":     skynet,
	"fibonacci":  fibonacci,
	"queens":     queens,
	"increments": increments,
	"channel":    channel,
	"condition":  condition,
	"mutex":      mutex,
	"contended":  contended,
	"sleep":      sleep,
	"requests":   requests,
	"parked":     parked,
}

func (t *Trial) checkWork(between func(field string, value, low, high int64)) {
	between("threads", t.Threads, 1, 1e7)
	between("size", t.Size, 0, 1e8)
	between("span_ns", t.SpanNs, 1, 1e10)
	between("workers", int64(t.Workers), 1, 64)
	if t.TLS != "own" && t.TLS != "shared" {
		fail("tls", "unknown tls '%.60s'; one of own, shared", t.TLS)
	}
}

func (o outcome) check(t *Trial) {
	if o.sum != o.expected {
		fail("result", "%s gave %d instead of %d", t.Work, o.sum, o.expected)
	}
}

// grow does batches with a growing n.
func grow(t *Trial, batch func(n int64) outcome) outcome {
	n := int64(1)
	for warm := false; ; warm = true {
		o := batch(n)
		o.check(t)
		if warm && o.ns >= t.SpanNs {
			return o
		}
		factor := 1.3 * float64(t.SpanNs) / float64(max(o.ns, 1))
		if factor > 1 {
			n = int64(float64(n)*min(factor, 16)) + 1
		}
	}
}

// timedWork is the same for work whose time is that of the call: n times `each` operations.
func timedWork(t *Trial, each int64, work func(n int64) (sum, expected int64)) outcome {
	return grow(t, func(n int64) outcome {
		begin := time.Now()
		sum, expected := work(n)
		return outcome{ns: time.Since(begin).Nanoseconds(), operations: n * each, sum: sum,
			expected: expected, bytes: -1}
	})
}

//go:noinline
func step(n int) int { return n - 1 }

// spend is a little work that no compiler leaves out.
func spend(rounds int) {
	for rounds > 0 {
		rounds = step(rounds)
	}
}

func perform(t *Trial) {
	runtime.GOMAXPROCS(t.Workers)
	sample := map[string]any{"kind": "sample", "schema": schema, "model": t.Model,
		"version": runtime.Version(), "built": "go build, " + runtime.Compiler}
	if piece, known := pieces[t.Work]; known {
		o := piece(t)
		sample["wall_ns"], sample["operations"] = max(o.ns, 1), o.operations
		sample["counter"], sample["expected"] = o.sum, o.expected
		if o.bytes >= 0 {
			sample["bytes"] = o.bytes
		}
		if len(o.late) > 0 {
			slices.Sort(o.late)
			sample["late_p50_ns"] = quantile(o.late, 0.5)
			sample["late_p99_ns"] = quantile(o.late, 0.99)
			sample["late_max_ns"] = quantile(o.late, 1)
		}
	} else {
		// Main is a goroutine, too.
		sample["wall_ns"], sample["unmeasured"] = 1, "it has no "+t.Work[:min(len(t.Work), 60)]
	}
	say(sample)
	say(map[string]any{"kind": "end", "schema": schema, "samples": 1})
}
