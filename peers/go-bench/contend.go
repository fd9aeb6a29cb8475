// SPDX-License-Identifier: Apache-2.0

// Eight goroutines on one mutex, as bench_contend.h does it.
package main

import (
	"fmt"
	"sync"
	"time"
)

const (
	contenders = 8
	span       = time.Second
	inside     = 50
	outside    = 50
)

var (
	mutex  sync.Mutex
	within uint64 // guarded by mutex
)

//go:noinline
func step(n int) int { return n - 1 }

func work(rounds int) {
	for rounds > 0 {
		rounds = step(rounds)
	}
}

type contender struct {
	locks   uint64
	longest time.Duration
	_       [48]byte
}

func (c *contender) run(until time.Time) {
	for {
		before := time.Now()
		mutex.Lock()
		now := time.Now()
		within++
		work(inside)
		mutex.Unlock()
		work(outside)
		c.locks++
		if wait := now.Sub(before); wait > c.longest {
			c.longest = wait
		}
		if now.After(until) {
			return
		}
	}
}

func contend() {
	var all [contenders]contender
	var done sync.WaitGroup
	until := time.Now().Add(span)
	for i := range all {
		done.Add(1)
		go func(c *contender) {
			c.run(until)
			done.Done()
		}(&all[i])
	}
	done.Wait()
	var locks, fewest uint64
	var longest time.Duration
	for i := range all {
		locks += all[i].locks
		if i == 0 || all[i].locks < fewest {
			fewest = all[i].locks
		}
		longest = max(longest, all[i].longest)
	}
	if locks != within {
		die("%d locks, but %d times inside", locks, within)
	}
	fmt.Printf("{\"name\":\"contend\",\"ns\":%.4f,\"n\":%d,\"longest_us\":%.1f,\"fewest\":%d}\n",
		float64(span.Nanoseconds())/float64(locks), locks,
		float64(longest.Nanoseconds())/1e3, fewest)
}
