/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench.h - what the comparison programs share: time, a growing batch, one
 * line of JSON per result. C and C++, headers only.
 *
 * An invocation measures one thing once. The batch grows until one takes long
 * enough; the ones before it are the warm-up, and only the last is reported.
 * Statistics are bench.py's business.
 */
#ifndef PEERS_BENCH_H
#define PEERS_BENCH_H

#include <sched.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define BENCH_GOAL_NS 60000000u /* the batch that counts takes at least this */

/* For a function with the one call site that both sides switch from
 * (uthread_bare.c says why): no inlining, and no clones for constant
 * arguments, which would be two call sites again. */
#if defined(__clang__)
#define BENCH_ONE_COPY __attribute__((noinline))
#else
#define BENCH_ONE_COPY __attribute__((noipa))
#endif

struct bench_run {
	uint64_t n; /* what the batch was asked to do */
	uint64_t ns; /* what it took */
};

typedef void bench_fn(void *arg, uint64_t n);

static inline uint64_t bench_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* Do fn(arg, n) with a growing n; the last batch is the result. */
static inline struct bench_run bench_grow(bench_fn *fn, void *arg, uint64_t n)
{
	struct bench_run r;
	uint64_t begin;
	double factor;

	for (;;) {
		begin = bench_now();
		fn(arg, n);
		r.n = n;
		r.ns = bench_now() - begin;
		if (r.ns >= BENCH_GOAL_NS)
			return r;
		factor = r.ns ? 1.3 * BENCH_GOAL_NS / (double)r.ns : 16.0;
		n = (uint64_t)((double)n * (factor < 16.0 ? factor : 16.0)) + 1;
	}
}

__attribute__((noreturn, format(printf, 1, 2))) static inline void
bench_die(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	exit(1);
}

/* Run on this CPU only, and whatever threads come later too; -1: anywhere. */
static inline void bench_pin(int cpu)
{
	cpu_set_t set;

	if (cpu < 0)
		return;
	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		bench_die("CPU %d is not to be had", cpu);
}

/* One line: ns is the time of one of the n operations; `more` adds fields. */
__attribute__((format(printf, 4, 5))) static inline void
bench_result(const char *name, double ns, uint64_t n, const char *more, ...)
{
	va_list ap;

	printf("{\"name\":\"%s\",\"ns\":%.4f,\"n\":%llu", name, ns,
	       (unsigned long long)n);
	va_start(ap, more);
	vprintf(more, ap);
	va_end(ap);
	printf("}\n");
	fflush(stdout);
}

/* PROGRAM [--cpu N] SUBCOMMAND [ARG...]: pins, and leaves the subcommand in
 * argv[0]. */
static inline int bench_args(int *argc, char ***argv)
{
	int cpu = -1;

	if (*argc > 2 && !strcmp((*argv)[1], "--cpu")) {
		cpu = atoi((*argv)[2]);
		*argc -= 2;
		*argv += 2;
	}
	if (*argc < 2)
		bench_die("usage: PROGRAM [--cpu N] SUBCOMMAND [ARG...]");
	*argc -= 1;
	*argv += 1;
	bench_pin(cpu);
	return cpu;
}

#endif
