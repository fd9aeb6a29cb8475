// SPDX-License-Identifier: Apache-2.0
/*
 * test_rwlock_storm.c - a reader-writer lock of many, in every way it can be
 * asked for: nobody sees a writer's work half done.
 */
#include "rwlock_util.h"

static struct {
	uint64_t a, b;
} pair;

static uint64_t wrote;

static void *reads_and_writes(void *arg)
{
	uint64_t rng = (uintptr_t)&rng | 1;
	struct timespec t;
	int err;

	for (int i = 0; i < SCALE(2000); i++) {
		uint64_t what = test_random(&rng) >> 60;

		t = test_in(test_random(&rng) >> 46); /* up to 262 us */
		if (what < 2) {
			err = uthread_rwlock_wrlock(&lock);
		} else if (what < 4) {
			err = uthread_rwlock_timedwrlock(&lock, &t);
		} else if (what == 4) {
			clock_gettime(CLOCK_REALTIME, &t);
			err = uthread_rwlock_clockwrlock(&lock, CLOCK_REALTIME,
							 &t);
		} else if (what == 5) {
			err = uthread_rwlock_trywrlock(&lock);
		} else {
			err = what < 10 ? uthread_rwlock_rdlock(&lock) :
			      what == 10 ?
					  uthread_rwlock_tryrdlock(&lock) :
					  uthread_rwlock_timedrdlock(&lock, &t);
			CHECK(!err || err == ETIMEDOUT || err == EBUSY);
			if (!err) {
				CHECK_EQ(pair.a, pair.b);
				if (what == 6)
					CHECK_EQ(uthread_rwlock_rdlock(&lock),
						 0);
				uthread_yield();
				CHECK_EQ(pair.a, pair.b);
				if (what == 6)
					CHECK_EQ(uthread_rwlock_unlock(&lock),
						 0);
				CHECK_EQ(uthread_rwlock_unlock(&lock), 0);
			}
			continue;
		}
		CHECK(!err || err == ETIMEDOUT || err == EBUSY);
		if (err)
			continue;
		pair.a++;
		if (what & 1)
			uthread_yield();
		pair.b++;
		add(&wrote, 1);
		CHECK_EQ(uthread_rwlock_unlock(&lock), 0);
	}
	return arg;
}

static void crowded(void)
{
	pair.a = pair.b = wrote = 0;
	crowd(12, 3, reads_and_writes, NULL);
	CHECK_EQ(pair.a, wrote);
	CHECK_EQ(lock._state, 0);
}

TEST(uthreads_and_pthreads_together)
{
	start_workers(3);
	for_kinds(crowded);
}

TEST(the_same_under_quick_ticks)
{
	start_with_quick_ticks();
	for_kinds(crowded);
}

TEST(the_same_with_shared_TLS)
{
	start_with_shared_tls();
	for_kinds(crowded);
}

TEST_MAIN()
