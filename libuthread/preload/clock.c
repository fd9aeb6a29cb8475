/* SPDX-License-Identifier: Apache-2.0 */
/*
 * clock.c - the CPU time of a thread: pthread_getcpuclockid(), and what is asked of that
 * clock. glibc makes a clock's number of the kernel's number of the thread; a uthread's
 * time is measured by the runtime (uthread_getcpuclock()), from when it is first asked
 * for on.
 *
 * The number of a uthread's clock is as the kernel's would be for a thread FIRST or
 * above, of which it has none: a place in a table. Places are given under a lock, and
 * again when their thread is gone; they are read without, for clock_gettime() may be
 * called in a handler: who reads while one is given reads of nobody (ESRCH), for thread
 * and id do not match. Chunks are never freed.
 *
 * CLOCK_THREAD_CPUTIME_ID is the same clock; main's is its kernel thread's. getrusage()
 * tells its time, too: that of the kernel thread is all its uthreads', and less than before
 * when another worker runs who asks.
 */
#include <limits.h>
#include <stdlib.h>

#include "libc.h"

#include "uthread/control.h"

#define NS_PER_S 1000000000l

#define FIRST (1u << 23) /* the kernel's end at 2^22 */
#define CHUNK 1024
#define CHUNKS 1024
#define LOOKS 8 /* for a place that is free again */

static struct {
	pthread_mutex_t lock;
	uthread_clock_t *chunks[CHUNKS]; /* atomic */
	uint32_t count; /* atomic: places given */
	uint32_t hand;
} table LARGE = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* The thread's place and one more; 0: none yet. */
static __thread uint32_t place_of_mine
	__attribute__((tls_model("initial-exec")));

static uthread_clock_t *place(uint32_t i)
{
	return __atomic_load_n(&table.chunks[i / CHUNK], __ATOMIC_ACQUIRE) +
	       i % CHUNK;
}

void clock_forked(void)
{
	table.lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
}

/* ---- its number ---- */

static bool is_free(uint32_t i)
{
	struct timespec t;

	return uthread_clock_gettime(*place(i), &t) == ESRCH;
}

/* With the lock. False: there is no memory, or a million clocks are read. */
static bool find_place(uint32_t *found)
{
	uthread_clock_t *chunk;
	uint32_t n = table.count, i;

	for (i = 0; i < LOOKS && n; i++) {
		table.hand = (table.hand + 1) % n;
		if (is_free(table.hand)) {
			*found = table.hand;
			return true;
		}
	}
	if (n == CHUNK * CHUNKS)
		return false;
	if (n % CHUNK == 0 && !table.chunks[n / CHUNK]) {
		chunk = calloc(CHUNK, sizeof(*chunk));
		if (!chunk)
			return false;
		__atomic_store_n(&table.chunks[n / CHUNK], chunk,
				 __ATOMIC_RELEASE);
	}
	*found = n;
	__atomic_store_n(&table.count, n + 1, __ATOMIC_RELEASE);
	return true;
}

static bool give_place(uint32_t *mine, uthread_clock_t clock)
{
	uint32_t i;
	bool found;

	pthread_mutex_lock(&table.lock);
	found = *mine || find_place(&i);
	if (found && !*mine) {
		*place(i) = clock;
		__atomic_store_n(mine, i + 1, __ATOMIC_RELAXED);
	}
	pthread_mutex_unlock(&table.lock);
	return found;
}

EXPORT int pthread_getcpuclockid(pthread_t thread, clockid_t *id)
{
	uthread_t ut = other_than_main(thread);
	uthread_clock_t clock;
	uint32_t *mine;
	int err;

	if (!ut)
		return LIBC(pthread_getcpuclockid)(thread, id);
	err = uthread_getcpuclock(ut, &clock);
	if (err)
		return err;
	mine = in_thread(thread, &place_of_mine);
	if (!__atomic_load_n(mine, __ATOMIC_RELAXED) &&
	    !give_place(mine, clock))
		return ENOENT;
	*id = (clockid_t)(~(FIRST + *mine - 1) << 3 | 6);
	return 0;
}

/* ---- what it says ---- */

/* False: it is none of ours. */
static bool find_clock(clockid_t id, uthread_clock_t *clock)
{
	const uint32_t i = (~(uint32_t)id >> 3) - FIRST;

	if (((uint32_t)id & 7) != 6 ||
	    i >= __atomic_load_n(&table.count, __ATOMIC_ACQUIRE))
		return false;
	*clock = *place(i);
	return true;
}

/* 0; -1: it is none of ours, or not there any more. */
static int read_clock(clockid_t id, struct timespec *t)
{
	uthread_clock_t clock;
	uthread_t self;

	if (id != CLOCK_THREAD_CPUTIME_ID)
		return find_clock(id, &clock) &&
				       !uthread_clock_gettime(clock, t) ?
			       0 :
			       -1;
	self = uthread_self();
	return self && other_than_main(pthread_self()) &&
			       !uthread_getcpuclock(self, &clock) &&
			       !uthread_clock_gettime(clock, t) ?
		       0 :
		       -1;
}

EXPORT int clock_gettime(clockid_t id, struct timespec *t)
{
	if (unlikely(id < 0 || id == CLOCK_THREAD_CPUTIME_ID) &&
	    !read_clock(id, t))
		return 0;
	return LIBC(clock_gettime)(id, t);
}

/* All of it as the user's: nobody knows which part was the kernel's. */
EXPORT int getrusage(__rusage_who_t who, struct rusage *usage)
{
	int err = LIBC(getrusage)(who, usage);
	struct timespec t;

	if (err || who != RUSAGE_THREAD ||
	    read_clock(CLOCK_THREAD_CPUTIME_ID, &t))
		return err;
	usage->ru_stime = (struct timeval){ 0 };
	usage->ru_utime = (struct timeval){ .tv_sec = t.tv_sec,
					    .tv_usec = t.tv_nsec / 1000 };
	return 0;
}

const struct timespec *shifted(clockid_t clock, const struct timespec *deadline,
			       struct timespec *room)
{
	struct timespec told, now;

	/* Never stays never. */
	if (deadline->tv_sec > LONG_MAX / 4)
		return deadline;
	clock_gettime(clock, &told);
	core_clock_gettime(clock, &now);
	room->tv_sec = (deadline->tv_sec < 0 ? 0 : deadline->tv_sec) -
		       told.tv_sec + now.tv_sec;
	room->tv_nsec = deadline->tv_nsec - told.tv_nsec + now.tv_nsec;
	for (; room->tv_nsec < 0; room->tv_nsec += NS_PER_S)
		room->tv_sec--;
	for (; room->tv_nsec >= NS_PER_S; room->tv_nsec -= NS_PER_S)
		room->tv_sec++;
	if (room->tv_sec < 0)
		room->tv_sec = room->tv_nsec = 0;
	return room;
}

EXPORT int clock_getres(clockid_t id, struct timespec *t)
{
	uthread_clock_t clock;

	if (likely(id >= 0) || !find_clock(id, &clock))
		return LIBC(clock_getres)(id, t);
	if (t)
		*t = (struct timespec){ .tv_nsec = 1 };
	return 0;
}

EXPORT int clock_settime(clockid_t id, const struct timespec *t)
{
	uthread_clock_t clock;

	if (likely(id >= 0) || !find_clock(id, &clock))
		return LIBC(clock_settime)(id, t);
	errno = EPERM;
	return -1;
}
