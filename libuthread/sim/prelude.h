/* SPDX-License-Identifier: Apache-2.0 */
/*
 * prelude.h - before each source of the runtime that is simulated: the few functions
 * of libc by which it meets the kernel are the simulator's.
 */
#ifndef SIM_PRELUDE_H
#define SIM_PRELUDE_H

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

long sim_syscall(long nr, ...);
int sim_yield(void);
int sim_clock_gettime(clockid_t clock, struct timespec *ts);
void *sim_alloc(size_t bytes);

static inline void sim_free(void *p)
{
	(void)p; /* all at once, at the end of a schedule */
}

#define syscall(...) sim_syscall(__VA_ARGS__)
#define sched_yield() sim_yield()
#define clock_gettime(clock, ts) sim_clock_gettime(clock, ts)
#define malloc(bytes) sim_alloc(bytes)
#define calloc(n, bytes) sim_alloc((n) * (bytes))
#define free(p) sim_free(p)

#endif
