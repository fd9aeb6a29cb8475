/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libc.c - glibc's own functions, and what has to be known of this glibc, found
 * once; and how libuthread calls what is defined in this room.
 */
#include "libc.h"

#include <dlfcn.h>
#include <gnu/lib-names.h>
#include <string.h>
#include <stdio.h>
#include <stdlib.h>

struct libc libc_is;

/* Of what a shared condition, or one by CLOCK_MONOTONIC, has in its words that a
 * fresh one has not. */
static void find_cond(struct libc *l)
{
	pthread_condattr_t attr;
	union {
		pthread_cond_t cond;
		uint32_t words[sizeof(pthread_cond_t) / sizeof(uint32_t)];
	} shared, monotonic;
	size_t i;

	memset(&shared, 0, sizeof(shared));
	memset(&monotonic, 0, sizeof(monotonic));
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&monotonic.cond, &attr);
	pthread_condattr_setclock(&attr, CLOCK_REALTIME);
	pthread_condattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	pthread_cond_init(&shared.cond, &attr);
	pthread_condattr_destroy(&attr);
	for (i = 0; i < sizeof(shared.words) / sizeof(shared.words[0]); i++) {
		if (!shared.words[i])
			continue;
		l->cond_flags_at = i;
		l->cond_shared = shared.words[i];
		l->cond_monotonic = monotonic.words[i];
	}
}

/* What runs in the parent's threads does not run in the child. */
static void forked(void)
{
	libc_is.once_generation += 4;
	libc_is.forker = pthread_self();
	clock_forked();
	cond_forked();
	names_forked();
	nice_forked();
	cpus_forked();
	libc_is.process = getpid();
}

void libc_find(void)
{
	static uint32_t state; /* 1: somebody is at it, or inside of it */
	struct libc *l = &libc_is;
	const uint32_t *field;
	uint32_t none = 0;

	if (!cas(&state, &none, 1))
		return; /* before there are threads: by what is called below */
#define F(name)       \
	if (!l->name) \
		*(void **)&l->name = dlsym(RTLD_NEXT, #name);
	LIBC_NAMES(F)
#undef F
#define F(name) *(void **)&l->own.name = dlsym(RTLD_NEXT, #name);
	OWN_NAMES(F)
#undef F
	field = dlsym(RTLD_DEFAULT, "_thread_db_pthread_tid");
	if (!field || !l->pthread_join || !l->pthread_mutex_lock) {
		fprintf(stderr,
			"uthread-run: the libc is not a glibc that is known; run the program without libuthread-pthread.so\n");
		_exit(125);
	}
	l->tid_at = field[2];
	l->process = getpid();
	find_cond(l);
	__atomic_store_n(&l->ready, 1, __ATOMIC_RELEASE);
	pthread_atfork(NULL, NULL, forked);
}

/* Of libc alone; where that is not to be had, of what comes next, as until now. Not at the first
 * call of all, for dlopen() takes memory, and the first may come from a malloc() of the program's
 * that has yet to make itself ready. */
void libc_find_own(void)
{
	static uint32_t found;
	struct libc *l = libc();
	uint32_t no = 0;
	void *handle, *own;

	if (!cas(&found, &no, 1))
		return;
	handle = dlopen(LIBC_SO, RTLD_LAZY | RTLD_NOLOAD);
#define F(name)                                     \
	own = handle ? dlsym(handle, #name) : NULL; \
	if (own)                                    \
		*(void **)&l->own.name = own;
	OWN_NAMES(F)
#undef F
	l->other_time = l->own.clock_gettime != l->clock_gettime;
}

__attribute__((constructor(101))) static void find_at_start(void)
{
	libc_find_own();
}

/* ---- as libuthread calls them ---- */

#define CORE(type, name, params, args)  \
	HIDDEN type core_##name params; \
	HIDDEN type core_##name params  \
	{                               \
		return LIBC(name) args; \
	}

CORE(int, pthread_join, (pthread_t t, void **v), (t, v))
CORE(int, pthread_detach, (pthread_t t), (t))
CORE(int, pthread_setcancelstate, (int s, int *o), (s, o))
CORE(int, pthread_setcanceltype, (int s, int *o), (s, o))
CORE(int, pthread_setname_np, (pthread_t t, const char *n), (t, n))
CORE(int, pthread_setaffinity_np, (pthread_t t, size_t n, const cpu_set_t *s),
     (t, n, s))
CORE(int, pthread_mutex_lock, (pthread_mutex_t * m), (m))
CORE(int, pthread_mutex_trylock, (pthread_mutex_t * m), (m))
CORE(int, pthread_mutex_unlock, (pthread_mutex_t * m), (m))
CORE(int, pthread_once, (pthread_once_t * o, void (*f)(void)), (o, f))
CORE(int, sched_yield, (void), ())
CORE(int, sched_getaffinity, (pid_t p, size_t n, cpu_set_t *s), (p, n, s))
CORE(int, sched_setaffinity, (pid_t p, size_t n, const cpu_set_t *s), (p, n, s))
CORE(int, timer_create, (clockid_t c, struct sigevent *e, timer_t *t),
     (c, e, t))
CORE(int, timer_delete, (timer_t t), (t))
CORE(pid_t, wait4, (pid_t p, int *s, int o, struct rusage *r), (p, s, o, r))
CORE(int, waitid, (idtype_t t, id_t i, siginfo_t *s, int o), (t, i, s, o))
CORE(int, fsync, (int f), (f))
CORE(int, fdatasync, (int f), (f))
CORE(int, getaddrinfo,
     (const char *n, const char *s, const struct addrinfo *h,
      struct addrinfo **f),
     (n, s, h, f))

#define OWN(type, name, params, args)       \
	HIDDEN type core_##name params;     \
	HIDDEN type core_##name params      \
	{                                   \
		return LIBC(own.name) args; \
	}

OWN(int, clock_gettime, (clockid_t c, struct timespec *t), (c, t))
OWN(int, timer_settime,
    (timer_t t, int f, const struct itimerspec *n, struct itimerspec *o),
    (t, f, n, o))

HIDDEN pid_t core_waitpid(pid_t pid, int *status, int options);
HIDDEN pid_t core_waitpid(pid_t pid, int *status, int options)
{
	return core_wait4(pid, status, options, NULL);
}
