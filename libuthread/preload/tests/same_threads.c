/* SPDX-License-Identifier: Apache-2.0 */
/*
 * same_threads.c - attributes and what comes of them, joining, policies, CPUs and names of
 * threads, settings of cancellation, C11's results.
 */
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/mman.h>
#include <threads.h>

#include "same.h"

/* ---- attributes ---- */

/* Sizes of stacks are told as they are, and left out. */
static void *is_made(void *arg)
{
	struct sched_param param;
	pthread_attr_t attr;
	sigset_t mask;
	size_t bytes;
	void *low;
	int n;

	SAY(pthread_getattr_np(pthread_self(), &attr));
	SAY(pthread_attr_getstack(&attr, &low, &bytes));
	SAY((char *)low <= (char *)&n && (char *)&n < (char *)low + bytes);
	SAY(pthread_attr_getguardsize(&attr, &bytes));
	SAY(bytes);
	SAY(pthread_attr_getdetachstate(&attr, &n));
	SAY(n);
	SAY(pthread_attr_getinheritsched(&attr, &n));
	SAY(n);
	SAY(pthread_attr_getscope(&attr, &n));
	SAY(n);
	SAY(pthread_attr_getschedpolicy(&attr, &n));
	SAY(n);
	SAY(pthread_attr_getschedparam(&attr, &param));
	SAY(param.sched_priority);
	SAY(pthread_attr_getsigmask_np(&attr, &mask));
	SAY(pthread_attr_destroy(&attr));
	return arg;
}

static void make(pthread_attr_t *attr)
{
	pthread_t t;
	int err;

	err = pthread_create(&t, attr, is_made, NULL);
	if (!err)
		pthread_join(t, NULL);
	SAY(err);
	pthread_attr_destroy(attr);
	pthread_attr_init(attr);
}

static void test_attr(void)
{
	static const size_t guards[] = { 0, 1, 5000, 1 << 20 };
	static const size_t stacks[] = { 16384, 16385, 100000, 1 << 20,
					 1ul << 30 };
	struct sched_param param = { .sched_priority = 3 };
	pthread_attr_t attr;
	size_t i;
	void *low;

	pthread_attr_init(&attr);
	SAY(pthread_attr_setdetachstate(&attr, 5));
	SAY(pthread_attr_setscope(&attr, PTHREAD_SCOPE_PROCESS));
	SAY(pthread_attr_setinheritsched(&attr, 9));
	SAY(pthread_attr_setschedpolicy(&attr, SCHED_BATCH));
	SAY(pthread_attr_setschedparam(&attr, &param));
	SAY(pthread_attr_setstacksize(&attr, 16383));
	make(&attr);
	for (i = 0; i < sizeof(guards) / sizeof(guards[0]); i++) {
		SAY(pthread_attr_setguardsize(&attr, guards[i]));
		make(&attr);
	}
	for (i = 0; i < sizeof(stacks) / sizeof(stacks[0]); i++) {
		SAY(pthread_attr_setstacksize(&attr, stacks[i]));
		make(&attr);
		low = mmap(NULL, stacks[i] & -4096ul, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		SAY(pthread_attr_setstack(&attr, low, stacks[i] & -4096ul));
		make(&attr);
	}
	/* A guard as large as the stack, and stacks that nobody has. */
	pthread_attr_setstacksize(&attr, 65536);
	pthread_attr_setguardsize(&attr, 65536);
	make(&attr);
	pthread_attr_setstacksize(&attr, 1ul << 62);
	make(&attr);
	pthread_attr_setstacksize(&attr, -1ul);
	make(&attr);
	/* Policies: without a priority, and one that has none. */
	for (i = SCHED_OTHER; i <= SCHED_RR; i++) {
		pthread_attr_setinheritsched(&attr, PTHREAD_EXPLICIT_SCHED);
		SAY(pthread_attr_setschedpolicy(&attr, (int)i));
		make(&attr);
	}
	pthread_attr_setinheritsched(&attr, PTHREAD_EXPLICIT_SCHED);
	pthread_attr_setschedpolicy(&attr, SCHED_FIFO);
	pthread_attr_setschedparam(&attr, &param);
	pthread_attr_setschedpolicy(&attr, SCHED_OTHER);
	make(&attr);
	is_made(NULL);
}

/* ---- joining ---- */

static sem_t up, go;

static void *waits(void *arg)
{
	sem_post(&up);
	while (sem_wait(&go))
		;
	return arg;
}

static pthread_t begin_waiting(void)
{
	pthread_t t = start(waits, &up);

	while (sem_wait(&up))
		;
	return t;
}

/* One that is not joined: who waits next is not to have its unit. */
static void let_go(void)
{
	int units;

	sem_post(&go);
	do {
		sched_yield();
		sem_getvalue(&go, &units);
	} while (units);
}

static void *joins_itself(void *arg)
{
	struct timespec t = soon(CLOCK_REALTIME);

	SAY(pthread_join(pthread_self(), NULL));
	SAY(pthread_tryjoin_np(pthread_self(), NULL));
	SAY(pthread_timedjoin_np(pthread_self(), NULL, &t));
	return arg;
}

static void *detaches_itself(void *arg)
{
	SAY(pthread_detach(pthread_self()));
	SAY(pthread_detach(pthread_self()));
	SAY(pthread_join(pthread_self(), NULL));
	SAY(pthread_tryjoin_np(pthread_self(), NULL));
	sem_post(&up);
	return arg;
}

static void *returns(void *arg)
{
	return arg;
}

static void test_join(void)
{
	struct timespec at = soon(CLOCK_REALTIME);
	pthread_t t = begin_waiting();
	void *value;

	SAY(pthread_join(pthread_self(), NULL));
	SAY(pthread_tryjoin_np(t, &value));
	SAY(pthread_timedjoin_np(t, &value, &at));
	SAY(pthread_timedjoin_np(t, &value, &past));
	SAY(pthread_timedjoin_np(t, &value, &before_1970));
	at = soon(CLOCK_MONOTONIC);
	SAY(pthread_clockjoin_np(t, &value, CLOCK_MONOTONIC, &at));
	SAY(pthread_clockjoin_np(t, &value, CLOCK_BOOTTIME, &at));
	SAY(pthread_clockjoin_np(t, &value, -1, &at));
	SAY(pthread_clockjoin_np(t, &value, CLOCK_BOOTTIME, NULL));
	sem_post(&go);
	SAY(pthread_timedjoin_np(t, &value, NULL));
	SAY(value == &up);
	t = begin_waiting();
	SAY(pthread_detach(t));
	SAY(pthread_detach(t));
	SAY(pthread_join(t, NULL));
	SAY(pthread_tryjoin_np(t, NULL));
	SAY(pthread_timedjoin_np(t, NULL, &past));
	let_go();
	by_thread(joins_itself, NULL);
	start(detaches_itself, NULL);
	while (sem_wait(&up))
		;
	t = start(returns, &go);
	while (pthread_tryjoin_np(t, &value))
		sched_yield();
	SAY(value == &go);
}

/* ---- what is asked of a thread ---- */

static void ask(pthread_t t)
{
	struct sched_param param = { .sched_priority = 0 };
	char name[16];
	cpu_set_t set;
	int policy;

	SAY(pthread_kill(t, 0));
	SAY(pthread_kill(t, 65));
	SAY(pthread_kill(t, -1));
	SAY(pthread_kill(t, 32));
	SAY(pthread_setname_np(t, "0123456789abcdef"));
	SAY(pthread_setname_np(t, "0123456789abcde"));
	SAY(pthread_getname_np(t, name, 15));
	SAY(pthread_getname_np(t, name, 16));
	puts(name);
	SAY(pthread_getaffinity_np(t, 0, &set));
	SAY(pthread_getaffinity_np(t, 4, &set));
	SAY(pthread_setaffinity_np(t, 0, &set));
	CPU_ZERO(&set);
	CPU_SET(700, &set);
	SAY(pthread_setaffinity_np(t, sizeof(set), &set));
	SAY(pthread_setschedparam(t, 99, &param));
	SAY(pthread_setschedparam(t, -1, &param));
	SAY(pthread_setschedparam(t, SCHED_FIFO, &param));
	SAY(pthread_setschedparam(t, SCHED_DEADLINE, &param));
	SAY(pthread_setschedparam(t, SCHED_BATCH | SCHED_RESET_ON_FORK,
				  &param));
	SAY(pthread_getschedparam(t, &policy, &param));
	SAY(policy);
	SAY(pthread_setschedparam(t, SCHED_OTHER, &param));
	SAY(pthread_setschedprio(t, 0));
	SAY(pthread_setschedprio(t, 5));
	SAY(pthread_setschedprio(t, -1));
}

static void *of_itself(void *arg)
{
	struct sched_param param = { .sched_priority = 0 };
	int old = 7;

	SAY_ERRNO(sched_setscheduler(0, SCHED_BATCH | SCHED_RESET_ON_FORK,
				     &param));
	SAY_ERRNO(sched_getscheduler(0) == (SCHED_BATCH | SCHED_RESET_ON_FORK));
	by_thread(is_made, NULL);
	SAY_ERRNO(sched_setscheduler(0, SCHED_OTHER, &param));
	SAY_ERRNO(sched_setscheduler(0, 99, &param));
	SAY_ERRNO(sched_getscheduler(-1));
	SAY_ERRNO(sched_getparam(0, NULL));
	param.sched_priority = 5;
	SAY_ERRNO(sched_setparam(0, &param));
	SAY(pthread_setcancelstate(5, &old));
	SAY(pthread_setcanceltype(7, &old));
	SAY(old);
	SAY(pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old));
	SAY(old);
	SAY(pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &old));
	SAY(old);
	SAY(pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &old));
	SAY(old);
	SAY(pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, NULL));
	return arg;
}

/* ---- C11 ---- */

static mtx_t mtx;

static void *tries(void *arg)
{
	struct timespec t = soon(CLOCK_REALTIME);

	SAY(mtx_trylock(&mtx));
	SAY(mtx_timedlock(&mtx, &t));
	SAY(mtx_timedlock(&mtx, &negative));
	return arg;
}

static void test_c11(void)
{
	thrd_t me = thrd_current();
	cnd_t cnd;
	int type;

	SAY(thrd_join(me, NULL));
	for (type = mtx_plain; type <= (mtx_timed | mtx_recursive); type++) {
		SAY(mtx_init(&mtx, type));
		SAY(mtx_lock(&mtx));
		SAY(mtx_trylock(&mtx));
		by_thread(tries, NULL);
		SAY(cnd_init(&cnd));
		SAY(cnd_timedwait(&cnd, &mtx, &past));
		SAY(cnd_timedwait(&cnd, &mtx, &negative));
		SAY(cnd_signal(&cnd));
		cnd_destroy(&cnd);
		SAY(mtx_unlock(&mtx));
		mtx_destroy(&mtx);
	}
	SAY(thrd_sleep(&negative, NULL));
	SAY(thrd_sleep(&past, NULL));
}

int main(void)
{
	pthread_t t;

	sem_init(&up, 0, 0);
	sem_init(&go, 0, 0);
	test_attr();
	test_join();
	t = begin_waiting();
	ask(t);
	sem_post(&go);
	pthread_join(t, NULL);
	ask(pthread_self());
	of_itself(NULL);
	by_thread(of_itself, NULL);
	test_c11();
	return 0;
}
