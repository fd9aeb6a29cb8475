/* SPDX-License-Identifier: Apache-2.0 */
/* uthread_bench.h - what the files of uthread-bench share. */
#ifndef PEERS_UTHREAD_BENCH_H
#define PEERS_UTHREAD_BENCH_H

#include <stdbool.h>

#include "bench.h"
#include "uthread.h"

enum uthread_tls bench_mode(const char *word);
/* Start the runtime; with one worker it runs on this CPU. Ends the program
 * where own TLS was asked for and is not to be had. */
void bench_workers(int workers, int cpu, enum uthread_tls mode);
/* Run fn(arg) as a uthread of this mode and wait for its end. */
void bench_inside(enum uthread_tls mode, void *(*fn)(void *), void *arg);

/* uthread_bare.c */
void bench_bare(enum uthread_tls mode);
void bench_naked(void);
void bench_tlsbase(void);

/* uthread_park.c; from_main: who creates them is no uthread. */
void bench_park(enum uthread_tls mode, uint64_t n, bool from_main);
/* uthread_pages.c */
void bench_pages(enum uthread_tls mode, uint64_t n);

/* uthread_sleep.c */
void bench_sleep(enum uthread_tls mode, uint64_t n);

#endif
