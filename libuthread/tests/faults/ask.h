/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ask.h - asking the runtime for something that may be refused, and again.
 *
 * Whatever fails, the one who asks must get the error number that the header
 * names, and errno stays as it was.
 */
#ifndef UTHREAD_TEST_ASK_H
#define UTHREAD_TEST_ASK_H

/* Each of hundreds of runs has a limit of its own (TIME_S); how long they take
 * together is a matter of the machine. */
#define TEST_TIMEOUT_S 3600

#include <pthread.h>

/* The test's own never fail. */
int libc_pthread_create(pthread_t *t, const pthread_attr_t *attr,
			void *(*fn)(void *), void *arg);
#define pthread_create libc_pthread_create

#include "coroutine.h"
#include "every.h"

#define TRIES 4
/* AddressSanitizer knows nothing of ticks. */
#define TICK (TEST_ASAN ? 0 : TEST_EMULATED ? MS : UTHREAD_TICK_MIN)

#define ERRNO 77 /* what functions of the library leave as it was */
#define QUIET(call)                                         \
	({                                                  \
		int err_;                                   \
		errno = ERRNO;                              \
		err_ = (call);                              \
		CHECK(errno == ERRNO || errno_is_shared()); \
		err_;                                       \
	})

static inline bool errno_is_shared(void)
{
	enum uthread_tls mode;

	return uthread_self() && !uthread_gettls(uthread_self(), &mode) &&
	       mode == UTHREAD_TLS_SHARED;
}

/* One failure is over at the next try; only one that stays may stop us. */
static inline bool hopeless(void)
{
	CHECK(shared->f.on);
	return false;
}

static inline bool create(uthread_t *t, const uthread_attr_t *a,
			  void *(*fn)(void *), void *arg)
{
	int i, err;

	for (i = 0; i < TRIES; i++) {
		err = QUIET(uthread_create(t, a, fn, arg));
		if (!err)
			return true;
		CHECK_EQ(err, EAGAIN);
	}
	return hopeless();
}

static inline bool start(struct uthread_config *c)
{
	int i, err;

	c->size = sizeof(*c);
	for (i = 0; i < TRIES; i++) {
		err = QUIET(uthread_init(c));
		if (!err)
			return true;
		/* EINVAL: sigaction() refuses the tick's signal. */
		CHECK(err == EAGAIN || err == EINVAL);
		CHECK(err == EAGAIN || !strcmp(shared->f.kind, "sigaction"));
	}
	return hopeless();
}

static inline uthread_attr_t attr(enum uthread_tls tls, int worker)
{
	uthread_attr_t a;

	CHECK_EQ(uthread_attr_init(&a), 0);
	/* A libc that is not what we know: own TLS is off for good. */
	if (tls != UTHREAD_TLS_OWN || !*uthread_tls_reason())
		CHECK_EQ(uthread_attr_settls(&a, tls), 0);
	CHECK_EQ(uthread_attr_setworker(&a, worker), 0);
	return a;
}

static inline void join(uthread_t t, void *value)
{
	void *v = NULL;

	CHECK_EQ(QUIET(uthread_join(t, &v)), 0);
	CHECK(v == value);
}

/* ---- what uthreads do ---- */

static inline void *add_one(void *arg)
{
	char *p = strdup("text");

	CHECK(p);
	free(p);
	add((int *)arg, 1);
	return arg;
}

static inline void one_of_each(void)
{
	static int ran;
	enum uthread_tls tls;
	uthread_attr_t a;
	uthread_t t;
	int n = 0;

	for (tls = UTHREAD_TLS_DEFAULT; tls <= UTHREAD_TLS_SHARED; tls++) {
		a = attr(tls, UTHREAD_WORKER_ANY);
		if (!create(&t, &a, add_one, &ran))
			continue;
		join(t, &ran);
		n++;
	}
	CHECK_EQ(load(&ran), n);
}

static int stop;

static inline void *busy(void *arg)
{
	while (!load(&stop))
		;
	return arg;
}

static uthread_sem_t go = UTHREAD_SEM_INITIALIZER(0);

static inline void *parked(void *arg)
{
	CHECK_EQ(uthread_sem_wait(&go), 0);
	return arg;
}

/* As a coroutine. */
static inline void co_fn(void *arg)
{
	add((int *)arg, 1);
	CHECK_EQ(coroutine_yield(), 0);
	add((int *)arg, 1);
}

static inline void need_ticks(void)
{
	if (!TICK)
		SKIP("no ticks under AddressSanitizer");
}

#endif
