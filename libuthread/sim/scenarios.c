/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scenarios.c - what uthreads do in a schedule. `run` is a plain pthread's, outside; it
 * returns when all is done. Each is built so that it cannot end where what it is about
 * does not hold: somebody waits for what somebody else does only then.
 */
#include "sim.h"

#include <errno.h>
#include <string.h>

#include "uthread.h"
#include "uthread/channel.h"
#include "uthread/cancel.h"
#include "uthread/sync.h"

#include "sched/sched.h"
#include "sched/waiter.h"

#define MUST(condition)                                                   \
	do {                                                              \
		if (!(condition))                                         \
			sim_fail("%s: not so: %s", __func__, #condition); \
	} while (0)

#define SOME 8

static void make_some(uthread_t *t, int n, void *(*fn)(void *), void *arg)
{
	int i;

	for (i = 0; i < n; i++)
		MUST(!uthread_create(&t[i], NULL, fn,
				     arg ? arg : (void *)(intptr_t)i));
}

static void join_some(uthread_t *t, int n)
{
	int i;

	for (i = 0; i < n; i++)
		MUST(!uthread_join(t[i], NULL));
}

/* ---- yield: all have their turns, for as long as one has not had enough ---- */

static struct {
	uint32_t turns[SOME];
	uint32_t content;
} y;

static void *yielder(void *arg)
{
	const int me = (int)(intptr_t)arg;

	while (load_relaxed(&y.content) < 3) {
		if (++y.turns[me] == 5)
			__atomic_fetch_add(&y.content, 1, __ATOMIC_RELAXED);
		uthread_yield();
	}
	return NULL;
}

static void yield_storm(void)
{
	uthread_t t[SOME];

	make_some(t, 3, yielder, NULL);
	join_some(t, 3);
}

/* ---- hog: who computes leaves what it has made ready to others ---- */

static void spin_until(const uint32_t *word, uint32_t value)
{
	while (load_acquire(word) < value)
		arch_pause();
}

static struct {
	uint32_t done;
} g;

static void *does_it(void *arg)
{
	(void)arg;
	__atomic_fetch_add(&g.done, 1, __ATOMIC_RELEASE);
	return NULL;
}

/* Without ticks: somebody else has to come, also when all are just going to sleep. */
static void *hog(void *arg)
{
	uthread_t t;
	uint32_t i;

	(void)arg;
	for (i = 1; i <= 4; i++) {
		MUST(!uthread_create(&t, NULL, does_it, NULL));
		spin_until(&g.done, i);
		MUST(!uthread_join(t, NULL));
		if (i & 1)
			uthread_sleep(sim_random(3000));
	}
	return NULL;
}

static void hog_and_others(void)
{
	uthread_t t;

	make_some(&t, 1, hog, NULL);
	join_some(&t, 1);
}

/* ---- chain: each that comes to run needs another, on a worker of its own ---- */

static void *link_of(void *arg)
{
	const intptr_t n = (intptr_t)arg;
	uthread_t t;

	__atomic_fetch_add(&g.done, 1, __ATOMIC_RELEASE);
	if (n > 1)
		MUST(!uthread_create(&t, NULL, link_of, (void *)(n - 1)));
	spin_until(&g.done, 3);
	if (n > 1)
		MUST(!uthread_join(t, NULL));
	return NULL;
}

/* Three at once on three workers or more. */
static void chain(void)
{
	uthread_t t;

	MUST(!uthread_create(&t, NULL, link_of, (void *)3));
	join_some(&t, 1);
}

static void *computes_until(void *arg)
{
	__atomic_fetch_add(&g.done, 1, __ATOMIC_RELEASE);
	spin_until(&g.done, (uint32_t)(uintptr_t)arg);
	return NULL;
}

/* Two are made at once, and need each other. */
static void *maker(void *arg)
{
	uthread_t t[2];

	(void)arg;
	make_some(t, 2, link_of, (void *)1);
	__atomic_fetch_add(&g.done, 1, __ATOMIC_RELEASE);
	spin_until(&g.done, 3);
	join_some(t, 2);
	return NULL;
}

static void burst(void)
{
	uthread_t t;

	make_some(&t, 1, maker, NULL);
	join_some(&t, 1);
}

/* Two of those at once: who comes for one may be what kept others from coming. */
static void *maker_of_one(void *arg)
{
	uthread_t t;

	__atomic_fetch_add(&g.done, 1, __ATOMIC_RELEASE);
	spin_until(&g.done, 2);
	make_some(&t, 1, computes_until, arg);
	computes_until(arg);
	join_some(&t, 1);
	return NULL;
}

static void pairs(void)
{
	uthread_t t[2];

	make_some(t, 2, maker_of_one, (void *)6);
	join_some(t, 2);
}

/* As many as there are workers, from outside, and all at once. */
static void outside_all(void)
{
	const int n = rt.nworkers;
	uthread_t t[SIM_CPUS];
	int i;

	for (i = 1; i <= 2; i++) {
		make_some(t, n, computes_until, (void *)(intptr_t)(i * n));
		join_some(t, n);
	}
}

/* ---- create: made, joined, detached; slots come again ---- */

static void *creator(void *arg)
{
	uthread_t t[2];
	void *value;
	int i;

	(void)arg;
	for (i = 0; i < 3; i++) {
		make_some(t, 2, does_it, NULL);
		MUST(!uthread_detach(t[0]));
		if (i == 1)
			uthread_yield();
		MUST(!uthread_join(t[1], &value) && !value);
	}
	return NULL;
}

static void create(void)
{
	uthread_t t[2];

	make_some(t, 2, creator, NULL);
	join_some(t, 2);
	spin_until(&g.done, 12);
}

/* ---- mutex ---- */

static struct {
	uthread_mutex_t lock;
	uthread_cond_t some, room;
	uthread_sem_t sem, back;
	uthread_rwlock_t rw;
	uthread_barrier_t barrier;
	uint32_t inside;
	int sum, left;
} m;

static void *locker(void *arg)
{
	int i;

	(void)arg;
	for (i = 0; i < 3; i++) {
		MUST(!uthread_mutex_lock(&m.lock));
		MUST(!__atomic_fetch_add(&m.inside, 1, __ATOMIC_RELAXED));
		m.sum++;
		if (i == 1)
			uthread_yield();
		__atomic_fetch_sub(&m.inside, 1, __ATOMIC_RELAXED);
		MUST(!uthread_mutex_unlock(&m.lock));
	}
	return NULL;
}

static void mutex(void)
{
	uthread_t t[4];

	make_some(t, 3, locker, NULL);
	locker(NULL); /* a plain pthread takes part */
	join_some(t, 3);
	MUST(m.sum == 12);
	MUST(!uthread_mutex_destroy(&m.lock));
}

static void soon(struct timespec *ts, uint64_t ns)
{
	clock_gettime(CLOCK_MONOTONIC, ts);
	ts->tv_nsec += (long)ns; /* the clock is young */
}

static void *timed_locker(void *arg)
{
	struct timespec ts;
	int i, err;

	(void)arg;
	for (i = 0; i < 3; i++) {
		soon(&ts, sim_random(4000));
		err = uthread_mutex_timedlock(&m.lock, &ts);
		MUST(!err || err == ETIMEDOUT);
		if (err)
			continue;
		MUST(!__atomic_fetch_add(&m.inside, 1, __ATOMIC_RELAXED));
		uthread_yield();
		__atomic_fetch_sub(&m.inside, 1, __ATOMIC_RELAXED);
		MUST(!uthread_mutex_unlock(&m.lock));
	}
	return NULL;
}

static void mutex_timed(void)
{
	uthread_t t[4];

	make_some(t, 2, timed_locker, NULL);
	make_some(t + 2, 2, locker, NULL);
	join_some(t, 4);
	MUST(m.sum == 6);
	MUST(!uthread_mutex_destroy(&m.lock));
}

/* ---- condition: a buffer for one ---- */

#define ITEMS 4

static void *puts_one(void *arg)
{
	int i;

	(void)arg;
	for (i = 0; i < ITEMS; i++) {
		uthread_mutex_lock(&m.lock);
		while (m.left)
			MUST(!uthread_cond_wait(&m.room, &m.lock));
		m.left = 1;
		uthread_cond_signal(&m.some);
		uthread_mutex_unlock(&m.lock);
	}
	return NULL;
}

static void *takes_one(void *arg)
{
	int i;

	(void)arg;
	for (i = 0; i < ITEMS; i++) {
		uthread_mutex_lock(&m.lock);
		while (!m.left)
			MUST(!uthread_cond_wait(&m.some, &m.lock));
		m.left = 0;
		m.sum++;
		uthread_cond_signal(&m.room);
		uthread_mutex_unlock(&m.lock);
	}
	return NULL;
}

static void cond(void)
{
	uthread_t t[4];

	make_some(t, 2, puts_one, NULL);
	make_some(t + 2, 2, takes_one, NULL);
	join_some(t, 4);
	MUST(m.sum == 2 * ITEMS);
	MUST(!uthread_cond_destroy(&m.some) && !uthread_cond_destroy(&m.room));
}

static void *waits_for_all(void *arg)
{
	(void)arg;
	uthread_mutex_lock(&m.lock);
	m.sum++;
	while (m.left < 2)
		MUST(!uthread_cond_wait(&m.some, &m.lock));
	uthread_mutex_unlock(&m.lock);
	return NULL;
}

static void broadcast(void)
{
	uthread_t t[3];
	int i;

	make_some(t, 3, waits_for_all, NULL);
	for (i = 0; i < 2; i++) {
		uthread_mutex_lock(&m.lock);
		m.left++;
		uthread_cond_broadcast(&m.some);
		uthread_mutex_unlock(&m.lock);
	}
	join_some(t, 3);
	MUST(!uthread_cond_destroy(&m.some) && !uthread_mutex_destroy(&m.lock));
}

/* ---- semaphores: to and fro, from outside too ---- */

static void *answers(void *arg)
{
	int i;

	(void)arg;
	for (i = 0; i < 3; i++) {
		MUST(!uthread_sem_wait(&m.sem));
		MUST(!uthread_sem_post(&m.back));
	}
	return NULL;
}

static void sem(void)
{
	uthread_t t[2];
	int i;

	make_some(t, 2, answers, NULL);
	for (i = 0; i < 3; i++) {
		uthread_sem_post(&m.sem);
		uthread_sem_post(&m.sem);
		uthread_sem_wait(&m.back);
		uthread_sem_wait(&m.back);
	}
	join_some(t, 2);
	MUST(!uthread_sem_destroy(&m.sem) && !uthread_sem_destroy(&m.back));
}

static void *waits_a_while(void *arg)
{
	struct timespec ts;
	int n = 0;

	(void)arg;
	while (n < 2) {
		soon(&ts, sim_random(6000));
		n += !uthread_sem_timedwait(&m.sem, &ts);
	}
	__atomic_fetch_add(&g.done, 1, __ATOMIC_RELEASE);
	return NULL;
}

static void *posts(void *arg)
{
	int i;

	(void)arg;
	for (i = 0; i < 4; i++) {
		uthread_sleep(sim_random(4000));
		uthread_sem_post(&m.sem);
	}
	return NULL;
}

/* Deadlines against wakes. */
static void sem_timed(void)
{
	uthread_t t[3];

	make_some(t, 2, waits_a_while, NULL);
	make_some(t + 2, 1, posts, NULL);
	join_some(t, 3);
	MUST(!uthread_sem_destroy(&m.sem));
}

/* ---- sleep: nothing but deadlines ---- */

static void *sleeps(void *arg)
{
	const uint64_t ns = ((uint64_t)(uintptr_t)arg + 1) * 20000;
	struct timespec before, after;
	int i;

	for (i = 0; i < 2; i++) {
		clock_gettime(CLOCK_MONOTONIC, &before);
		uthread_sleep(ns);
		clock_gettime(CLOCK_MONOTONIC, &after);
		MUST(after.tv_nsec - before.tv_nsec >= (long)ns);
	}
	return NULL;
}

static void sleep_some(void)
{
	uthread_t t[4];

	make_some(t, 4, sleeps, NULL);
	join_some(t, 4);
}

/* One sleeps, and all workers but one compute until it has woken. */
static void *computes(void *arg)
{
	(void)arg;
	spin_until(&g.done, 1);
	return NULL;
}

static void *wakes_up(void *arg)
{
	uthread_t t;

	(void)arg;
	make_some(&t, 1, computes, NULL);
	uthread_sleep(30000);
	__atomic_fetch_add(&g.done, 1, __ATOMIC_RELEASE);
	join_some(&t, 1);
	return NULL;
}

static void sleep_beside(void)
{
	uthread_t t;

	make_some(&t, 1, wakes_up, NULL);
	join_some(&t, 1);
}

/* ---- bound: each to a worker, by its inbox ---- */

static void *bound_one(void *arg)
{
	const int worker = (int)(intptr_t)arg;
	int i;

	for (i = 0; i < 3; i++) {
		MUST(uthread_worker() == worker);
		if (worker) {
			uthread_sem_wait(&m.sem);
			uthread_sem_post(&m.back);
		} else {
			uthread_sem_post(&m.sem);
			uthread_sem_wait(&m.back);
		}
	}
	return NULL;
}

static void bound(void)
{
	uthread_attr_t a;
	uthread_t t[2];
	int i;

	for (i = 0; i < 2; i++) {
		uthread_attr_init(&a);
		MUST(!uthread_attr_setworker(&a, i));
		MUST(!uthread_create(&t[i], &a, bound_one,
				     (void *)(intptr_t)i));
	}
	join_some(t, 2);
}

/* ---- channels ---- */

static uthread_chan_t ch[2];

static void *sends(void *arg)
{
	int i;

	(void)arg;
	for (i = 1; i <= ITEMS; i++)
		MUST(!uthread_chan_send(ch[0], &i));
	return NULL;
}

static void *receives(void *arg)
{
	int i, item;

	(void)arg;
	for (i = 0; i < ITEMS; i++) {
		MUST(!uthread_chan_recv(ch[0], &item));
		__atomic_fetch_add(&m.sum, item, __ATOMIC_RELAXED);
	}
	return NULL;
}

static void through(size_t room)
{
	uthread_t t[4];

	MUST(!uthread_chan_create(&ch[0], sizeof(int), room));
	make_some(t, 2, sends, NULL);
	make_some(t + 2, 2, receives, NULL);
	join_some(t, 4);
	MUST(m.sum == 2 * ITEMS * (ITEMS + 1) / 2);
	MUST(!uthread_chan_destroy(ch[0]));
}

static void chan(void)
{
	through(sim_random(3));
}

/* A channel that has its home at a worker, and one elsewhere that comes by. */
static void *at_home(void *arg)
{
	int i, item = 0;

	(void)arg;
	for (i = 0; i < 70; i++) {
		if (uthread_chan_trysend(ch[0], &item))
			MUST(!uthread_chan_tryrecv(ch[0], &item));
	}
	while (!uthread_chan_tryrecv(ch[0], &item))
		;
	__atomic_fetch_add(&g.done, 1, __ATOMIC_RELEASE);
	for (i = 0; i < 6; i++) {
		MUST(!uthread_chan_send(ch[0], &item));
		MUST(!uthread_chan_recv(ch[0], &item));
	}
	return NULL;
}

static void *comes_by(void *arg)
{
	int i, item = 1;

	(void)arg;
	spin_until(&g.done, 1);
	for (i = 0; i < 4; i++) {
		MUST(!uthread_chan_send(ch[0], &item));
		MUST(!uthread_chan_recv(ch[0], &item));
	}
	return NULL;
}

static void chan_home(void)
{
	uthread_t t[2];

	MUST(!uthread_chan_create(&ch[0], sizeof(int), 2));
	make_some(t, 1, at_home, NULL);
	make_some(t + 1, 1, comes_by, NULL);
	join_some(t, 2);
}

static void *selects(void *arg)
{
	size_t which;
	int item, i;

	(void)arg;
	for (i = 0; i < 2 * ITEMS; i++) {
		struct uthread_case cases[2] = {
			UTHREAD_RECV_FROM(ch[0], &item),
			UTHREAD_RECV_FROM(ch[1], &item),
		};

		MUST(!uthread_select(cases, 2, NULL, &which));
		m.sum += item;
	}
	return NULL;
}

static void *sends_to(void *arg)
{
	int i;

	for (i = 1; i <= ITEMS; i++)
		MUST(!uthread_chan_send(ch[(intptr_t)arg], &i));
	return NULL;
}

static void select_two(void)
{
	uthread_t t[3];

	MUST(!uthread_chan_create(&ch[0], sizeof(int), 0));
	MUST(!uthread_chan_create(&ch[1], sizeof(int), 1));
	make_some(t, 2, sends_to, NULL);
	make_some(t + 2, 1, selects, NULL);
	join_some(t, 3);
	MUST(m.sum == ITEMS * (ITEMS + 1));
}

/* ---- cancel: against who wakes; what was handed out is not lost ---- */

static void *receives_all(void *arg)
{
	int item;

	(void)arg;
	while (!uthread_chan_recv(ch[0], &item))
		__atomic_fetch_add(&m.sum, 1, __ATOMIC_RELAXED);
	return NULL;
}

static void join_cancelled(uthread_t *t, int n)
{
	void *value;
	int i;

	for (i = 0; i < n; i++) {
		MUST(!uthread_join(t[i], &value));
		MUST(!value || value == UTHREAD_CANCELED);
	}
}

static void cancel_chan(void)
{
	const int which = (int)sim_random(3);
	uthread_t t[3];
	int i;

	MUST(!uthread_chan_create(&ch[0], sizeof(int), sim_random(2)));
	make_some(t, 3, receives_all, NULL);
	for (i = 0; i < 4; i++) {
		if (i == which)
			MUST(!uthread_cancel(t[i]));
		MUST(!uthread_chan_send(ch[0], &i));
	}
	MUST(!uthread_chan_close(ch[0]));
	join_cancelled(t, 3);
	MUST(m.sum == 4);
	MUST(!uthread_chan_destroy(ch[0]));
}

static void *cancels(void *arg)
{
	MUST(!uthread_cancel(arg));
	return NULL;
}

/* By another uthread, while a third wakes it. */
static void cancel_chan_inside(void)
{
	uthread_t t[4];

	MUST(!uthread_chan_create(&ch[0], sizeof(int), 4));
	make_some(t, 1, receives_all, NULL);
	make_some(&t[1], 1, sends, NULL);
	make_some(&t[2], 1, cancels, t[0]);
	join_some(&t[1], 2);
	MUST(!uthread_chan_close(ch[0]));
	join_cancelled(t, 1);
	MUST(m.sum + (int)uthread_chan_count(ch[0]) == ITEMS);
}

static void *takes_units(void *arg)
{
	(void)arg;
	for (;;) {
		MUST(!uthread_sem_wait(&m.sem));
		__atomic_fetch_add(&m.sum, 1, __ATOMIC_RELAXED);
	}
	return NULL;
}

static void cancel_sem(void)
{
	uthread_t t[3];
	int i, left;

	make_some(t, 3, takes_units, NULL);
	for (i = 0; i < 3; i++) {
		uthread_sem_post(&m.sem);
		MUST(!uthread_cancel(t[i]));
		uthread_sem_post(&m.sem);
	}
	join_cancelled(t, 3);
	MUST(!uthread_sem_getvalue(&m.sem, &left));
	MUST(m.sum + left == 6);
	MUST(!uthread_sem_destroy(&m.sem));
}

static void *sleeps_long(void *arg)
{
	(void)arg;
	uthread_sleep(500000000);
	return NULL;
}

static void cancel_sleep(void)
{
	uthread_t t[3];
	int i;

	make_some(t, 3, sleeps_long, NULL);
	for (i = 0; i < 3; i++)
		MUST(!uthread_cancel(t[i]));
	join_cancelled(t, 3);
}

/* ---- rwlock, barrier ---- */

static void *reads_and_writes(void *arg)
{
	int i;

	for (i = 0; i < 3; i++) {
		if ((i + (intptr_t)arg) % 2) {
			MUST(!uthread_rwlock_wrlock(&m.rw));
			MUST(!__atomic_fetch_add(&m.inside, 8,
						 __ATOMIC_RELAXED));
			m.sum++;
			__atomic_fetch_sub(&m.inside, 8, __ATOMIC_RELAXED);
		} else {
			MUST(!uthread_rwlock_rdlock(&m.rw));
			MUST(__atomic_fetch_add(&m.inside, 1,
						__ATOMIC_RELAXED) < 8);
			uthread_yield();
			__atomic_fetch_sub(&m.inside, 1, __ATOMIC_RELAXED);
		}
		MUST(!uthread_rwlock_unlock(&m.rw));
	}
	return NULL;
}

static void rwlock(void)
{
	uthread_t t[4];

	make_some(t, 4, reads_and_writes, NULL);
	join_some(t, 4);
	MUST(m.sum == 6);
}

static void *meets(void *arg)
{
	uint32_t i;

	(void)arg;
	for (i = 1; i <= 3; i++) {
		__atomic_fetch_add(&g.done, 1, __ATOMIC_RELAXED);
		uthread_barrier_wait(&m.barrier);
		MUST(load_relaxed(&g.done) >= 3 * i);
		uthread_barrier_wait(&m.barrier);
	}
	return NULL;
}

static void barrier_of_three(void)
{
	uthread_t t[3];

	MUST(!uthread_barrier_init(&m.barrier, NULL, 3));
	make_some(t, 3, meets, NULL);
	join_some(t, 3);
	MUST(!uthread_barrier_destroy(&m.barrier));
}

/* ---- ticks: who never gives way is stopped ---- */

static void ticks(void)
{
	uthread_t t[6];

	make_some(t, 6, computes_until, (void *)6);
	join_some(t, 6);
}

/* ---- workers: some are too many for a while ---- */

/* As process/workers.c has it, where all of them have been made. */
static void set_workers(int n)
{
	static uint32_t lock;
	int had, i;

	spin_lock(&lock);
	had = rt.nworkers;
	store_relaxed(&rt.nworkers, n);
	for (i = had; i < n; i++)
		worker_set_leaving(rt.proper[i], false);
	for (i = n; i < had; i++)
		worker_set_leaving(rt.proper[i], true);
	spin_unlock(&lock);
	for (i = had; i < n; i++)
		sched_unrest(rt.proper[i]);
	for (i = n; i < had; i++) {
		sched_nudge(rt.proper[i]);
		tick_want(rt.proper[i]);
	}
}

static void fewer(void)
{
	const int all = rt.nworkers;
	uthread_t t[6];
	int i;

	make_some(t, 2, yielder, NULL);
	make_some(&t[2], 1, yielder, (void *)2);
	make_some(&t[3], 2, answers, NULL);
	for (i = 0; i < 3; i++) {
		set_workers(1 + (int)sim_random((uint64_t)all));
		uthread_sem_post(&m.sem);
		uthread_sem_post(&m.sem);
		uthread_sem_wait(&m.back);
		uthread_sem_wait(&m.back);
		/* Bound to one that rests, maybe. */
		if (i == 1) {
			uthread_attr_t a;

			uthread_attr_init(&a);
			MUST(!uthread_attr_setworker(&a, 0));
			MUST(!uthread_create(&t[5], &a, does_it, NULL));
		}
	}
	join_some(t, 6);
	set_workers(all);
}

/* ---- lines: the same operation on every worker (lines.c) ---- */

#define WARM \
	70 /* operations of each before any is counted: channels are at home */
#define COUNTED 40

struct place {
	int index; /* of its worker */
	uthread_mutex_t lock;
	uthread_sem_t ping, pong;
	uthread_chan_t chan;
	uint32_t done;
} __attribute__((aligned(CACHE_LINE)));

static struct place *places;
static int nplaces, nwarm, nplaced;
static void (*operation)(struct place *p, int side);
static int sides;
static bool stays; /* each side is bound to its place's worker */

/* All that is not the runtime's is not seen: neither a point nor a line. */
#define UNSEEN __attribute__((no_sanitize("thread"), noinline))

static UNSEEN bool all_placed(bool one_more)
{
	nplaced += one_more;
	if (nplaced == nplaces * sides)
		lines_begin();
	return nplaced >= nplaces * sides;
}

static UNSEEN void one_is_warm(void)
{
	if (++nwarm == nplaces * sides)
		lines_count((uint64_t)(nplaces * sides * COUNTED));
}

static UNSEEN bool goes_on(void)
{
	return !lines_done();
}

struct side {
	struct place *place;
	int side;
};

static void *side_of(void *arg)
{
	const struct side s = *(struct side *)arg;
	int i;

	/* Each where it was made: no worker is ever without somebody to run. */
	for (all_placed(true); !all_placed(false);)
		uthread_yield();
	for (i = 0; i < WARM; i++)
		operation(s.place, s.side);
	one_is_warm();
	while (goes_on()) {
		operation(s.place, s.side);
		lines_operation();
	}
	/* Whoever waits for one that is done: a neighbour, at the most. */
	for (i = 0; i < 2; i++) {
		struct place *p = i ? s.place : &places[s.place->index & ~1];

		uthread_sem_post(&p->ping);
		uthread_sem_post(&p->pong);
	}
	return NULL;
}

static void *place_one(void *arg)
{
	struct place *p = arg;
	struct side s[2] = { { p, 0 }, { p, 1 } };
	uthread_attr_t a;
	uthread_t t[2];
	int i;

	uthread_attr_init(&a);
	if (stays)
		MUST(!uthread_attr_setworker(&a, uthread_worker()));
	for (i = 0; i < sides; i++)
		MUST(!uthread_create(&t[i], &a, side_of, &s[i]));
	join_some(t, sides);
	return NULL;
}

/* On the first `count` workers, or (apart: 2) on every second one of so many. */
static void on_workers(void (*fn)(struct place *p, int side), int n, int count,
		       int apart)
{
	uthread_attr_t a;
	uthread_t t[256];
	int i;

	operation = fn;
	sides = n;
	nplaces = count;
	places = sim_alloc((size_t)nplaces * sizeof(places[0]));
	for (i = 0; i < nplaces; i++) {
		places[i].index = i;
		lines_region(&places[i], sizeof(places[i]), "its object", i);
		MUST(!uthread_chan_create(&places[i].chan, sizeof(int), 1));
		uthread_attr_init(&a);
		MUST(!uthread_attr_setworker(&a, i * apart));
		MUST(!uthread_create(&t[i], &a, place_one, &places[i]));
	}
	runtime_workers_go();
	join_some(t, nplaces);
}

static void on_all_workers(void (*fn)(struct place *p, int side), int n)
{
	on_workers(fn, n, rt.nworkers, 1);
}

static void op_yield(struct place *p, int side)
{
	(void)p;
	(void)side;
	uthread_yield();
}

static void lines_yield(void)
{
	on_all_workers(op_yield, 2);
}

static void op_mutex(struct place *p, int side)
{
	(void)side;
	uthread_mutex_lock(&p->lock);
	uthread_mutex_unlock(&p->lock);
}

static void lines_mutex(void)
{
	on_all_workers(op_mutex, 1);
}

static void *nothing(void *arg)
{
	return arg;
}

static void op_create(struct place *p, int side)
{
	uthread_t t;

	(void)p;
	(void)side;
	uthread_create(&t, NULL, nothing, NULL);
	uthread_join(t, NULL);
}

static void lines_create(void)
{
	on_all_workers(op_create, 1);
}

static void op_wake(struct place *p, int side)
{
	uthread_sem_post(side ? &p->ping : &p->pong);
	uthread_sem_wait(side ? &p->pong : &p->ping);
}

static void lines_wake(void)
{
	on_all_workers(op_wake, 2);
}

static void op_chan(struct place *p, int side)
{
	int item = side;

	uthread_chan_send(p->chan, &item);
	uthread_chan_recv(p->chan, &item);
}

static void lines_chan(void)
{
	on_all_workers(op_chan, 1);
}

static void op_sleep(struct place *p, int side)
{
	(void)p;
	(void)side;
	uthread_sleep(1);
}

static void lines_sleep(void)
{
	on_all_workers(op_sleep, 2);
}

/* Two neighbours wake each other. */
static void op_across(struct place *p, int side)
{
	struct place *even = &places[p->index & ~1];

	(void)side;
	if (nplaces % 2 && p->index == nplaces - 1)
		return;
	if (p->index & 1) {
		uthread_sem_post(&even->pong);
		uthread_sem_wait(&even->ping);
	} else {
		uthread_sem_wait(&even->pong);
		uthread_sem_post(&even->ping);
	}
}

static void lines_across(void)
{
	stays = true;
	on_all_workers(op_across, 1);
}

/* Half of the workers have nothing to do, and look. */
static void lines_beside(void)
{
	on_workers(op_yield, 2, (rt.nworkers + 1) / 2, 2);
}

/* They take what the others, which compute, have made. */
static void *says_done(void *arg)
{
	store_release((uint32_t *)arg, 1);
	return NULL;
}

static void op_steal(struct place *p, int side)
{
	uthread_t t;

	(void)side;
	store_relaxed(&p->done, 0);
	uthread_create(&t, NULL, says_done, &p->done);
	spin_until(&p->done, 1);
	uthread_join(t, NULL);
}

static void lines_steal(void)
{
	on_workers(op_steal, 1, (rt.nworkers + 1) / 2, 2);
}

const struct scenario scenarios[] = {
	{ "yield", yield_storm, 0, false, false, false },
	{ "hog", hog_and_others, 2, false, false, false },
	{ "chain", chain, 3, false, false, false },
	{ "burst", burst, 3, false, false, false },
	{ "pairs", pairs, 4, false, false, false },
	{ "outside", outside_all, 0, false, false, false },
	{ "create", create, 0, false, false, false },
	{ "mutex", mutex, 0, false, false, false },
	{ "mutex-timed", mutex_timed, 0, false, false, false },
	{ "cond", cond, 0, false, false, false },
	{ "broadcast", broadcast, 0, false, false, false },
	{ "sem", sem, 0, false, false, false },
	{ "sem-timed", sem_timed, 0, false, false, false },
	{ "sleep", sleep_some, 0, false, false, false },
	{ "sleep-beside", sleep_beside, 2, false, false, false },
	{ "bound", bound, 2, false, false, false },
	{ "chan", chan, 0, false, false, false },
	{ "chan-home", chan_home, 2, false, false, false },
	{ "select", select_two, 0, false, false, false },
	{ "cancel-chan", cancel_chan, 0, false, false, false },
	{ "cancel-in", cancel_chan_inside, 0, false, false, false },
	{ "cancel-sem", cancel_sem, 0, false, false, false },
	{ "cancel-sleep", cancel_sleep, 0, false, false, false },
	{ "cancel-ticks", cancel_sem, 0, true, false, false },
	{ "rwlock", rwlock, 0, false, false, false },
	{ "barrier", barrier_of_three, 0, false, false, false },
	{ "workers", fewer, 0, false, false, false },
	{ "workers-ticks", fewer, 0, true, false, false },
	{ "ticks", ticks, 0, true, false, false },
	{ "mutex-ticks", mutex, 0, true, false, false },
	{ "cond-ticks", cond, 0, true, false, false },
	{ "lines-yield", lines_yield, 0, false, true, true },
	{ "lines-mutex", lines_mutex, 0, false, true, true },
	{ "lines-create", lines_create, 0, false, true, true },
	{ "lines-wake", lines_wake, 0, false, true, true },
	{ "lines-chan", lines_chan, 0, false, true, true },
	{ "lines-sleep", lines_sleep, 0, false, true, false },
	{ "lines-across", lines_across, 0, false, true, false },
	{ "lines-beside", lines_beside, 0, false, true, false },
	{ "lines-steal", lines_steal, 0, false, true, false },
	{ NULL, NULL, 0, false, false, false },
};

const struct scenario *scenario_find(const char *name)
{
	const struct scenario *s;

	for (s = scenarios; s->name; s++)
		if (!strcmp(s->name, name))
			return s;
	return NULL;
}
