/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pool.c - helpers, plain pthreads that make calls which wait in the kernel and
 * tell nobody: reading from a disk, opening, looking up a name.
 *
 * Two pools, so that who waits for a name server for half a minute is not in
 * the way of a disk. Each has a queue, first in, first out, and makes a helper
 * when it is longer than there are helpers on their way to it, up to a limit. One
 * that has had nothing to do for a while ends. Signals of the program do not go to
 * them.
 *
 * A job may wait for the one behind it, as who opens one end of a fifo does for who
 * opens the other, or for the one who would, if a child does. Such an endless one is
 * not held up by the limit of its pool: there may be ENDLESS_LIMIT helpers for these,
 * and then who has one makes the call itself.
 *
 * A job that was begun cannot be taken back, because the kernel writes to its
 * buffer. So whose deadline comes, or who is cancelled, waits for its end all the
 * same, unless the job can be abandoned: it is then all in memory of its own,
 * and the helper gives that back. One that was not begun is taken out of the
 * queue.
 *
 * Rejected: a helper for each call (pthread_create() costs more than most); the
 * spare workers (they hold uthreads that can be stopped, these hold none).
 */
#include <limits.h>
#include <pthread.h>
#include <signal.h>

#include "base/ksignal.h"
#include "base/small_thread.h"
#include "io/count.h"
#include "io/pool.h"
#include "sched/confine.h"
#include "sched/sched.h"

#define STACK_BYTES (256ul << 10) /* getaddrinfo() has large buffers on it */
#define REST_NS 5000000000u /* with nothing to do, before it ends */
#define ENDLESS_LIMIT 512

static const struct {
	uint32_t limit;
	const char *name;
} kinds[POOLS] = {
	[POOL_FILES] = { 16, "uthread/files" },
	/* Of these one may wait for another: two that open a pipe. */
	[POOL_LONG] = { 1024, "uthread/calls" },
};

enum { QUEUED, BEGUN, DONE, ABANDONED, REFUSED };

struct helpers {
	uint32_t lock; /* guards all but `word` */
	uint32_t threads, idle;
	uint32_t coming; /* of these: made, and not yet there */
	uint32_t queued; /* jobs; each idle or coming one takes one */
	struct io_job *first, **last;
	uint32_t word; /* futex: jobs so far */
};

static struct helpers pools[POOLS] __attribute__((aligned(CACHE_LINE)));
static uint32_t there, most; /* atomic: helpers of both, now and at most */

/* ---- helpers ---- */

static struct io_job *take(struct helpers *p)
{
	struct io_job *job = p->first;

	if (job) {
		p->first = job->next;
		p->queued--;
		job->state = BEGUN;
	}
	return job;
}

static void finish(struct helpers *p, struct io_job *job)
{
	bool abandoned;

	spin_lock(&p->lock);
	abandoned = job->detached || job->state == ABANDONED;
	job->state = DONE;
	/* Under the lock: who waits looks there before it goes. */
	if (!abandoned && job->waiter)
		waiter_wake(job->waiter);
	spin_unlock(&p->lock);
	if (abandoned)
		job->abandoned(job);
}

static void is_there(void)
{
	uint32_t n = __atomic_add_fetch(&there, 1, __ATOMIC_RELAXED),
		 seen = load_relaxed(&most);

	while (n > seen &&
	       !__atomic_compare_exchange_n(&most, &seen, n, false,
					    __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
}

static void *helper(void *arg)
{
	const uint64_t all = ~KSIG_LIBC;
	struct helpers *p = arg;
	struct io_job *job;
	uint32_t word;
	bool rested = false;

	ksig_mask(SIG_SETMASK, &all, NULL);
	pthread_setname_np(pthread_self(), kinds[p - pools].name);
	is_there();
	spin_lock(&p->lock);
	p->coming--;
	for (;;) {
		word = load_acquire(&p->word);
		job = take(p);
		if (job) {
			spin_unlock(&p->lock);
			job->fn(job);
			finish(p, job);
			rested = false;
		} else if (rested) {
			break;
		} else {
			p->idle++;
			spin_unlock(&p->lock);
			rested = futex_wait(&p->word, word,
					    now_ns() + REST_NS) == ETIMEDOUT;
			spin_lock(&p->lock);
			p->idle--;
			spin_unlock(&p->lock);
		}
		spin_lock(&p->lock);
	}
	p->threads--;
	__atomic_fetch_sub(&there, 1, __ATOMIC_RELAXED);
	spin_unlock(&p->lock);
	return NULL;
}

/* Not in a region, and not under the lock: making a thread may wait for others. */
static bool make(struct helpers *p)
{
	const bool lifted = confine_lift();
	pthread_t t;
	const int err = small_thread(&t, helper, p, STACK_BYTES);

	if (lifted)
		confine_again();
	return !err;
}

/* ---- who has a job ---- */

/* Under the lock: are there jobs for which nobody is on the way? */
static bool is_short_of_helpers(const struct helpers *p)
{
	return p->queued > p->idle + p->coming;
}

/* Under the lock: a helper more than there are? */
static bool wants_one(struct helpers *p, const struct io_job *job)
{
	const uint32_t limit = job->endless ? ENDLESS_LIMIT :
					      kinds[p - pools].limit;

	if (!is_short_of_helpers(p) || p->threads >= limit)
		return false;
	p->threads++;
	p->coming++;
	return true;
}

static void push(struct helpers *p, struct io_job *job)
{
	job->next = NULL;
	if (p->first)
		*p->last = job;
	else
		p->first = job;
	p->last = &job->next;
	p->queued++;
	__atomic_fetch_add(&p->word, 1, __ATOMIC_RELEASE);
}

/* False: it is not in the queue. */
static bool take_out(struct helpers *p, struct io_job *job)
{
	struct io_job **at;

	for (at = &p->first; *at; at = &(*at)->next) {
		if (*at != job)
			continue;
		*at = job->next;
		if (!job->next)
			p->last = at;
		p->queued--;
		return true;
	}
	return false;
}

/* None can be made: for whom nobody is on the way does it without one, also those who
 * have come meanwhile and counted on it. Unless there are others who will surely come
 * by: those of POOL_LONG may all wait for what is in the queue. EAGAIN: the caller is
 * one. Its job is looked at while it is in the queue only: one for which nobody waits
 * may be done by now, and gone. */
static int without(struct helpers *p, const struct io_job *job)
{
	struct io_job *each, *left = NULL;
	int err = 0;

	spin_lock(&p->lock);
	p->threads--;
	p->coming--;
	while (is_short_of_helpers(p) &&
	       (!p->threads || p == &pools[POOL_LONG])) {
		each = p->first;
		p->first = each->next;
		p->queued--;
		each->state = REFUSED;
		if (each == job) {
			err = EAGAIN;
		} else if (each->detached) {
			each->next = left;
			left = each;
		} else if (each->waiter) {
			waiter_wake(each->waiter);
		}
	}
	spin_unlock(&p->lock);
	region_enter(); /* no handler jumps out of these */
	while ((each = left)) {
		left = each->next;
		each->abandoned(each);
	}
	region_leave();
	return err;
}

static int submit(struct helpers *p, struct io_job *job)
{
	bool lacking;
	int err;

	job->state = QUEUED;
	job->waiter = NULL;
	spin_lock(&p->lock);
	if (job->endless && p->threads >= ENDLESS_LIMIT &&
	    p->queued >= p->idle + p->coming) {
		spin_unlock(&p->lock);
		return EAGAIN;
	}
	push(p, job);
	lacking = wants_one(p, job);
	spin_unlock(&p->lock);
	if (lacking && !make(p)) {
		err = without(p, job);
		if (err)
			return err;
	} else {
		futex_wake(&p->word, 1);
	}
	region_enter();
	IO_COUNT(io_jobs, 1);
	region_leave();
	return 0;
}

/* One wait for its end. `last`: nothing else ends it. */
static int wait_once(struct helpers *p, struct io_job *job, uint64_t deadline,
		     bool last)
{
	REGION;
	struct waiter w;
	int err = 0;

	waiter_init_on(&w, WAITS_HELPER, NULL);
	if (!last)
		waiter_cancellable(&w);
	spin_lock(&p->lock);
	if (job->state == DONE || job->state == REFUSED) {
		spin_unlock(&p->lock);
		return 0;
	}
	if (w.ut)
		uthread_become(w.ut, UT_WAITING);
	job->waiter = &w;
	spin_unlock(&p->lock);
	err = waiter_wait(&w, last ? NO_DEADLINE : deadline);
	spin_lock(&p->lock);
	job->waiter = NULL;
	spin_unlock(&p->lock);
	return err;
}

int io_pool_do(enum io_pool which, struct io_job *job, uint64_t deadline)
{
	struct helpers *p = &pools[which];
	bool last = false, out, refused;
	int err;

	if (!uthread_current() &&
	    (deadline == NO_DEADLINE || !job->abandoned)) {
		job->fn(job);
		return 0;
	}
	err = submit(p, job);
	if (err)
		return err;
	io_call_waits();
	for (;;) {
		err = wait_once(p, job, deadline, last);
		spin_lock(&p->lock);
		out = err && (job->state == REFUSED ||
			      (job->state == QUEUED && take_out(p, job)));
		refused = !err && job->state == REFUSED;
		if (job->state == DONE)
			err = 0;
		else if (!out && !refused && job->abandoned)
			job->state = ABANDONED;
		else if (!out)
			err = EAGAIN; /* it has begun: look again */
		spin_unlock(&p->lock);
		if (out && job->abandoned)
			job->abandoned(job);
		if (err != EAGAIN || refused)
			return err;
		last = true;
	}
}

int io_pool_start(enum io_pool which, struct io_job *job)
{
	job->detached = true;
	return submit(&pools[which], job);
}

int io_pool_threads(void)
{
	int i, n = 0;

	for (i = 0; i < POOLS; i++)
		n += (int)load_relaxed(&pools[i].threads);
	return n;
}

uint32_t io_pool_there(uint32_t *at_most)
{
	*at_most = load_relaxed(&most);
	return load_relaxed(&there);
}

void io_pool_forked(void)
{
	int i;

	there = most = 0;
	for (i = 0; i < POOLS; i++)
		pools[i] = (struct helpers){ 0 };
}
