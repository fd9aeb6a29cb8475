// SPDX-License-Identifier: Apache-2.0

// Go's rows of the comparison (bench.py), one per invocation, by the rules of bench.h:
//
//	chan PROCS          round trip by two channels without room
//	select PROCS        the same, each side waiting at two channels
//	contend             eight goroutines on one mutex, on all CPUs (contend.go)
//	chan-apart          the same between goroutines that are each locked to a thread
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"syscall"
	"time"
	"unsafe"
)

const (
	goal   = 60 * time.Millisecond
	pinned = "GO_BENCH_PINNED"
)

func die(format string, args ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", args...)
	os.Exit(1)
}

// grow does fn(n) with a growing n; the last batch is the result.
func grow(fn func(n int)) (n int, took time.Duration) {
	for n = 5000; ; {
		begin := time.Now()
		fn(n)
		if took = time.Since(begin); took >= goal {
			return n, took
		}
		factor := min(16, 1.3*float64(goal)/float64(max(took, 1)))
		n = int(float64(n)*factor) + 1
	}
}

// stayOn puts this program on one CPU: before the runtime has started, so once more.
func stayOn(cpu int, args []string) {
	if os.Getenv(pinned) != "" {
		return
	}
	var set [16]uint64
	set[cpu/64%len(set)] |= 1 << (cpu % 64)
	runtime.LockOSThread()
	_, _, errno := syscall.RawSyscall(syscall.SYS_SCHED_SETAFFINITY, 0,
		unsafe.Sizeof(set), uintptr(unsafe.Pointer(&set)))
	if errno != 0 {
		die("CPU %d is not to be had", cpu)
	}
	err := syscall.Exec("/proc/self/exe", args, append(os.Environ(), pinned+"=1"))
	die("cannot start again: %v", err)
}

func main() {
	args := os.Args[1:]
	if len(args) > 2 && args[0] == "--cpu" {
		cpu, err := strconv.Atoi(args[1])
		if err != nil || cpu < 0 || cpu >= 1024 {
			die("'%s' is no CPU", args[1])
		}
		stayOn(cpu, os.Args)
		args = args[2:]
	}
	if len(args) == 0 {
		die("usage: go-bench [--cpu N] SUBCOMMAND [PROCS]")
	}
	if args[0] == "contend" {
		contend()
		return
	}
	procs := 1
	if len(args) > 1 {
		if n, err := strconv.Atoi(args[1]); err == nil && n > 0 {
			procs = n
		}
	}
	apart, selects := args[0] == "chan-apart", args[0] == "select"
	if !apart && !selects && args[0] != "chan" {
		die("'%s' is no subcommand", args[0])
	}
	if apart {
		procs = 2
		runtime.LockOSThread()
	}
	runtime.GOMAXPROCS(procs)
	there, back, quiet := make(chan uint64), make(chan uint64), make(chan uint64)
	recv := func(from chan uint64) uint64 {
		if !selects {
			return <-from
		}
		select {
		case v := <-from:
			return v
		case v := <-quiet:
			return v
		}
	}
	go func() {
		if apart {
			runtime.LockOSThread()
		}
		for {
			back <- recv(there)
		}
	}()
	n, took := grow(func(n int) {
		for ; n > 0; n-- {
			there <- 1
			recv(back)
		}
	})
	line, _ := json.Marshal(map[string]any{"name": args[0],
		"ns": float64(took.Nanoseconds()) / float64(n), "n": n, "version": runtime.Version()})
	fmt.Println(string(line))
}
