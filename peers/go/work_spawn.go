// SPDX-License-Identifier: Apache-2.0

// Goroutines for a piece of work, from their start until it is done, as
// spawn.hpp of peers/cpp: with a WaitGroup where they only end, and a channel where they
// say something.
package main

import (
	"sync"
	"sync/atomic"
)

func create(t *Trial) outcome {
	return timedWork(t, 1, func(n int64) (int64, int64) {
		var sum atomic.Int64
		for i := int64(0); i < n; i++ {
			done := make(chan struct{})
			go func() {
				sum.Add(1)
				close(done)
			}()
			<-done
		}
		return sum.Load(), n
	})
}

func inBatches(t *Trial) outcome {
	return timedWork(t, t.Threads, func(n int64) (int64, int64) {
		var sum atomic.Int64
		for i := int64(0); i < n; i++ {
			var all sync.WaitGroup
			all.Add(int(t.Threads))
			for k := int64(0); k < t.Threads; k++ {
				go func() {
					sum.Add(1)
					all.Done()
				}()
			}
			all.Wait()
		}
		return sum.Load(), n * t.Threads
	})
}

func skynetNode(to chan<- int64, first, size int64) {
	if size == 1 {
		to <- first
		return
	}
	from := make(chan int64)
	for i := int64(0); i < 10; i++ {
		go skynetNode(from, first+i*(size/10), size/10)
	}
	sum := int64(0)
	for i := 0; i < 10; i++ {
		sum += <-from
	}
	to <- sum
}

func skynet(t *Trial) outcome {
	threads, leaves := int64(0), int64(1)
	for ; leaves < t.Threads; leaves *= 10 {
		threads += leaves * 10
	}
	return timedWork(t, threads+1, func(n int64) (sum, expected int64) {
		from := make(chan int64)
		for i := int64(0); i < n; i++ {
			go skynetNode(from, 0, leaves)
			sum += <-from
		}
		return sum, n * (leaves * (leaves - 1) / 2)
	})
}

func fib(n int64) int64 {
	if n < 2 {
		return n
	}
	left := make(chan int64)
	go func() { left <- fib(n - 1) }()
	right := fib(n - 2)
	return <-left + right
}

func fibonacci(t *Trial) outcome {
	value, next := int64(0), int64(1)
	for i := int64(0); i < t.Size; i++ {
		value, next = next, value+next
	}
	return timedWork(t, max(next-1, 1), func(n int64) (sum, expected int64) {
		for i := int64(0); i < n; i++ {
			sum += fib(t.Size)
		}
		return sum, n * value
	})
}

const queensRows = 3

func queensAlone(all, columns, left, right uint32) (found int64) {
	if columns == all {
		return 1
	}
	for free := all &^ (columns | left | right); free != 0; free &= free - 1 {
		place := free & -free
		found += queensAlone(all, columns|place, (left|place)<<1, (right|place)>>1)
	}
	return found
}

func queensRow(all, columns, left, right uint32, row int) (found, threads int64) {
	if row == queensRows || columns == all {
		return queensAlone(all, columns, left, right), 0
	}
	said := make(chan [2]int64)
	n := 0
	for free := all &^ (columns | left | right); free != 0; free &= free - 1 {
		place := free & -free
		go func() {
			f, t := queensRow(all, columns|place, (left|place)<<1, (right|place)>>1, row+1)
			said <- [2]int64{f, t}
		}()
		n++
	}
	for ; n > 0; n-- {
		one := <-said
		found += one[0]
		threads += one[1] + 1
	}
	return found, threads
}

func queens(t *Trial) outcome {
	known := []int64{1, 1, 0, 0, 2, 10, 4, 40, 92, 352, 724, 2680, 14200}
	size := min(t.Size, 12)
	each := int64(0)
	o := timedWork(t, 1, func(n int64) (sum, expected int64) {
		for i := int64(0); i < n; i++ {
			found, threads := queensRow(1<<size-1, 0, 0, 0, 0)
			sum += found
			each = threads
		}
		return sum, n * known[size]
	})
	o.operations *= max(each, 1)
	return o
}

//go:noinline
func plusOne(n int64) int64 { return n + 1 }

// addUp is kept from being one addition: there is no volatile, and a call is as long as
// what that costs elsewhere.
func addUp(times int64) (sum int64) {
	for i := int64(0); i < times; i++ {
		sum = plusOne(sum)
	}
	return sum
}

func increments(t *Trial) outcome {
	sums := make([]int64, t.Threads)
	return timedWork(t, t.Threads, func(n int64) (sum, expected int64) {
		for i := int64(0); i < n; i++ {
			var all sync.WaitGroup
			all.Add(len(sums))
			for k := range sums {
				go func() {
					sums[k] = addUp(t.Size)
					all.Done()
				}()
			}
			all.Wait()
			for _, one := range sums {
				sum += one
			}
		}
		return sum, n * t.Threads * t.Size
	})
}
