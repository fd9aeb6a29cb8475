// SPDX-License-Identifier: Apache-2.0

// The Go peer: a probe by the same protocol, for what a runtime with preemptive
// threads of its own makes of the same trial. It knows the trials `starvation`, `ring` and `work`,
// and `io-server`, the server of `io-echo`.
//
// CPUs and GODEBUG must be set before the runtime starts, so the program reads
// the trial, sets both, and becomes itself once more.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"syscall"
	"unsafe"
)

const (
	schema = 1
	name   = "swtch-probe-go"
	inside = "SWTCH_GO_TRIAL" // the trial, once everything is set
)

// Trial has the fields of the protocol that this peer reads.
type Trial struct {
	Schema    int    `json:"schema"`
	Probe     string `json:"probe"`
	Model     string `json:"model"`
	Cpus      []int  `json:"cpus"`
	Policy    string `json:"policy"`
	Hogs      int    `json:"hogs"`
	Answerers int    `json:"answerers"`
	SpanNs    int64  `json:"span_ns"`
	SleepNs   int64  `json:"sleep_ns"`
	WorkNs    int64  `json:"work_ns"`
	Preempt   *bool  `json:"preempt"` // false: as before Go 1.14
	By        string `json:"by"`
	Members   int    `json:"members"`
	Batches   int64  `json:"batches"`
	Laps      int64  `json:"laps"`
	Work      string `json:"work"`
	Threads   int64  `json:"threads"`
	Size      int64  `json:"size"`
	Workers   int    `json:"workers"`
	TLS       string `json:"tls"`
	Listen    int    `json:"listen"` // io-server: descriptors that it was given
	Control   int    `json:"control"`
	Buffer    int    `json:"buffer"`
}

func say(record map[string]any) {
	line, err := json.Marshal(record)
	if err != nil {
		os.Exit(3)
	}
	fmt.Println(string(line))
}

func fail(where, format string, args ...any) {
	say(map[string]any{"kind": "error", "schema": schema, "errno": int(syscall.EINVAL),
		"where": where, "what": fmt.Sprintf(format, args...)})
	os.Exit(2)
}

func (t *Trial) check() {
	between := func(field string, value, low, high int64) {
		if value < low || value > high {
			fail(field, "%s is %d, not from %d to %d", field, value, low, high)
		}
	}
	switch {
	case t.Schema != schema:
		fail("schema", "schema is %d, this probe speaks %d", t.Schema, schema)
	case t.Probe != "starvation" && t.Probe != "ring" && t.Probe != "io-server" && t.Probe != "work":
		fail("probe", "unknown probe '%.60s'; one of starvation, ring, io-server, work", t.Probe)
	case t.Model != "go":
		fail("model", "model is '%.60s'; one of go", t.Model)
	case t.Policy != "other":
		fail("policy", "policy is '%.60s'; one of other", t.Policy)
	case len(t.Cpus) == 0 || len(t.Cpus) > 1024:
		fail("cpus", "cpus must name at least one CPU")
	}
	if t.Probe == "ring" {
		if t.By != "yield" && t.By != "channel" {
			fail("by", "unknown by '%.60s'; one of yield, channel", t.By)
		}
		between("members", int64(t.Members), 2, 2)
		between("batches", t.Batches, 1, 100000)
		between("laps", t.Laps, 1, 10000000)
		return
	}
	if t.Probe == "work" {
		t.checkWork(between)
		return
	}
	between("hogs", int64(t.Hogs), 0, 1e6)
	if t.Probe == "io-server" {
		between("listen", int64(t.Listen), 3, 1e6)
		between("control", int64(t.Control), 3, 1e6)
		between("buffer", int64(t.Buffer), 1, 1<<20)
		return
	}
	between("answerers", int64(t.Answerers), 1, 1000)
	between("span_ns", t.SpanNs, 1e6, 1e11)
	between("sleep_ns", t.SleepNs, 1e3, 1e10)
	between("work_ns", t.WorkNs, 1, 1e9)
}

// stayOn puts the calling kernel thread, and so the program that it becomes, on
// the trial's CPUs only. Go takes their number for that of its own processors.
func stayOn(cpus []int) {
	var set [16]uint64
	for _, cpu := range cpus {
		if cpu < 0 || cpu >= 64*len(set) {
			fail("cpus", "CPU %d is not to be had", cpu)
		}
		set[cpu/64] |= 1 << (cpu % 64)
	}
	_, _, errno := syscall.RawSyscall(syscall.SYS_SCHED_SETAFFINITY, 0,
		unsafe.Sizeof(set), uintptr(unsafe.Pointer(&set)))
	if errno != 0 {
		fail("cpus", "CPUs %v are not to be had: %v", cpus, errno)
	}
}

const (
	prSetTimerslack = 29
	prGetTimerslack = 30
)

// timersExact is timers_exact() of probes/base/cpus.c. It outlives the exec, and threads
// have it from who made them.
func timersExact() {
	syscall.RawSyscall(syscall.SYS_PRCTL, prSetTimerslack, 1, 0)
}

// timerSlack of the kernel thread that this goroutine is on, in ns.
func timerSlack() int64 {
	ns, _, _ := syscall.RawSyscall(syscall.SYS_PRCTL, prGetTimerslack, 0, 0)
	return int64(ns)
}

func again(t *Trial, text []byte) {
	runtime.LockOSThread()
	stayOn(t.Cpus)
	timersExact()
	env := append(os.Environ(), inside+"="+string(text))
	if t.Preempt != nil && !*t.Preempt {
		env = append(env, "GODEBUG=asyncpreemptoff=1")
	}
	err := syscall.Exec("/proc/self/exe", os.Args, env)
	fail("model", "cannot start again: %v", err)
}

func main() {
	if len(os.Args) > 1 {
		fmt.Fprintf(os.Stderr, "usage: %s < trial.json\n", os.Args[0])
		os.Exit(2)
	}
	text := []byte(os.Getenv(inside))
	first := len(text) == 0
	if first {
		say(map[string]any{"kind": "hello", "schema": schema, "probe": name,
			"version": runtime.Version(), "pid": os.Getpid()})
		var err error
		if text, err = io.ReadAll(io.LimitReader(os.Stdin, 1<<20)); err != nil {
			fail("trial", "the trial cannot be read: %v", err)
		}
	}
	trial := Trial{WorkNs: 20000}
	if err := json.Unmarshal(text, &trial); err != nil {
		fail("trial", "the trial is no JSON object of its fields: %v", err)
	}
	trial.check()
	if first {
		again(&trial, text)
	}
	switch trial.Probe {
	case "ring":
		ring(&trial)
	case "io-server":
		serve(&trial)
	case "work":
		perform(&trial)
	default:
		starvation(&trial)
	}
}
