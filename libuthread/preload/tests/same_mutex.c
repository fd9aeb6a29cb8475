/* SPDX-License-Identifier: Apache-2.0 */
/* same_mutex.c - mutexes of every type, protocol and kind: errors, and what is in them. */
#include "same.h"

static pthread_mutex_t mutex;
static int type, protocol, robust;

static void say_words(void)
{
	SAY((mutex.__data.__lock & 0x3fffffff) != 0);
	SAY(mutex.__data.__owner == 0);
	SAY(mutex.__data.__owner == gettid());
	SAY(mutex.__data.__nusers);
	/* One that inherits has words of its own in glibc. */
	if (protocol == PTHREAD_PRIO_NONE) {
		SAY(mutex.__data.__count);
		SAY(mutex.__data.__kind);
	}
}

static void *is_held(void *arg)
{
	struct timespec t = soon(CLOCK_REALTIME);

	SAY(pthread_mutex_trylock(&mutex));
	SAY(pthread_mutex_timedlock(&mutex, &t));
	t = soon(CLOCK_MONOTONIC);
	SAY(pthread_mutex_clocklock(&mutex, CLOCK_MONOTONIC, &t));
	SAY(pthread_mutex_clocklock(&mutex, CLOCK_BOOTTIME, &t));
	SAY(pthread_mutex_clocklock(&mutex, -1, &t));
	SAY(pthread_mutex_timedlock(&mutex, &negative));
	SAY(pthread_mutex_timedlock(&mutex, &too_many));
	SAY(pthread_mutex_timedlock(&mutex, &past));
	return arg;
}

static void *unlocks(void *arg)
{
	SAY(pthread_mutex_unlock(&mutex));
	return arg;
}

static void *ends_with_it(void *arg)
{
	SAY(pthread_mutex_lock(&mutex));
	return arg;
}

/* Is it found out who has it? */
static bool knows_owner(void)
{
	return type == PTHREAD_MUTEX_ERRORCHECK ||
	       type == PTHREAD_MUTEX_RECURSIVE ||
	       robust == PTHREAD_MUTEX_ROBUST;
}

static void dies(void)
{
	struct timespec t;

	by_thread(ends_with_it, NULL);
	SAY(pthread_mutex_trylock(&mutex));
	say_words();
	SAY(pthread_mutex_consistent(&mutex));
	SAY(pthread_mutex_consistent(&mutex));
	SAY(pthread_mutex_unlock(&mutex));
	say_words();
	by_thread(ends_with_it, NULL);
	SAY(pthread_mutex_lock(&mutex));
	SAY(pthread_mutex_unlock(&mutex));
	say_words();
	SAY(pthread_mutex_lock(&mutex));
	SAY(pthread_mutex_trylock(&mutex));
	t = soon(CLOCK_REALTIME);
	SAY(pthread_mutex_timedlock(&mutex, &t));
	SAY(pthread_mutex_unlock(&mutex));
	SAY(pthread_mutex_consistent(&mutex));
}

static void is_destroyed(void)
{
	struct timespec t = soon(CLOCK_REALTIME);
	int ceiling;

	SAY(pthread_mutex_getprioceiling(&mutex, &ceiling));
	SAY(pthread_mutex_setprioceiling(&mutex, 5, &ceiling));
	SAY(pthread_mutex_destroy(&mutex));
	say_words();
	SAY(pthread_mutex_lock(&mutex));
	SAY(pthread_mutex_trylock(&mutex));
	SAY(pthread_mutex_timedlock(&mutex, &t));
	SAY(pthread_mutex_unlock(&mutex));
	SAY(pthread_mutex_destroy(&mutex));
}

static void use(void)
{
	struct timespec t;
	int n = 1;

	SAY(pthread_mutex_lock(&mutex));
	say_words();
	SAY(pthread_mutex_trylock(&mutex));
	if (type == PTHREAD_MUTEX_ERRORCHECK || type == PTHREAD_MUTEX_RECURSIVE)
		SAY(pthread_mutex_lock(&mutex));
	/* The kernel, of one that inherits, says EDEADLK whatever its type. */
	t = soon(CLOCK_REALTIME);
	if (protocol == PTHREAD_PRIO_NONE || type == PTHREAD_MUTEX_RECURSIVE)
		SAY(pthread_mutex_timedlock(&mutex, &t));
	say_words();
	by_thread(is_held, NULL);
	if (knows_owner())
		by_thread(unlocks, NULL);
	SAY(pthread_mutex_destroy(&mutex));
	say_words();
	if (type == PTHREAD_MUTEX_RECURSIVE)
		n = (int)mutex.__data.__count;
	while (n--)
		SAY(pthread_mutex_unlock(&mutex));
	say_words();
	if (knows_owner()) {
		SAY(pthread_mutex_unlock(&mutex));
		by_thread(unlocks, NULL);
	}
	SAY(pthread_mutex_timedlock(&mutex, &past));
	say_words();
	SAY(pthread_mutex_unlock(&mutex));
	SAY(pthread_mutex_timedlock(&mutex, &negative));
	SAY(pthread_mutex_unlock(&mutex));
	SAY(pthread_mutex_consistent(&mutex));
	if (robust == PTHREAD_MUTEX_ROBUST)
		dies();
	else
		is_destroyed();
}

static void *all(void *arg)
{
	pthread_mutexattr_t attr;
	int shared;

	for (type = 0; type < 4; type++)
		for (robust = 0; robust < 2; robust++)
			for (protocol = 0; protocol < 2; protocol++)
				for (shared = 0; shared < 2; shared++) {
					/* Made without inheritance here, whose
					 * EDEADLK is lost. */
					if (protocol && (robust || shared))
						continue;
					TITLE("type %d robust %d protocol %d shared %d",
					      type, robust, protocol, shared);
					pthread_mutexattr_init(&attr);
					pthread_mutexattr_settype(&attr, type);
					pthread_mutexattr_setrobust(&attr,
								    robust);
					pthread_mutexattr_setprotocol(&attr,
								      protocol);
					pthread_mutexattr_setpshared(&attr,
								     shared);
					SAY(pthread_mutex_init(&mutex, &attr));
					use();
				}
	return arg;
}

/* A thread whose policy has no priorities cannot be raised to one. That glibc says so
 * once for each ceiling, and then lets it have the mutex, is not asked. */
static void *has_ceiling(void *arg)
{
	pthread_mutexattr_t attr;
	int ceiling = 0;

	pthread_mutexattr_init(&attr);
	SAY(pthread_mutexattr_setprotocol(&attr, PTHREAD_PRIO_PROTECT));
	SAY(pthread_mutexattr_setprioceiling(&attr, 0));
	SAY(pthread_mutexattr_setprioceiling(&attr, 100));
	SAY(pthread_mutexattr_setprioceiling(&attr, 10));
	SAY(pthread_mutex_init(&mutex, &attr));
	SAY(pthread_mutex_getprioceiling(&mutex, &ceiling));
	SAY(ceiling);
	if (arg)
		SAY(pthread_mutex_trylock(&mutex));
	else
		SAY(pthread_mutex_lock(&mutex));
	SAY(pthread_mutex_setprioceiling(&mutex, 20, &ceiling));
	SAY(pthread_mutex_setprioceiling(&mutex, 100, &ceiling));
	SAY(pthread_mutex_getprioceiling(&mutex, &ceiling));
	SAY(ceiling);
	SAY(pthread_mutex_destroy(&mutex));
	return NULL;
}

static void overflows(void)
{
	pthread_mutex_t m = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;

	m.__data.__lock = 1;
	m.__data.__owner = gettid();
	m.__data.__count = ~0u;
	SAY(pthread_mutex_lock(&m));
	SAY(pthread_mutex_trylock(&m));
	SAY(pthread_mutex_timedlock(&m, &past));
}

int main(void)
{
	static pthread_mutex_t zeroed;

	all(NULL);
	by_thread(all, NULL);
	by_thread(has_ceiling, NULL);
	by_thread(has_ceiling, &mutex);
	by_thread(has_ceiling, NULL);
	SAY(pthread_mutex_lock(&zeroed));
	SAY(pthread_mutex_destroy(&zeroed));
	SAY(pthread_mutex_unlock(&zeroed));
	SAY(pthread_mutex_destroy(&zeroed));
	overflows();
	return 0;
}
