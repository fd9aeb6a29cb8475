/* SPDX-License-Identifier: Apache-2.0 */
/*
 * workers.c - how many workers there are, from the start on.
 *
 * Workers proper have the numbers 0 to rt.nworkers - 1, which is what a
 * uthread is bound to. Fewer: those with higher numbers are LEAVING. Such a
 * worker gives away what anybody may run and rests (loop.c); it gets up for
 * uthreads that are bound to it, runs these, and rests again. More: those that
 * rest are called back first, and then new kernel threads are made.
 *
 * These come after the spares in rt.workers, whose order never changes: a
 * worker's place there (w->index) is what the runtime knows it by, and its
 * number is for the program.
 *
 * Who makes them is spare.c's maker, the only one that makes workers once the
 * runtime runs; where there is none, because there are no ticks, the caller.
 *
 * Unless the program or UTHREAD_WORKERS said how many, the monitor asks once a
 * second, while it is awake anyway, how many CPUs the process may use (cpus.c).
 *
 * Rejected: ending kernel threads (a pooled stack, a timer or a bound uthread
 * would have to be found a new home); moving who is bound (it was promised).
 */
#include "preempt/preempt.h"
#include "process/process.h"
#include "sched/sched.h"
#include "sched/waiter.h"

#define LOOK_NS 200000 /* between two looks whether they have been made */

static struct {
	uint32_t lock; /* guards rt.nworkers, rt.proper, and */
	int wanted; /* as many */
	int made; /* workers proper that exist */
	bool failed; /* to make the next one */
	bool fixed; /* not to follow the CPUs */
	struct cgroup groups[2]; /* immutable after start */
} wk;

static uthread_mutex_t making = UTHREAD_MUTEX_INITIALIZER;

/* ---- fewer, more ---- */

/* Under the lock: those from rt.nworkers on leave, ... */
static void send_away(int from)
{
	int i;

	for (i = from; i < wk.made; i++)
		worker_set_leaving(rt.proper[i], true);
}

/* As many as asked for, of those that there are. False: the program has said how many,
 * perhaps while the CPUs were counted, or it is so already. */
static bool set_wanted(int n, bool by_program)
{
	REGION;
	int had, i;

	spin_lock(&wk.lock);
	if (!by_program && (wk.fixed || n == wk.wanted)) {
		spin_unlock(&wk.lock);
		return false;
	}
	if (by_program)
		store_relaxed(&wk.fixed, true);
	had = rt.nworkers;
	wk.wanted = n;
	wk.failed = false;
	if (n > wk.made)
		n = wk.made;
	/* release: who sees so many finds them in rt.proper */
	store_release(&rt.nworkers, n);
	for (i = had; i < n; i++)
		worker_set_leaving(rt.proper[i], false);
	send_away(n);
	spin_unlock(&wk.lock);
	for (i = had; i < n; i++)
		sched_unrest(rt.proper[i]);
	/* It may sleep, or run somebody for whom nobody waits. */
	for (i = n; i < had; i++) {
		sched_nudge(rt.proper[i]);
		tick_want(rt.proper[i]);
	}
	return true;
}

static bool lack(void)
{
	bool lacks;

	spin_lock(&wk.lock);
	lacks = wk.wanted > wk.made && !wk.failed;
	spin_unlock(&wk.lock);
	return lacks;
}

/* What is lacking; one caller at a time. */
static void make_workers(void)
{
	const int saved = errno;
	struct worker *w;
	bool up;

	while (lack()) {
		w = worker_add(wk.made);
		spin_lock(&wk.lock);
		wk.failed = !w;
		up = w && wk.wanted > wk.made;
		if (w)
			store_release(&rt.proper[wk.made], w);
		if (w)
			store_release(&wk.made, wk.made + 1);
		if (up) /* release: as in set_wanted() */
			store_release(&rt.nworkers, wk.made);
		else
			send_away(rt.nworkers);
		spin_unlock(&wk.lock);
		if (up)
			sched_unrest(w);
		else if (!w)
			ut_warn("only %d of %d workers could be started",
				wk.made, wk.wanted);
	}
	errno = saved;
}

static bool made_all(int n)
{
	bool all;

	spin_lock(&wk.lock);
	/* Or another caller wants something else. */
	all = wk.made >= n || wk.failed || wk.wanted != n;
	spin_unlock(&wk.lock);
	return all;
}

int uthread_set_workers(int workers)
{
	int err = runtime_ensure();

	if (err)
		return err;
	if (workers < 1 || workers > WORKERS_MAX)
		return EINVAL;
	set_wanted(workers, true);
	if (!lack())
		return 0;
	if (spare_make_others()) {
		while (!made_all(workers))
			waiter_sleep(now_ns() + LOOK_NS);
	} else {
		uthread_mutex_lock(&making);
		make_workers();
		uthread_mutex_unlock(&making);
	}
	return load_relaxed(&wk.failed) ? EAGAIN : 0;
}

int uthread_workers(void)
{
	return runtime_ensure() ? -1 : load_relaxed(&rt.nworkers);
}

int workers_number(const struct worker *w)
{
	/* Spares have numbers, too, that nobody else has. */
	return w->kind == WORKER_PROPER ? w->number :
					  load_relaxed(&wk.made) + w->number;
}

/* ---- following the CPUs ---- */

int workers_for(int cpus)
{
	int limit = cgroups_limit(wk.groups);

	if (limit && limit < cpus)
		cpus = limit;
	return cpus < WORKERS_MAX ? cpus : WORKERS_MAX;
}

/* One that came back from a system call runs on where nobody waits for it. */
static void press(void)
{
	struct worker *w;
	int i;

	for (i = load_relaxed(&rt.nworkers); i < load_acquire(&wk.made); i++) {
		w = rt.proper[i];
		if (worker_is(w, WORKER_WORKING) && load_relaxed(&w->running))
			tick_want(w);
	}
}

/* From the monitor: no lock of libc's, no waiting. It is there before the workers are,
 * and in the child of a fork, which has its parent's hook, too. */
static void follow(void)
{
	int n;

	if (load_acquire(&rt.started) != STARTED)
		return;
	press();
	if (load_relaxed(&wk.fixed))
		return;
	n = cpus_count();
	if (!n)
		return;
	if (set_wanted(workers_for(n), false) && lack())
		spare_make_others();
}

/* ---- start ---- */

void workers_find_limits(void)
{
	cgroups_find(wk.groups, "");
}

void workers_started(int n, bool fixed)
{
	int i;

	for (i = 0; i < n; i++)
		rt.proper[i] = rt.workers[i];
	wk.made = wk.wanted = rt.nworkers = n;
	wk.fixed = fixed;
	spare_others = make_workers;
	monitor_second = follow;
}

void workers_forked(struct config *kept)
{
	if (rt.started == STARTED) { /* else it is a child that never grew */
		kept->workers = wk.wanted;
		kept->fixed = wk.fixed;
	}
	wk.lock = 0;
	wk.failed = false;
	wk.made = wk.wanted = 1;
	uthread_mutex_init(&making, NULL);
}
