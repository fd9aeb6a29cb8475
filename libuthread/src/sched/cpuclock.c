/* SPDX-License-Identifier: Apache-2.0 */
/* cpuclock.c - the essay is in cpuclock.h. */
#include "sched/cpuclock.h"

#include "base/region.h"
#include "sched/ask.h"
#include "stack/stack.h"

/* How the kernel names another thread's clock: what pthread_getcpuclockid() makes. */
static clockid_t clock_of(pid_t tid)
{
	return (clockid_t)(~(uint32_t)tid << 3 | 6);
}

static bool read_ns(clockid_t clock, uint64_t *ns)
{
	struct timespec t;

	if (clock_gettime(clock, &t))
		return false;
	*ns = (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
	return true;
}

/* Between these who reads tries again. */
static void change_begin(struct uthread *me)
{
	store_relaxed(&me->cpu_changes, me->cpu_changes + 1);
	__atomic_thread_fence(__ATOMIC_RELEASE);
}

static void change_end(struct uthread *me)
{
	store_release(&me->cpu_changes, me->cpu_changes + 1);
}

void cpuclock_start(struct uthread *me)
{
	const int saved = errno;
	uint64_t now;

	if (me->cpu_tid || !read_ns(CLOCK_THREAD_CPUTIME_ID, &now))
		return;
	change_begin(me);
	store_relaxed(&me->cpu_since, now);
	store_relaxed(&me->cpu_tid, me->worker->tid);
	change_end(me);
	errno = saved;
}

void cpuclock_stop(struct uthread *me)
{
	const int saved = errno;
	uint64_t now;

	if (!me->cpu_tid || !read_ns(CLOCK_THREAD_CPUTIME_ID, &now))
		return;
	change_begin(me);
	store_relaxed(&me->cpu_ran, me->cpu_ran + now - me->cpu_since);
	store_relaxed(&me->cpu_tid, 0);
	change_end(me);
	errno = saved;
}

void cpuclock_forked(struct uthread *me)
{
	if (!(load_relaxed(&me->flags) & UT_CLOCK))
		return;
	me->cpu_tid = 0;
	me->cpu_changes &= ~1u;
	me->cpu_ran = 0; /* as the process's clock */
	cpuclock_start(me);
}

/* False: it changed meanwhile. */
static bool look(const struct uthread *ut, uint64_t *ns)
{
	const uint32_t changes = load_acquire(&ut->cpu_changes);
	uint64_t ran, since, now = 0;
	bool runs;
	pid_t tid;

	ran = load_relaxed(&ut->cpu_ran);
	since = load_relaxed(&ut->cpu_since);
	tid = load_relaxed(&ut->cpu_tid);
	if (changes & 1)
		return false;
	/* In the child of a fork there is no such thread. */
	runs = tid && read_ns(clock_of(tid), &now);
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	*ns = runs ? ran + now - since : ran;
	return load_relaxed(&ut->cpu_changes) == changes;
}

int uthread_getcpuclock(uthread_t thread, uthread_clock_t *clock)
{
	REGION;

	if (!thread || load_acquire(&thread->join) == JOIN_GONE)
		return ESRCH;
	clock->_thread = thread;
	clock->_id = stack_kept_id(thread->id);
	if (load_relaxed(&thread->flags) & UT_CLOCK)
		return 0;
	ask(thread, UT_CLOCK);
	if (thread == uthread_current())
		cpuclock_start(thread);
	return 0;
}

int uthread_clock_gettime(uthread_clock_t clock, struct timespec *time)
{
	const struct uthread *ut = clock._thread;
	const int saved = errno;
	unsigned n = 0;
	uint64_t ns;

	if (!ut || stack_kept_id(ut->id) != clock._id ||
	    load_acquire(&ut->join) == JOIN_GONE)
		return ESRCH;
	while (!look(ut, &ns))
		spin_pause(&n);
	errno = saved;
	time->tv_sec = (time_t)(ns / 1000000000u);
	time->tv_nsec = (long)(ns % 1000000000u);
	return 0;
}
