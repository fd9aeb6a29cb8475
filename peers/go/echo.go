// SPDX-License-Identifier: Apache-2.0

// The echo server of the trial `io-echo` in Go: a goroutine for each connection, by the
// package net. probes/io/echo.c starts it (trial `io-server`) with a listening socket and a
// pipe, `control`: a byte begins the hogs, its end is the end.
package main

import (
	"net"
	"os"
	"runtime"
	"syscall"
)

func serveOne(c net.Conn, bytes int) {
	defer c.Close()
	buffer := make([]byte, bytes)
	for {
		n, err := c.Read(buffer)
		if n > 0 {
			if _, err := c.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

func acceptAll(l net.Listener, bytes int) {
	for {
		c, err := l.Accept() // TCP_NODELAY is set by the package
		if err != nil {
			fail("connections", "accept: %v", err)
		}
		go serveOne(c, bytes)
	}
}

func serve(t *Trial) {
	// The descriptors are the parent's choice; nobody after it needs them.
	syscall.CloseOnExec(t.Listen)
	syscall.CloseOnExec(t.Control)
	listener, err := net.FileListener(os.NewFile(uintptr(t.Listen), "listener"))
	if err != nil {
		fail("listen", "descriptor %d is no listening socket: %v", t.Listen, err)
	}
	syscall.SetNonblock(t.Control, true)
	control := os.NewFile(uintptr(t.Control), "control")
	go acceptAll(listener, t.Buffer)
	tallies := make([]tally, t.Hogs)
	order := make([]byte, 1)
	for {
		if n, err := control.Read(order); n == 0 || err != nil {
			break
		}
		for i := range tallies {
			go hog(&tallies[i], 1<<60)
		}
	}
	say(map[string]any{"kind": "sample", "schema": schema, "model": t.Model, "wall_ns": 1,
		"procs": runtime.GOMAXPROCS(0), "version": runtime.Version()})
	say(map[string]any{"kind": "end", "schema": schema, "samples": 1})
	os.Exit(0)
}
