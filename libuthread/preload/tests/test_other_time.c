/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_other_time.c - deadlines are by the clock that the program reads, be it a day before
 * the kernel's (other_time.c): each is kept, none early. And who computes is stopped for
 * others, though what sets timers takes their times for such.
 */
#include <poll.h>
#include <semaphore.h>
#include <stdbool.h>

#include "check.h"

#define MS 30

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER, held;
static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static sem_t sem;
static int done;

static bool is_before(clockid_t clock, const struct timespec *end)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return now.tv_sec < end->tv_sec ||
	       (now.tv_sec == end->tv_sec && now.tv_nsec < end->tv_nsec);
}

/* By the clock that the deadline is of: who is late to wait for it waits less long. */
#define LASTS_UNTIL(end, clock, expression, expected) \
	do {                                          \
		IS(expression, expected);             \
		CHECK(!is_before(clock, &(end)));     \
	} while (0)

#define LASTS(expression, expected)                                       \
	do {                                                              \
		const struct timespec end_ = in_ms(CLOCK_MONOTONIC, MS);  \
		LASTS_UNTIL(end_, CLOCK_MONOTONIC, expression, expected); \
	} while (0)

static void *waits(void *arg)
{
	const clockid_t clocks[] = { CLOCK_REALTIME, CLOCK_MONOTONIC };
	const struct timespec ms = { .tv_nsec = MS * 1000000l };
	struct timespec t;
	int i;

	for (i = 0; i < 2; i++) {
		IS(pthread_mutex_lock(&mutex), 0);
		t = in_ms(clocks[i], MS);
		LASTS_UNTIL(t, clocks[i],
			    pthread_cond_clockwait(&cond, &mutex, clocks[i],
						   &t),
			    ETIMEDOUT);
		IS(pthread_mutex_unlock(&mutex), 0);
		t = in_ms(clocks[i], MS);
		LASTS_UNTIL(t, clocks[i], sem_clockwait(&sem, clocks[i], &t),
			    -1);
		IS(errno, ETIMEDOUT);
		t = in_ms(clocks[i], MS);
		LASTS_UNTIL(t, clocks[i],
			    pthread_mutex_clocklock(&held, clocks[i], &t),
			    ETIMEDOUT);
		t = in_ms(clocks[i], MS);
		LASTS_UNTIL(t, clocks[i],
			    pthread_rwlock_clockrdlock(&lock, clocks[i], &t),
			    ETIMEDOUT);
		t = in_ms(clocks[i], MS);
		LASTS_UNTIL(t, clocks[i],
			    clock_nanosleep(clocks[i], TIMER_ABSTIME, &t, NULL),
			    0);
	}
	LASTS(nanosleep(&ms, NULL), 0);
	LASTS(poll(NULL, 0, MS), 0);
	return arg;
}

static void *locks(void *arg)
{
	IS(pthread_mutex_lock(&held), 0);
	IS(pthread_mutex_unlock(&held), 0);
	return arg;
}

static void *computes(void *arg)
{
	while (!__atomic_load_n(&done, __ATOMIC_RELAXED))
		;
	return arg;
}

static void *ends_that(void *arg)
{
	__atomic_store_n(&done, 1, __ATOMIC_RELAXED);
	return arg;
}

int main(void)
{
	pthread_t t[16], computing[4];
	struct timespec until;
	int i;

	IS(sem_init(&sem, 0, 0), 0);
	IS(pthread_mutex_lock(&held), 0);
	IS(pthread_rwlock_wrlock(&lock), 0);
	for (i = 0; i < 16; i++)
		t[i] = start(waits, NULL);
	for (i = 0; i < 16; i++)
		IS(pthread_join(t[i], NULL), 0);
	t[0] = start(locks, NULL);
	until = in_ms(CLOCK_REALTIME, MS);
	LASTS_UNTIL(until, CLOCK_REALTIME,
		    pthread_timedjoin_np(t[0], NULL, &until), ETIMEDOUT);
	IS(pthread_mutex_unlock(&held), 0);
	IS(pthread_join(t[0], NULL), 0);
	for (i = 0; i < 4; i++)
		computing[i] = start(computes, NULL);
	IS(pthread_join(start(ends_that, NULL), NULL), 0);
	for (i = 0; i < 4; i++)
		IS(pthread_join(computing[i], NULL), 0);
	return 0;
}
