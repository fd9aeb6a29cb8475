/* SPDX-License-Identifier: Apache-2.0 */
/*
 * last.c - the process ends when its last thread has, with status 0.
 *
 * libc does that for pthreads, which it counts; but workers and the monitor
 * are pthreads that never end. So, once main has left by pthread_exit(), or in
 * the child of a fork whose main was not the caller, whoever ends sees to it
 * that there is a watcher: a pthread of ours that waits until no uthread lives,
 * then until no pthread of the program's does, and calls exit(0). It is like
 * any thread of libc's, so what atexit() registered may do there what it likes,
 * uthreads included.
 *
 * Until main has left, or been cancelled, which it may heed later or never, an
 * end costs two loads of a word that nobody writes.
 * Whoever leaves says so first and fences heavily, so who did not see it has
 * been counted as ended before the watcher looks.
 *
 * Uthreads are counted: first all that ended, then all that were created. If
 * the numbers are equal nobody lived in between, as each end comes after its
 * create. Pthreads of the program's are those that libc counts without ours, which
 * are counted before. Where libc does not say (before glibc 2.34) they are the kernel's
 * number of threads; main stays a zombie there when it has ended.
 * A uthread may leave behind a pthread, which leaves behind a uthread: both are
 * looked at twice, and nobody may have been created meanwhile.
 *
 * Libc tells nobody when a pthread ends, so for those the watcher polls, ever
 * more slowly, and only while no uthread lives.
 *
 * Rejected: the kernel's number everywhere (it has the threads of an io_uring, which
 * stay, and there may be no /proc, or no descriptor to read it by); exit() by the last
 * uthread (what atexit() registered would run on its stack, which may be small, and two
 * may both be the last but one); the watcher from the start of a child on (most become
 * another program).
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/pool.h"
#include "preempt/preempt.h"
#include "process/process.h"
#include "sched/waiter.h"
#include "sync/sync.h"
#include "tls/tls.h"

#define POLL_MIN_NS 1000000u
#define POLL_MAX_NS 100000000u
#define TRY_AGAIN_NS 10000000u

uint32_t last_alone;

static struct {
	uint32_t word; /* futex: changes when a uthread has ended */
	uint32_t watched; /* atomic: there is a watcher */
} last;

static uint64_t created(void)
{
	uint64_t n = __atomic_load_n(&rt.pthread_created, __ATOMIC_ACQUIRE);
	int i;

	for (i = 0; i < load_acquire(&rt.existing); i++)
		n += load_acquire(&rt.workers[i]->stats.created);
	return n;
}

static uint64_t ended(void)
{
	uint64_t n = 0;
	int i;

	for (i = 0; i < load_acquire(&rt.existing); i++)
		n += load_acquire(&rt.workers[i]->stats.ended);
	return n;
}

uint64_t last_live(void)
{
	const uint64_t gone = ended();

	return created() - gone;
}

/* The kernel's number of threads, zombies left out; -1: unknown. */
static int kernel_threads(void)
{
	char buf[1024], state, *end;
	int fd, threads;
	ssize_t n;

	fd = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	n = read(fd, buf, sizeof(buf) - 1);
	close(fd);
	if (n <= 0)
		return -1;
	buf[n] = 0;
	end = strrchr(buf, ')'); /* of the name */
	if (!end || sscanf(end + 1,
			   " %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u"
			   " %*u %*d %*d %*d %*d %d",
			   &state, &threads) != 2)
		return -1;
	return threads - (state == 'Z');
}

/* Of the program's; less than 0: unknown, or some of ours are about to end. */
static int pthreads(void)
{
	/* First: one of ours that is new is taken for the program's. */
	const int ours = load_acquire(&rt.existing) -
			 (int)load_acquire(&rt.ended) + monitor_threads() +
			 io_pool_threads() + keeper_threads() + 1;
	const unsigned *counted = tls_symbol("__nptl_nthreads");

	return (counted ? (int)load_acquire(counted) : kernel_threads()) - ours;
}

static bool all_gone(void)
{
	uint64_t before;

	if (pthreads())
		return false;
	before = ended();
	if (created() != before)
		return false;
	return !pthreads() && created() == before;
}

static void *watch(void *unused)
{
	uint64_t pause = POLL_MIN_NS;
	uint32_t word;

	(void)unused;
	for (;;) {
		word = load_acquire(&last.word);
		if (load_acquire(&last_alone) != LAST_GONE || last_live()) {
			pause = POLL_MIN_NS;
			futex_wait(&last.word, word, NO_DEADLINE);
			continue;
		}
		if (all_gone())
			exit(0);
		futex_wait(&last.word, word, now_ns() + pause);
		pause = pause < POLL_MAX_NS ? 2 * pause : pause;
	}
	return NULL;
}

/* With the caller's mask of signals, and a stack like any thread's. */
static bool start_watcher(void)
{
	uint32_t no = 0;
	pthread_t t;

	if (load_acquire(&last.watched) ||
	    !__atomic_compare_exchange_n(&last.watched, &no, 1, false,
					 __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
		return true;
	if (pthread_create(&t, NULL, watch, NULL)) {
		store_release(&last.watched, 0);
		return false;
	}
	pthread_setname_np(t, "uthread/last");
	pthread_detach(t);
	return true;
}

void last_begins(struct uthread *me)
{
	if (me && load_relaxed(&me->flags) & UT_MAIN)
		store_release(&last_alone, LAST_LEAVING);
	else if (!me)
		store_release(&last_alone, LAST_GONE);
	full_fence();
	if (!load_acquire(&rt.started))
		return; /* nobody has ended, and who does will see it */
	bias_heavy_fence(); /* pairs: the light one behind the count of ends */
	/* A plain pthread, and a uthread that is not the last, leave it to
	 * whoever ends next: no end waits for a pthread that cannot be had. */
	while (!start_watcher() && me &&
	       last_live() <= !(load_relaxed(&me->flags) & UT_MAIN))
		waiter_sleep(now_ns() + TRY_AGAIN_NS);
}

void last_ended(struct uthread *me)
{
	if (load_relaxed(&me->flags) & UT_MAIN)
		store_release(&last_alone, LAST_GONE);
	__atomic_fetch_add(&last.word, 1, __ATOMIC_SEQ_CST);
	futex_wake(&last.word, 1);
}

void last_forked(bool main)
{
	last.word = last.watched = 0;
	if (!main)
		last_alone = LAST_GONE;
}

/* In a build with assertions: exit(), or main has returned. Who has let main go on by a
 * semaphore, and has yet to return, is left, too, and may be the one of many that this
 * says now and then: only who joins knows that a uthread has ended. */
__attribute__((destructor)) static void say_who_is_left(void)
{
	const struct uthread *me = uthread_current();
	uint64_t live;

	if (!UTHREAD_ASSERTIONS || !load_acquire(&rt.started))
		return;
	live = last_live() - (me && !(load_relaxed(&me->flags) & UT_MAIN));
	if (live)
		ut_warn("the process ends while %llu uthread%s not ended",
			(unsigned long long)live, live > 1 ? "s have" : " has");
}
