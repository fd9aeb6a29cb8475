/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sweep.c - who waits for a descriptor of which epoll knows nothing any more.
 *
 * A program may close a descriptor so that nobody tells us (fclose(), a library
 * with system calls of its own), and open another of that number. Then the table
 * says that epoll knows it, and it does not. So who has waited for some time is
 * looked after: its descriptor is given to epoll again, which says what it is,
 * and tells of what is there.
 *
 *	known		it was only quiet; if not, there is an edge now
 *	not known	another file: it is registered, and who waits tries again
 *	not open	EBADF
 *
 * That is done by who polls, a few of them at a time, as whoever has an event
 * waits meanwhile; and with pauses, so that all together take a COST_DIV-th of
 * the time. Sweeps are counted; a waiter is looked after at the second behind its
 * beginning, the fourth, the eighth and so on. From the beginning of one to the
 * next it takes PERIOD_NS, or twice as long as the last time if nobody has begun
 * to wait since, up to a minute: so a program in which nothing happens is left
 * alone.
 *
 * Rejected: a deadline for each wait (the heap of all deadlines at each); to ask
 * epoll at each wait (a system call more for each request); a sweep at one go, or
 * 256 at a time (with 10 000 connections each sweep held all answers up, for
 * milliseconds).
 */
#include "io/io.h"

#define PERIOD_NS 100000000u
#define PERIOD_MAX_NS 60000000000u
#define COST_DIV 50 /* of the time, at most that part */
#define SOME 8 /* descriptors at a time: ten microseconds, */
#define SOME_IDLE 64 /* where nobody has an event */

static struct {
	uint32_t number; /* atomic: sweeps so far */
	uint32_t begun; /* atomic: somebody has begun to wait since */
	uint32_t busy; /* atomic: somebody is at it */
	uint64_t next; /* atomic: when the next one begins, or goes on */
	/* Of who is at it. */
	uint64_t began, period;
	int cursor; /* descriptor that comes next, 0: none is in progress */
} sweep;

uint32_t io_sweep_wait(void)
{
	if (unlikely(!load_relaxed(&sweep.begun))) {
		store_relaxed(&sweep.begun, 1);
		if (load_relaxed(&sweep.next) > now_ns() + 2 * PERIOD_NS) {
			store_relaxed(&sweep.next, now_ns() + PERIOD_NS);
			/* It may sleep for longer. */
			if (load_relaxed(&rt.poller))
				sched_io.wake();
		}
	}
	return load_relaxed(&sweep.number);
}

uint64_t io_sweep_next(void)
{
	return load_relaxed(&sweep.next);
}

static bool is_due(uint32_t since)
{
	const uint32_t age = load_relaxed(&sweep.number) - since;

	return age >= 2 && !(age & (age - 1));
}

static uint64_t end_of_sweep(void)
{
	if (__atomic_exchange_n(&sweep.begun, 0, __ATOMIC_RELAXED))
		sweep.period = PERIOD_NS;
	else if (sweep.period < PERIOD_MAX_NS)
		sweep.period *= 2;
	return sweep.began + sweep.period;
}

/* Some, from sweep.cursor on. */
static void step(uint64_t now, bool idle, struct uthread_list *ready)
{
	uint64_t next, pause;

	if (!sweep.cursor) {
		__atomic_fetch_add(&sweep.number, 1, __ATOMIC_RELAXED);
		sweep.began = now;
		sweep.period = sweep.period ? sweep.period : PERIOD_NS;
	}
	sweep.cursor = io_fd_some(sweep.cursor, idle ? SOME_IDLE : SOME, is_due,
				  ready);
	pause = now_ns();
	pause += (pause - now) * COST_DIV;
	next = sweep.cursor ? 0 : end_of_sweep();
	store_relaxed(&sweep.next, next > pause ? next : pause);
}

bool io_sweep(bool idle, struct uthread_list *ready)
{
	const uint64_t now = now_ns();

	if (likely(now < load_relaxed(&sweep.next)) ||
	    __atomic_exchange_n(&sweep.busy, 1, __ATOMIC_ACQUIRE))
		return false;
	if (now >= load_relaxed(&sweep.next))
		step(now, idle, ready);
	store_release(&sweep.busy, 0);
	return ready->head;
}

void io_sweep_forked(void)
{
	sweep.busy = sweep.begun = 0;
	sweep.next = sweep.began = sweep.period = 0;
	sweep.cursor = 0;
}
