/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kernel.c - what the kernel does for the runtime: futexes, membarrier, time, and ticks.
 *
 * A futex's look at its word and its sleep are one step, after all stores of who calls.
 * A sleeper may be woken for nothing, as by a signal. Time is a number that grows by
 * so much with each point, and goes on to the first deadline when everybody sleeps; now
 * and then it does so earlier, for who is stopped by the kernel for long.
 *
 * A tick comes between two accesses of a uthread's, as far as its worker is said to have
 * ticks (`ticking`). What its handler decides (preempt/) is not simulated: in a region
 * the tick waits for its end, if nobody waits for the worker it was the last, and else
 * the uthread goes through sched_preempt() on the spot.
 */
#include "sim.h"

#include <errno.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <stdarg.h>
#include <sys/syscall.h>

#include "prelude.h"
#include "sched/sched.h"
#include "sched/waiter.h"

#define SPURIOUS_ODDS 40
#define TICK_ODDS 50
#define CALL_NS 50

static long futex_sleep(const uint32_t *word, uint32_t value,
			const struct timespec *ts)
{
	uint64_t deadline = NO_DEADLINE;

	if (ts)
		deadline = (uint64_t)ts->tv_sec * 1000000000u +
			   (uint64_t)ts->tv_nsec;
	memory_drain(sim.cpu);
	cpu_point("futex wait", word, value, __builtin_return_address(0));
	memory_drain(sim.cpu);
	if (*word != value)
		errno = EAGAIN;
	else if (!sim.measuring && !sim_random(SPURIOUS_ODDS))
		errno = EINTR;
	else if (cpu_sleep(word, deadline))
		return 0;
	else
		errno = ETIMEDOUT;
	return -1;
}

static long futex_wakes(const uint32_t *word, int count)
{
	int i, k, first;

	memory_drain(sim.cpu);
	cpu_point("futex wake", word, (uint64_t)count,
		  __builtin_return_address(0));
	first = (int)sim_random((uint64_t)sim.ncpus);
	for (i = 0, k = 0; i < sim.ncpus && k < count; i++) {
		struct cpu *c = &sim.cpus[(first + i) % sim.ncpus];

		if (c->state != CPU_SLEEPS || c->futex != word)
			continue;
		c->woken = true;
		c->state = CPU_RUNS;
		k++;
	}
	return k;
}

long sim_syscall(long nr, ...)
{
	uint32_t *word;
	long op, value;
	const struct timespec *ts;
	va_list ap;

	va_start(ap, nr);
	if (nr == SYS_membarrier) {
		va_end(ap);
		if (!sim.cpu)
			return 0;
		cpu_point("membarrier", NULL, 0, __builtin_return_address(0));
		memory_drain_all();
		return 0;
	}
	if (nr == SYS_rt_sigprocmask) {
		va_end(ap);
		return 0; /* nothing but ticks comes */
	}
	if (nr != SYS_futex)
		sim_fail("system call %ld is not simulated", nr);
	word = va_arg(ap, uint32_t *);
	op = va_arg(ap, int);
	value = va_arg(ap, uint32_t);
	ts = va_arg(ap, const struct timespec *);
	va_end(ap);
	sim.clock += CALL_NS;
	if ((op & FUTEX_CMD_MASK) == FUTEX_WAKE)
		return futex_wakes(word, (int)value);
	return futex_sleep(word, (uint32_t)value, ts);
}

int sim_yield(void)
{
	cpu_spins();
	return 0;
}

void sim_pause(void)
{
	cpu_spins();
}

int sim_clock_gettime(clockid_t clock, struct timespec *ts)
{
	(void)clock;
	sim.clock += CALL_NS;
	ts->tv_sec = (time_t)(sim.clock / 1000000000u);
	ts->tv_nsec = (long)(sim.clock % 1000000000u);
	return 0;
}

static struct here nowhere;

struct here *sim_here(void)
{
	return sim.cpu ? (struct here *)sim.cpu->tp : &nowhere;
}

uintptr_t sim_tp(void)
{
	return sim.cpu ? sim.cpu->tp : 0;
}

/* ---- ticks ---- */

static void arm(struct worker *w)
{
	if (rt.tick_ns)
		store_relaxed(&w->ticking, 1);
}

static void pending(void)
{
	struct here *h = sim_here();
	const bool tick = h->pending & PENDING_TICK;

	h->pending = 0;
	if (region_posts)
		region_posts();
	if (region_wakes)
		region_wakes();
	if (tick && h->self)
		sched_preempt();
}

static bool nobody_waits(const struct worker *w)
{
	return !w->count && !w->inbox_count && !rt.global_count &&
	       timer_next == NO_DEADLINE && !w->near.count;
}

void kernel_tick(struct cpu *c)
{
	struct worker *w = c->worker;
	struct here *h = (struct here *)c->tp;

	if (!rt.tick_ns || !w || c->in_tick || c->left || !w->ticking ||
	    !h->self || h->worker != w || sim_random(TICK_ODDS))
		return;
	/* Who has put something where we look may not have seen that ticks come. */
	memory_drain_all();
	if (nobody_waits(w)) {
		w->ticking = 0;
	} else if (h->off) {
		h->pending = PENDING_TICK;
	} else {
		if (sim.opt.trace)
			sim_note("tick", h->self, 0, NULL);
		sched_preempt();
	}
}

void kernel_setup(void)
{
	sched_hooks.arm = arm;
	region_pending = pending;
}
