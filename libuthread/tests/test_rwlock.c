// SPDX-License-Identifier: Apache-2.0
/*
 * test_rwlock.c - reader-writer locks: who gets in, in which order, and what
 * every misuse gives.
 */
#include "rwlock_util.h"

#define READERS_BIT UTHREAD_RWLOCK_READERS_MAX

static void *tries_to_read(void *arg)
{
	*(int *)arg = uthread_rwlock_tryrdlock(&lock);
	if (!*(int *)arg)
		CHECK_EQ(uthread_rwlock_unlock(&lock), 0);
	return NULL;
}

static void *tries_to_write(void *arg)
{
	*(int *)arg = uthread_rwlock_trywrlock(&lock);
	if (!*(int *)arg)
		CHECK_EQ(uthread_rwlock_unlock(&lock), 0);
	return NULL;
}

static int another(void *(*tries)(void *))
{
	int err = -1;

	in_uthread(tries, &err);
	return err;
}

/* ---- attributes ---- */

TEST(attributes)
{
	uthread_rwlockattr_t a;
	int v;

	CHECK_EQ(uthread_rwlockattr_init(&a), 0);
	CHECK_EQ(uthread_rwlockattr_getkind(&a, &v), 0);
	CHECK_EQ(v, UTHREAD_RWLOCK_FAIR);
	CHECK_EQ(uthread_rwlockattr_setkind(&a, UTHREAD_RWLOCK_PREFER_WRITER),
		 0);
	CHECK_EQ(uthread_rwlockattr_getkind(&a, &v), 0);
	CHECK_EQ(v, UTHREAD_RWLOCK_PREFER_WRITER);
	CHECK_EQ(uthread_rwlockattr_setkind(&a, 3), EINVAL);
	CHECK_EQ(uthread_rwlockattr_setkind(&a, -1), EINVAL);
	CHECK_EQ(uthread_rwlockattr_setpshared(&a, UTHREAD_PROCESS_SHARED),
		 ENOTSUP);
	CHECK_EQ(uthread_rwlockattr_setpshared(&a, 7), EINVAL);
	CHECK_EQ(uthread_rwlockattr_setpshared(&a, UTHREAD_PROCESS_PRIVATE), 0);
	CHECK_EQ(uthread_rwlockattr_getpshared(&a, &v), 0);
	CHECK_EQ(v, UTHREAD_PROCESS_PRIVATE);
	CHECK_EQ(uthread_rwlockattr_destroy(&a), 0);
}

/* ---- who is inside together ---- */

static void shares(void)
{
	CHECK_EQ(uthread_rwlock_rdlock(&lock), 0);
	CHECK_EQ(uthread_rwlock_rdlock(&lock), 0);
	CHECK_EQ(another(tries_to_read), 0);
	CHECK_EQ(another(tries_to_write), EBUSY);
	CHECK_EQ(uthread_rwlock_trywrlock(&lock), EBUSY);
	CHECK_EQ(uthread_rwlock_destroy(&lock), EBUSY);
	CHECK_EQ(uthread_rwlock_unlock(&lock), 0);
	CHECK_EQ(another(tries_to_write), EBUSY);
	CHECK_EQ(uthread_rwlock_unlock(&lock), 0);
	CHECK_EQ(another(tries_to_write), 0);
	CHECK_EQ(uthread_rwlock_wrlock(&lock), 0);
	CHECK_EQ(another(tries_to_write), EBUSY);
	CHECK_EQ(another(tries_to_read), EBUSY);
	CHECK_EQ(uthread_rwlock_destroy(&lock), EBUSY);
	CHECK_EQ(uthread_rwlock_unlock(&lock), 0);
	CHECK_EQ(another(tries_to_read), 0);
}

TEST(readers_share_writers_do_not)
{
	for_kinds(shares);
}

static void *misuses(void *arg)
{
	struct timespec past = { 1, 0 }, bad = { 1, 1000000000 };

	CHECK_EQ(uthread_rwlock_unlock(&lock), EPERM);
	CHECK_EQ(uthread_rwlock_wrlock(&lock), 0);
	CHECK_EQ(uthread_rwlock_wrlock(&lock), EDEADLK);
	CHECK_EQ(uthread_rwlock_rdlock(&lock), EDEADLK);
	CHECK_EQ(uthread_rwlock_timedwrlock(&lock, &past), EDEADLK);
	CHECK_EQ(uthread_rwlock_clockrdlock(&lock, CLOCK_REALTIME, &bad),
		 EDEADLK);
	CHECK_EQ(uthread_rwlock_trywrlock(&lock), EBUSY);
	CHECK_EQ(uthread_rwlock_tryrdlock(&lock), EBUSY);
	CHECK_EQ(uthread_rwlock_unlock(&lock), 0);
	CHECK_EQ(uthread_rwlock_unlock(&lock), EPERM);
	return arg;
}

static void *unlocks_anothers(void *arg)
{
	CHECK_EQ(uthread_rwlock_unlock(&lock), EPERM);
	return arg;
}

TEST(misuse_is_reported)
{
	in_uthread(misuses, NULL);
	in_pthread(misuses, NULL);
	CHECK_EQ(uthread_rwlock_wrlock(&lock), 0);
	in_uthread(unlocks_anothers, NULL);
	in_pthread(unlocks_anothers, NULL);
	CHECK_EQ(uthread_rwlock_unlock(&lock), 0);
}

TEST(too_many_readers_are_EAGAIN)
{
	struct timespec past = { 1, 0 };

	lock._state = READERS_BIT - 1;
	CHECK_EQ(uthread_rwlock_rdlock(&lock), 0);
	CHECK_EQ(uthread_rwlock_rdlock(&lock), EAGAIN);
	CHECK_EQ(uthread_rwlock_tryrdlock(&lock), EAGAIN);
	CHECK_EQ(uthread_rwlock_timedrdlock(&lock, &past), EAGAIN);
	CHECK_EQ(another(tries_to_read), EAGAIN);
	CHECK_EQ(uthread_rwlock_trywrlock(&lock), EBUSY);
	CHECK_EQ(uthread_rwlock_unlock(&lock), 0);
	CHECK_EQ(uthread_rwlock_rdlock(&lock), 0);
}

/* ---- deadlines ---- */

static void *meets_deadlines(void *arg)
{
	struct timespec bad[] = { { 1, -1 }, { 1, 1000000000 } }, t;
	struct timespec past[] = { { 0, 0 }, { -5, 999999999 }, { 1, 5 } };

	for (int i = 0; i < 2; i++) {
		CHECK_EQ(uthread_rwlock_timedrdlock(&lock, &bad[i]), EINVAL);
		CHECK_EQ(uthread_rwlock_timedwrlock(&lock, &bad[i]), EINVAL);
	}
	for (int i = 0; i < 3; i++) {
		CHECK_EQ(uthread_rwlock_timedrdlock(&lock, &past[i]),
			 ETIMEDOUT);
		CHECK_EQ(uthread_rwlock_clockwrlock(&lock, CLOCK_REALTIME,
						    &past[i]),
			 ETIMEDOUT);
	}
	CHECK_EQ(uthread_rwlock_clockrdlock(&lock, CLOCK_BOOTTIME, &past[0]),
		 EINVAL);
	CHECK_EQ(uthread_rwlock_clockwrlock(&lock, CLOCK_THREAD_CPUTIME_ID,
					    &past[0]),
		 EINVAL);
	t = test_in(2 * MS);
	CHECK_EQ(uthread_rwlock_timedwrlock(&lock, &t), ETIMEDOUT);
	CHECK(test_now() >=
	      (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec);
	clock_gettime(CLOCK_REALTIME, &t);
	CHECK_EQ(uthread_rwlock_clockrdlock(&lock, CLOCK_REALTIME, &t),
		 ETIMEDOUT);
	return arg;
}

TEST(deadlines_pass)
{
	struct timespec bad = { 1, -1 };

	/* Of no interest where nobody waits. */
	CHECK_EQ(uthread_rwlock_timedrdlock(&lock, &bad), 0);
	CHECK_EQ(uthread_rwlock_unlock(&lock), 0);
	CHECK_EQ(uthread_rwlock_clockwrlock(&lock, CLOCK_BOOTTIME, &bad), 0);
	in_uthread(meets_deadlines, NULL);
	in_pthread(meets_deadlines, NULL);
	CHECK_EQ(uthread_rwlock_unlock(&lock), 0);
	CHECK_EQ(lock._state, 0);
}

static void *wants_to_write(void *arg)
{
	struct timespec t = test_in(20 * MS);

	CHECK_EQ(uthread_rwlock_timedwrlock(&lock, &t), ETIMEDOUT);
	return arg;
}

static void *reads_once(void *arg)
{
	CHECK_EQ(uthread_rwlock_rdlock(&lock), 0);
	CHECK_EQ(uthread_rwlock_unlock(&lock), 0);
	return arg;
}

/* It does not end where they go on waiting for the one that gave up. */
TEST(readers_behind_a_writer_that_gives_up_go_on)
{
	uthread_t w, r[3];

	start_workers(2);
	CHECK_EQ(uthread_rwlock_rdlock(&lock), 0);
	w = spawn(wants_to_write, NULL);
	for (int i = 0; i < 3; i++)
		r[i] = spawn(reads_once, NULL);
	for (int i = 0; i < 3; i++)
		joined(r[i]);
	joined(w);
	CHECK_EQ(uthread_rwlock_unlock(&lock), 0);
	CHECK_EQ(uthread_rwlock_destroy(&lock), 0);
}

/* ---- order ---- */

static int stop, inside, most, turn, order[8];

static void *queues_to_read(void *arg)
{
	int now;

	CHECK_EQ(uthread_rwlock_rdlock(&lock), 0);
	now = add(&inside, 1);
	for (int seen = load(&most); seen < now;) {
		if (__atomic_compare_exchange_n(&most, &seen, now, 0,
						__ATOMIC_SEQ_CST,
						__ATOMIC_SEQ_CST))
			break;
	}
	order[(intptr_t)arg] = add(&turn, 1);
	while (!load(&stop)) /* all that may be inside are */
		uthread_yield();
	add(&inside, -1);
	CHECK_EQ(uthread_rwlock_unlock(&lock), 0);
	return NULL;
}

static void *queues_to_write(void *arg)
{
	CHECK_EQ(uthread_rwlock_wrlock(&lock), 0);
	CHECK_EQ(load(&inside), 0);
	order[(intptr_t)arg] = add(&turn, 1);
	store(&stop, 1);
	CHECK_EQ(uthread_rwlock_unlock(&lock), 0);
	return NULL;
}

/* Reader, writer, reader, reader, in that order behind a writer. */
static void *queue_of_four(void *arg)
{
	uthread_t t[4];
	uint64_t then;

	(void)arg;
	CHECK_EQ(uthread_rwlock_wrlock(&lock), 0);
	stop = inside = most = turn = 0;
	memset(order, 0, sizeof(order));
	for (intptr_t i = 0; i < 4; i++) {
		then = parks();
		t[i] = spawn(i == 1 ? queues_to_write : queues_to_read,
			     (void *)i);
		while (parks() == then)
			uthread_yield();
	}
	CHECK_EQ(uthread_rwlock_destroy(&lock), EBUSY);
	CHECK_EQ(uthread_rwlock_unlock(&lock), 0);
	while (!load(&order[0]) && !load(&order[1]) && !load(&order[2]) &&
	       !load(&order[3])) /* one is inside */
		uthread_yield();
	if (load(&order[1])) {
		store(&stop, 1);
	} else if (lock._kind == UTHREAD_RWLOCK_PREFER_READER) {
		while (load(&inside) < 3)
			uthread_yield();
		store(&stop, 1);
	} else {
		/* The writer is next, so only the first can be inside. */
		for (int i = 0; i < 100; i++)
			uthread_yield();
		CHECK_EQ(load(&inside), 1);
		store(&stop, 1);
	}
	for (int i = 0; i < 4; i++)
		joined(t[i]);
	return NULL;
}

TEST(fair_is_in_order)
{
	start_workers(1);
	in_uthread(queue_of_four, NULL);
	CHECK_EQ(order[0], 1);
	CHECK_EQ(order[1], 2);
}

TEST(readers_first)
{
	start_workers(1);
	of_kind(UTHREAD_RWLOCK_PREFER_READER);
	in_uthread(queue_of_four, NULL);
	CHECK_EQ(order[1], 4);
	CHECK_EQ(most, 3);
}

TEST(writers_first)
{
	start_workers(1);
	of_kind(UTHREAD_RWLOCK_PREFER_WRITER);
	in_uthread(queue_of_four, NULL);
	CHECK_EQ(order[1], 1);
}

static void *writes_once(void *arg)
{
	CHECK_EQ(uthread_rwlock_wrlock(&lock), 0);
	CHECK_EQ(uthread_rwlock_unlock(&lock), 0);
	return arg;
}

/* A new reader beside a writer that waits. */
static void late_reader(void)
{
	const uint64_t then = parks();
	uthread_t w;

	CHECK_EQ(uthread_rwlock_rdlock(&lock), 0);
	w = spawn(writes_once, NULL);
	until_parked(then, 1);
	CHECK_EQ(another(tries_to_read),
		 lock._kind == UTHREAD_RWLOCK_PREFER_READER ? 0 : EBUSY);
	/* Once more by who has it already is never in its own way. */
	CHECK_EQ(uthread_rwlock_rdlock(&lock), 0);
	CHECK_EQ(uthread_rwlock_tryrdlock(&lock), 0);
	for (int i = 0; i < 3; i++)
		CHECK_EQ(uthread_rwlock_unlock(&lock), 0);
	joined(w);
}

TEST(late_readers_queue_but_for_recursion)
{
	start_workers(2);
	for_kinds(late_reader);
}

static int written;

static void *reads_on(void *arg)
{
	while (!load(&written)) {
		CHECK_EQ(uthread_rwlock_rdlock(&lock), 0);
		uthread_yield();
		CHECK_EQ(uthread_rwlock_rdlock(&lock), 0);
		uthread_yield();
		CHECK_EQ(uthread_rwlock_unlock(&lock), 0);
		CHECK_EQ(uthread_rwlock_unlock(&lock), 0);
	}
	return arg;
}

static void *writes_at_last(void *arg)
{
	for (int i = 0; i < SCALE(200); i++)
		writes_once(NULL);
	store(&written, 1);
	return arg;
}

/* There is always somebody inside: it does not end where writers starve. */
static void many_readers(void)
{
	uthread_t r[8], w;

	store(&written, 0);
	for (int i = 0; i < 8; i++)
		r[i] = spawn(reads_on, NULL);
	w = spawn(writes_at_last, NULL);
	joined(w);
	for (int i = 0; i < 8; i++)
		joined(r[i]);
}

TEST(writers_do_not_starve)
{
	start_workers(2);
	of_kind(UTHREAD_RWLOCK_FAIR);
	many_readers();
	of_kind(UTHREAD_RWLOCK_PREFER_WRITER);
	many_readers();
}

static void *writes_on(void *arg)
{
	while (!load(&written)) {
		CHECK_EQ(uthread_rwlock_wrlock(&lock), 0);
		uthread_yield();
		CHECK_EQ(uthread_rwlock_unlock(&lock), 0);
	}
	return arg;
}

static void *reads_at_last(void *arg)
{
	for (int i = 0; i < SCALE(200); i++)
		reads_once(NULL);
	store(&written, 1);
	return arg;
}

static void many_writers(void)
{
	uthread_t w[8], r;

	store(&written, 0);
	for (int i = 0; i < 8; i++)
		w[i] = spawn(writes_on, NULL);
	r = spawn(reads_at_last, NULL);
	joined(r);
	for (int i = 0; i < 8; i++)
		joined(w[i]);
}

TEST(readers_do_not_starve)
{
	start_workers(2);
	of_kind(UTHREAD_RWLOCK_FAIR);
	many_writers();
	of_kind(UTHREAD_RWLOCK_PREFER_READER);
	many_writers();
}

/* ---- lifetimes ---- */

struct shared {
	uthread_rwlock_t lock;
	int users;
};

static void *last_one_frees(void *arg)
{
	struct shared *s = (struct shared *)arg;
	int left;

	CHECK_EQ(uthread_rwlock_rdlock(&s->lock), 0);
	CHECK_EQ(uthread_rwlock_unlock(&s->lock), 0);
	CHECK_EQ(uthread_rwlock_wrlock(&s->lock), 0);
	left = --s->users;
	CHECK_EQ(uthread_rwlock_unlock(&s->lock), 0);
	if (left)
		return NULL;
	CHECK_EQ(uthread_rwlock_destroy(&s->lock), 0);
	memset(s, 0xa5, sizeof(*s));
	free(s);
	return NULL;
}

TEST(the_last_to_unlock_destroys_it)
{
	start_workers(4);
	for (int i = 0; i < SCALE(300); i++) {
		struct shared *s = (struct shared *)calloc(1, sizeof(*s));

		s->users = 9;
		crowd(6, 3, last_one_frees, s);
	}
}

static void *ends_with_a_lock(void *arg)
{
	CHECK_EQ(uthread_rwlock_rdlock(&lock), 0);
	return arg;
}

static void *reads_two(void *arg)
{
	/* A count that is not its own would have it overtake. */
	CHECK_EQ(uthread_rwlock_tryrdlock(&lock), EBUSY);
	return arg;
}

/* It stays locked, and what comes later in its slot knows nothing of it. */
TEST(ends_with_a_read_lock)
{
	struct timespec t = test_in(5 * MS);
	uint64_t then;
	uthread_t w;

	start_workers(1);
	in_uthread(ends_with_a_lock, NULL);
	CHECK_EQ(uthread_rwlock_timedwrlock(&lock, &t), ETIMEDOUT);
	then = parks();
	w = spawn(writes_once, NULL);
	until_parked(then, 1);
	in_uthread(reads_two, NULL);
	CHECK_EQ(uthread_rwlock_unlock(&lock), 0); /* anybody may */
	joined(w);
	CHECK_EQ(uthread_rwlock_destroy(&lock), 0);
}

TEST_MAIN()
