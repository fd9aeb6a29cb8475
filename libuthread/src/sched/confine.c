/* SPDX-License-Identifier: Apache-2.0 */
/* confine.c - the essay is in confine.h. */
#include "sched/confine.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "sched/ask.h"
#include "uthread/pthread.h"

/* Sets of CPUs that somebody was confined to: so that two are the same is seen by their
 * addresses, and one that is in use never changes. Few, so they stay. */
struct cpus {
	struct cpus *next; /* guarded by `lock`; the rest is immutable */
	uint64_t bits[CONFINE_CPUS / 64];
};

#define SETS_MAX 4096

static uint32_t lock; /* guards these two: */
static struct cpus *sets;
static uint32_t nsets;

/* ---- the kernel's half ---- */

/* Raw: libc's functions may be the program's view (preload/self.c). */
static bool ask_kernel(pid_t tid, uint64_t *bits)
{
	memset(bits, 0, CONFINE_CPUS / 8);
	return syscall(SYS_sched_getaffinity, tid, CONFINE_CPUS / 8, bits) > 0;
}

static bool tell_kernel(const uint64_t *bits)
{
	return !syscall(SYS_sched_setaffinity, 0, CONFINE_CPUS / 8, bits);
}

static void copy(uint64_t *to, const uint64_t *from)
{
	size_t i;

	for (i = 0; i < CONFINE_CPUS / 64; i++)
		store_relaxed(&to[i], load_relaxed(&from[i]));
}

/* Between these who reads what the worker had tries again. */
static void change_begin(struct worker *w)
{
	store_relaxed(&w->cpus_changes, w->cpus_changes + 1);
	__atomic_thread_fence(__ATOMIC_RELEASE);
}

static void change_end(struct worker *w)
{
	store_release(&w->cpus_changes, w->cpus_changes + 1);
}

static void become(struct worker *w, const struct cpus *cpus)
{
	uint64_t own[CONFINE_CPUS / 64];
	const int saved = errno;

	change_begin(w);
	if (!w->cpus && ask_kernel(0, own))
		copy(w->own_cpus, own);
	/* What the machine has lost since is not to be had. */
	if (!cpus || !tell_kernel(cpus->bits))
		tell_kernel(w->own_cpus);
	store_relaxed(&w->cpus, cpus);
	change_end(w);
	errno = saved;
}

void confine_begin(struct uthread *me)
{
	struct worker *w = me->worker;
	const struct cpus *cpus = load_acquire(&me->cpus);

	if (w->cpus != cpus)
		become(w, cpus);
}

void confine_end(struct worker *w, const struct uthread *next)
{
	if (!w->cpus || (next && load_relaxed(&next->flags) & UT_CONFINED &&
			 load_acquire(&next->cpus) == w->cpus))
		return;
	become(w, NULL);
}

/* What the worker is said to have stays: who is stopped in between, and goes on here or
 * elsewhere, is confined again, which is the same to all but that thread. */
bool confine_lift(void)
{
	REGION;
	const struct worker *w = worker_current();

	return unlikely(w && w->cpus) && tell_kernel(w->own_cpus);
}

void confine_again(void)
{
	REGION;
	const struct worker *w = worker_current();
	const int saved = errno;

	if (w && w->cpus)
		tell_kernel(w->cpus->bits);
	errno = saved;
}

void confine_forked(struct uthread *me)
{
	struct worker *w = me ? me->worker : NULL;

	lock = 0;
	if (!w)
		return;
	w->cpus = NULL;
	w->cpus_changes &= ~1u;
	me->cpus = NULL;
	ut_flags_clear(me, UT_CONFINED);
}

/* ---- sets ---- */

/* Under the lock. */
static const struct cpus *find(const uint64_t *bits)
{
	const struct cpus *c = sets;

	while (c && memcmp(c->bits, bits, sizeof(c->bits)) != 0)
		c = c->next;
	return c;
}

/* The set, which stays. NULL: no memory, or too many. */
static const struct cpus *known(const uint64_t *bits)
{
	const struct cpus *c;
	struct cpus *mine;

	spin_lock(&lock);
	c = find(bits);
	spin_unlock(&lock);
	if (c)
		return c;
	mine = malloc(sizeof(*mine)); /* not under the lock */
	if (!mine)
		return NULL;
	memcpy(mine->bits, bits, sizeof(mine->bits));
	spin_lock(&lock);
	c = find(bits);
	if (!c && nsets < SETS_MAX) {
		nsets++;
		mine->next = sets;
		sets = mine;
		c = mine;
	}
	spin_unlock(&lock);
	if (c != mine)
		free(mine);
	return c;
}

/* ---- what programs call ---- */

/* It is not running where it may not any more, as with the kernel's own call; or, after
 * so long, the kernel keeps it from being stopped. */
#define SEEN_NS 100000000u

static void wait_until_seen(const struct uthread *ut, const struct cpus *c)
{
	const uint64_t end = now_ns() + SEEN_NS;
	const struct worker *w;
	unsigned n = 0;

	if (!rt.tick_ns || ut == uthread_current())
		return;
	while (load_acquire(&ut->state) == UT_RUNNING) {
		w = load_relaxed(&ut->worker);
		if (load_relaxed(&w->cpus) == c ||
		    load_relaxed(&w->running) != ut)
			return;
		if (load_acquire(&ut->cpus) != c || now_ns() >= end)
			return;
		spin_pause(&n);
	}
}

int uthread_confine(uthread_t thread, const unsigned long *cpus, size_t bytes)
{
	uint64_t bits[CONFINE_CPUS / 64] = { 0 };
	const struct cpus *c = NULL;

	if (!thread || load_acquire(&thread->join) == JOIN_GONE)
		return ESRCH;
	if (cpus) {
		memcpy(bits, cpus, bytes < sizeof(bits) ? bytes : sizeof(bits));
		c = known(bits);
		if (!c)
			return EAGAIN;
	} else if (!(load_relaxed(&thread->flags) & UT_CONFINED)) {
		return 0;
	}
	store_release(&thread->cpus, c);
	ask(thread, UT_CONFINED);
	wait_until_seen(thread, c);
	return 0;
}

/* The worker that the process's first kernel thread is, or NULL. */
static const struct worker *of_first_thread(void)
{
	const pid_t pid = getpid();
	const struct worker *w;
	int i;

	for (i = 0; i < load_acquire(&rt.existing); i++) {
		w = load_acquire(&rt.workers[i]);
		if (w && load_relaxed(&w->tid) == pid)
			return w;
	}
	return NULL;
}

int uthread_process_cpus(unsigned long *cpus, size_t bytes)
{
	const struct worker *w = of_first_thread();
	uint64_t bits[CONFINE_CPUS / 64];
	uint32_t changes;
	unsigned n = 0;
	bool knows;

	for (;;) {
		changes = w ? load_acquire(&w->cpus_changes) : 0;
		if (w && load_relaxed(&w->cpus)) {
			copy(bits, w->own_cpus);
			knows = true;
		} else {
			knows = ask_kernel(getpid(), bits);
		}
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
		if (!(changes & 1) &&
		    (!w || load_relaxed(&w->cpus_changes) == changes))
			break;
		spin_pause(&n);
	}
	if (!knows)
		return errno;
	memset(cpus, 0, bytes);
	memcpy(cpus, bits, bytes < sizeof(bits) ? bytes : sizeof(bits));
	return 0;
}
