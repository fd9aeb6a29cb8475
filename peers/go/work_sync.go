// SPDX-License-Identifier: Apache-2.0

// Goroutines that give up their turn, pass something to one another, lock, sleep and wait, as
// {yield,pass,lock,late,park}.hpp of peers/cpp.
package main

import (
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

func yielding(t *Trial) outcome {
	return grow(t, func(n int64) outcome {
		var there, done, sum atomic.Int64
		var begin, end time.Time
		var all sync.WaitGroup
		all.Add(int(t.Threads))
		for i := int64(0); i < t.Threads; i++ {
			go func() {
				if there.Add(1) == t.Threads {
					begin = time.Now()
				}
				for there.Load() < t.Threads {
					runtime.Gosched()
				}
				did := int64(0)
				for ; did < n; did++ {
					runtime.Gosched()
				}
				sum.Add(did)
				if done.Add(1) == t.Threads {
					end = time.Now()
				}
				all.Done()
			}()
		}
		all.Wait()
		return outcome{ns: end.Sub(begin).Nanoseconds(), operations: t.Threads * n,
			sum: sum.Load(), expected: t.Threads * n, bytes: -1}
	})
}

// inPairs has n round trips of each pair; a pair gives its sum, of 1 to n.
func inPairs(t *Trial, pair func(n int64) (first func() int64, second func())) outcome {
	pairs := max(t.Threads/2, 1)
	return timedWork(t, pairs, func(n int64) (sum, expected int64) {
		said := make(chan int64, pairs)
		for i := int64(0); i < pairs; i++ {
			first, second := pair(n)
			go second()
			go func() { said <- first() }()
		}
		for i := int64(0); i < pairs; i++ {
			sum += <-said
		}
		return sum, pairs * (n * (n + 1) / 2)
	})
}

func channel(t *Trial) outcome {
	return inPairs(t, func(n int64) (func() int64, func()) {
		there, back := make(chan int64), make(chan int64)
		return func() (sum int64) {
				for i := int64(0); i < n; i++ {
					there <- i
					sum += <-back
				}
				return sum
			}, func() {
				for i := int64(0); i < n; i++ {
					back <- <-there + 1
				}
			}
	})
}

func condition(t *Trial) outcome {
	return inPairs(t, func(n int64) (func() int64, func()) {
		var lock sync.Mutex
		changed := [2]*sync.Cond{sync.NewCond(&lock), sync.NewCond(&lock)}
		turn, sum := 0, int64(0)
		take := func(own int) {
			for i := int64(0); i < n; i++ {
				lock.Lock()
				for turn != own {
					changed[own].Wait()
				}
				if own == 1 {
					sum += i + 1
				}
				turn = 1 - own
				changed[1-own].Signal()
				lock.Unlock()
			}
		}
		over := make(chan struct{})
		return func() int64 {
				take(0)
				<-over
				return sum
			}, func() {
				take(1)
				close(over)
			}
	})
}

const workInside, workOutside = 50, 50

func mutex(t *Trial) outcome {
	var lock sync.Mutex
	return timedWork(t, 1, func(n int64) (sum, expected int64) {
		for i := int64(0); i < n; i++ {
			lock.Lock()
			sum++
			lock.Unlock()
		}
		return sum, n
	})
}

func contended(t *Trial) outcome {
	var lock sync.Mutex
	return timedWork(t, t.Threads, func(n int64) (sum, expected int64) {
		var all sync.WaitGroup
		all.Add(int(t.Threads))
		for i := int64(0); i < t.Threads; i++ {
			go func() {
				for i := int64(0); i < n; i++ {
					lock.Lock()
					sum++
					spend(workInside)
					lock.Unlock()
					spend(workOutside)
				}
				all.Done()
			}()
		}
		all.Wait()
		return sum, n * t.Threads
	})
}

// ---- how late ----

const (
	sleepLeast   = 100 * time.Microsecond
	sleepMost    = 10 * time.Millisecond
	requestApart = time.Millisecond
	requestWork  = 2000
	requesters   = 4
)

func sleeping(until time.Time, state int64) (late []int64) {
	// Once at least: who starts late has been late.
	for moment := time.Now(); len(late) == 0 || moment.Before(until); {
		apart := requestApart
		if state != 0 {
			state = state * 48271 % 2147483647
			apart = sleepLeast + time.Duration(state)%(sleepMost-sleepLeast)
		} else {
			spend(requestWork)
		}
		moment = moment.Add(apart)
		time.Sleep(time.Until(moment))
		late = append(late, max(time.Since(moment).Nanoseconds(), 0))
	}
	return late
}

func sleepers(t *Trial, count, hogs int64) outcome {
	said := make(chan []int64, count)
	begin := time.Now()
	until := begin.Add(time.Duration(t.Size) * time.Millisecond)
	state := int64(1)
	for i := int64(0); i < count; i++ {
		state = state * 16807 % 2147483647
		own := state
		if hogs > 0 {
			own = 0
		}
		go func() { said <- sleeping(until, own) }()
	}
	var all sync.WaitGroup
	all.Add(int(hogs))
	for i := int64(0); i < hogs; i++ {
		go func() {
			for time.Now().Before(until) {
				spend(1000)
			}
			all.Done()
		}()
	}
	o := outcome{expected: count, bytes: -1}
	for i := int64(0); i < count; i++ {
		if late := <-said; len(late) > 0 {
			o.late = append(o.late, late...)
			o.sum++
		}
	}
	all.Wait()
	o.ns, o.operations = time.Since(begin).Nanoseconds(), int64(len(o.late))
	o.check(t)
	return o
}

func sleep(t *Trial) outcome { return sleepers(t, t.Threads, 0) }

func requests(t *Trial) outcome { return sleepers(t, requesters, t.Threads*int64(t.Workers)) }

// ---- parked ----

// memory that is resident, and page tables.
func memory() (bytes int64) {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		fail("memory", "%v", err)
	}
	for _, line := range strings.Split(string(text), "\n") {
		words := strings.Fields(line)
		if len(words) > 1 && (words[0] == "VmRSS:" || words[0] == "VmPTE:") {
			kb, _ := strconv.ParseInt(words[1], 10, 64)
			bytes += kb * 1024
		}
	}
	return bytes
}

func parked(t *Trial) outcome {
	var lock sync.Mutex
	leave := sync.NewCond(&lock)
	over := false
	o := outcome{operations: t.Threads, expected: t.Threads}
	there := int64(0)
	var all sync.WaitGroup
	all.Add(int(t.Threads))
	before, begin := memory(), time.Now()
	for i := int64(0); i < t.Threads; i++ {
		go func() {
			lock.Lock()
			there++
			for !over {
				leave.Wait()
			}
			o.sum++
			leave.Signal()
			lock.Unlock()
			all.Done()
		}()
	}
	for wait := true; wait; {
		runtime.Gosched()
		lock.Lock()
		wait = there < t.Threads
		lock.Unlock()
	}
	o.ns = time.Since(begin).Nanoseconds()
	o.bytes = float64(memory()-before) / float64(t.Threads)
	lock.Lock()
	over = true
	leave.Signal()
	lock.Unlock()
	all.Wait()
	o.check(t)
	return o
}
