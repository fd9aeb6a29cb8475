/* SPDX-License-Identifier: Apache-2.0 */
/*
 * storm_sync.c - the runtime's own locks and waits under ticks: mutexes and
 * reader-writer locks of each kind, condition variables, semaphores, barriers,
 * once, deadlines that pass while the lock is handed over, joins with a deadline.
 */
#include "soak.h"

#define ROOM 8

static uthread_mutex_t normal = UTHREAD_MUTEX_INITIALIZER;
static uthread_mutex_t recursive = UTHREAD_RECURSIVE_MUTEX_INITIALIZER;
static uthread_mutex_t checking = UTHREAD_ERRORCHECK_MUTEX_INITIALIZER;
static uthread_sem_t sem = UTHREAD_SEM_INITIALIZER(3);

/* Guarded by the lock of that name; `asked` is the atomic truth. */
static struct pair {
	uint64_t a, b;
} in_normal, in_recursive, in_checking;
static uint64_t asked[3];
static int in_sem;

static void bump(struct pair *p, uint64_t *count)
{
	CHECK_EQ(p->a, p->b);
	p->a++;
	soak_spin(200);
	p->b++;
	add(count, 1);
}

static void mutexes(struct soak *s)
{
	uint64_t until;
	struct timespec t;
	int err;

	CHECK_EQ(uthread_mutex_lock(&recursive), 0);
	CHECK_EQ(uthread_mutex_lock(&recursive), 0);
	bump(&in_recursive, &asked[1]);
	CHECK_EQ(uthread_mutex_unlock(&recursive), 0);
	uthread_yield();
	CHECK_EQ(in_recursive.a, in_recursive.b);
	CHECK_EQ(uthread_mutex_unlock(&recursive), 0);

	until = test_now() + soak_random(s, 300000);
	t = test_time(until);
	err = uthread_mutex_timedlock(&normal, &t);
	CHECK(!err || err == ETIMEDOUT);
	if (!err) {
		bump(&in_normal, &asked[0]);
		CHECK_EQ(uthread_mutex_unlock(&normal), 0);
	} else {
		CHECK(test_now() >= until);
	}

	err = uthread_mutex_trylock(&checking);
	CHECK(!err || err == EBUSY);
	if (err)
		CHECK_EQ(uthread_mutex_lock(&checking), 0);
	CHECK_EQ(uthread_mutex_lock(&checking), EDEADLK);
	bump(&in_checking, &asked[2]);
	CHECK_EQ(uthread_mutex_unlock(&checking), 0);
	CHECK_EQ(uthread_mutex_unlock(&checking), EPERM);
}

static void semaphores(struct soak *s)
{
	struct timespec t = test_in(soak_random(s, 300000));
	int err = uthread_sem_timedwait(&sem, &t);

	CHECK(!err || err == ETIMEDOUT);
	if (err)
		CHECK_EQ(uthread_sem_wait(&sem), 0);
	CHECK(add(&in_sem, 1) <= 3);
	soak_spin(300);
	CHECK(add(&in_sem, -1) >= 0);
	CHECK_EQ(uthread_sem_post(&sem), 0);
}

/* ---- reader-writer locks, one of each kind ---- */

static struct {
	uthread_rwlock_t lock;
	struct pair in;
	uint64_t asked;
} shelf[3] = { { .lock = UTHREAD_RWLOCK_INITIALIZER },
	       { .lock = { ._kind = UTHREAD_RWLOCK_PREFER_READER } },
	       { .lock = { ._kind = UTHREAD_RWLOCK_PREFER_WRITER } } };

static void rwlocks(struct soak *s)
{
	const unsigned i = soak_random(s, 3), what = soak_random(s, 8);
	uthread_rwlock_t *l = &shelf[i].lock;
	struct timespec t;
	int err = 0;

	clock_gettime(what & 1 ? CLOCK_REALTIME : CLOCK_MONOTONIC, &t);
	t.tv_nsec = (t.tv_nsec + soak_random(s, 300000)) % 1000000000;
	if (what < 2) {
		err = uthread_rwlock_clockwrlock(
			l, what & 1 ? CLOCK_REALTIME : CLOCK_MONOTONIC, &t);
	} else if (what == 2) {
		CHECK_EQ(uthread_rwlock_wrlock(l), 0);
	} else if (what < 5) {
		err = uthread_rwlock_clockrdlock(
			l, what & 1 ? CLOCK_REALTIME : CLOCK_MONOTONIC, &t);
	} else {
		CHECK_EQ(uthread_rwlock_rdlock(l), 0);
	}
	CHECK(!err || err == ETIMEDOUT);
	if (err)
		return;
	if (what <= 2) {
		bump(&shelf[i].in, &shelf[i].asked);
	} else {
		CHECK_EQ(shelf[i].in.a, shelf[i].in.b);
		soak_spin(200);
		CHECK_EQ(uthread_rwlock_rdlock(l), 0);
		CHECK_EQ(shelf[i].in.a, shelf[i].in.b);
		CHECK_EQ(uthread_rwlock_unlock(l), 0);
	}
	CHECK_EQ(uthread_rwlock_unlock(l), 0);
}

static struct {
	uthread_mutex_t m;
	uthread_cond_t room, filled;
	uint64_t item[ROOM], put, got, put_sum, got_sum;
} buffer = { .m = UTHREAD_MUTEX_INITIALIZER,
	     .room = UTHREAD_COND_INITIALIZER,
	     .filled = UTHREAD_COND_INITIALIZER };

static void wait_a_while(struct soak *s, uthread_cond_t *c)
{
	struct timespec t;
	int err;

	if (soak_random(s, 2)) {
		CHECK_EQ(uthread_cond_wait(c, &buffer.m), 0);
		return;
	}
	t = test_in(soak_random(s, 500000));
	err = uthread_cond_timedwait(c, &buffer.m, &t);
	CHECK(!err || err == ETIMEDOUT);
	/* A signal that went to us although time was up is not lost. */
	if (err)
		CHECK_EQ(uthread_cond_signal(c), 0);
}

static void produce_and_consume(struct soak *s)
{
	uint64_t x = test_random(&s->rng);

	CHECK_EQ(uthread_mutex_lock(&buffer.m), 0);
	while (buffer.put - buffer.got == ROOM)
		wait_a_while(s, &buffer.room);
	buffer.item[buffer.put++ % ROOM] = x;
	buffer.put_sum += x;
	CHECK_EQ(uthread_cond_signal(&buffer.filled), 0);
	CHECK_EQ(uthread_mutex_unlock(&buffer.m), 0);
	soak_spin(soak_random(s, 300));
	CHECK_EQ(uthread_mutex_lock(&buffer.m), 0);
	while (buffer.put == buffer.got)
		wait_a_while(s, &buffer.filled);
	buffer.got_sum += buffer.item[buffer.got++ % ROOM];
	CHECK_EQ(uthread_cond_signal(&buffer.room), 0);
	CHECK_EQ(uthread_mutex_unlock(&buffer.m), 0);
}

/* ---- a party of four: barrier, once, join ---- */

struct party {
	uthread_barrier_t barrier;
	uthread_once_t once;
	unsigned steps[4], serial;
};

static int onces;

static void first(void)
{
	soak_spin(500);
	add(&onces, 1);
}

struct guest {
	struct party *p;
	unsigned me;
};

static void *dances(void *arg)
{
	struct guest *g = (struct guest *)arg;
	struct party *p = g->p;
	int r;

	CHECK_EQ(uthread_once(&p->once, first), 0);
	for (unsigned i = 1; i <= 5; i++) {
		store(&p->steps[g->me], i);
		soak_spin(g->me * 100);
		r = uthread_barrier_wait(&p->barrier);
		CHECK(!r || r == UTHREAD_BARRIER_SERIAL_THREAD);
		if (r)
			add(&p->serial, 1);
		for (unsigned k = 0; k < 4; k++)
			CHECK(load(&p->steps[k]) == i ||
			      load(&p->steps[k]) == i + 1);
	}
	return &p->steps[g->me];
}

static void party(struct soak *s)
{
	struct party p = { .once = UTHREAD_ONCE_INIT };
	struct guest g[4];
	uthread_t t[4];
	void *value;
	int err, then = load(&onces);

	CHECK_EQ(uthread_barrier_init(&p.barrier, NULL, 4), 0);
	for (unsigned i = 0; i < 4; i++) {
		g[i].p = &p;
		g[i].me = i;
		t[i] = spawn(dances, &g[i]);
	}
	for (unsigned i = 0; i < 4; i++) {
		struct timespec d = test_in(soak_random(s, 300000));

		while ((err = uthread_timedjoin(t[i], &value, &d))) {
			CHECK_EQ(err, ETIMEDOUT);
			d = test_in(200000);
		}
		CHECK(value == &p.steps[i]);
		CHECK_EQ(p.steps[i], 5);
	}
	CHECK_EQ(p.serial, 5);
	CHECK(load(&onces) > then);
	CHECK_EQ(uthread_barrier_destroy(&p.barrier), 0);
}

static void round_of_sync(struct soak *s)
{
	mutexes(s);
	semaphores(s);
	rwlocks(s);
	produce_and_consume(s);
	if (soak_random(s, 8) == 0)
		party(s);
	if (soak_random(s, 4) == 0)
		CHECK_EQ(uthread_sleep(soak_random(s, 200000)), 0);
}

static void finish(void)
{
	CHECK_EQ(in_normal.a, load(&asked[0]));
	CHECK_EQ(in_recursive.a, load(&asked[1]));
	CHECK_EQ(in_checking.a, load(&asked[2]));
	CHECK_EQ(buffer.put, buffer.got);
	CHECK_EQ(buffer.put_sum, buffer.got_sum);
	CHECK_EQ(load(&in_sem), 0);
	for (unsigned i = 0; i < 3; i++) {
		CHECK_EQ(shelf[i].in.a, shelf[i].asked);
		CHECK_EQ(uthread_rwlock_destroy(&shelf[i].lock), 0);
	}
}

STORM(sync, .uthreads = 300, .shared_tls = 1, .round = round_of_sync,
      .finish = finish)
