// SPDX-License-Identifier: Apache-2.0
/*
 * kernel_thread.c - what one thread of a scenario does if the kernel schedules
 * it: the same for pthreads and processes, so that they differ in nothing else.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <time.h>
#include <unistd.h>

#include "models/models.h"

static void yield(void *arg)
{
	(void)arg;
	sched_yield();
}

/* usleep(1) of the study is nanosleep of 1000 ns. */
static void nap(void *arg)
{
	const struct scenario *s = arg;
	struct timespec t = { .tv_sec = s->sleep_ns / 1000000000,
			      .tv_nsec = s->sleep_ns % 1000000000 };

	nanosleep(&t, NULL);
}

void scenario_body(const struct scenario *s, int index,
		   pthread_barrier_t *barrier, struct thread_result *r)
{
	static void (*const how[])(void *) = { NULL, yield, nap };
	struct usage before;

	r->pid = getpid();
	r->tid = thread_id();
	r->cpu = s->cpus[index % s->ncpus];
	r->has_usage = true;
	r->pinned = pin_to(r->cpu);
	/* A process has its own page table, in which this page is not yet. */
	__atomic_fetch_add(&s->counter->value, 0, __ATOMIC_RELAXED);
	pthread_barrier_wait(barrier);
	usage_now(&before);
	r->start_ns = clock_ns();
	scenario_loop(s, index, how[s->intervention], (void *)(uintptr_t)s);
	r->end_ns = clock_ns();
	usage_now(&r->usage);
	usage_sub(&r->usage, &before);
	r->cpu_end = sched_getcpu();
}

void scenario_check_pins(const struct scenario *s,
			 const struct thread_result *results)
{
	int i;

	for (i = 0; i < s->threads; i++)
		if (!results[i].pinned)
			probe_fail(EINVAL, "cpus",
				   "a thread could not be put on CPU %d",
				   results[i].cpu);
}
