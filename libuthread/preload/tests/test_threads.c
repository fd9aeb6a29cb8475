/* SPDX-License-Identifier: Apache-2.0 */
/* test_threads.c - create, join, detach, attributes, keys, once, names, signals. */
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "check.h"

static pthread_t handle;
static __thread int local = 7;

static void *is_itself(void *arg)
{
	CHECK(pthread_equal(handle, pthread_self()));
	IS(local, 7);
	local = 8;
	IS(errno, 0);
	errno = 5;
	sched_yield();
	IS(errno, 5);
	return arg;
}

static void test_create(void)
{
	pthread_t t[100];
	void *value;
	int i;

	for (i = 0; i < 10; i++) {
		IS(pthread_create(&handle, NULL, is_itself, &i), 0);
		IS(pthread_join(handle, &value), 0);
		CHECK(value == &i);
	}
	for (i = 0; i < 100; i++)
		t[i] = start((void *(*)(void *))(void *)pthread_self, NULL);
	for (i = 0; i < 100; i++) {
		IS(pthread_join(t[i], &value), 0);
		CHECK((pthread_t)value == t[i]);
	}
	IS(getpid(), syscall(SYS_gettid));
}

/* ---- ids ---- */

#define IDS 60

/* Its number is what the kernel's calls say, too. */
static void *says_id(void *arg)
{
	const pid_t me = (pid_t)syscall(SYS_gettid);
	int *word;

	/* The word stays, for join needs it. Not all kernels tell. */
	if (!prctl(PR_GET_TID_ADDRESS, &word))
		IS(syscall(SYS_set_tid_address, word), me);
	*(pid_t *)arg = me;
	return arg;
}

/* One after the other, so that each has the stack of the one before. */
static void test_ids(void)
{
	pid_t id[IDS];
	int i, j;

	for (i = 0; i < IDS; i++) {
		pthread_join(start(says_id, &id[i]), NULL);
		CHECK(id[i] > 0 && id[i] != getpid());
		for (j = 0; j < i; j++)
			CHECK(id[i] != id[j]);
	}
}

static sem_t go;

static void *waits(void *arg)
{
	while (sem_wait(&go))
		;
	return arg;
}

/* One that is not joined: who waits next is not to have its unit. */
static void let_go(void)
{
	int units;

	sem_post(&go);
	do {
		sched_yield();
		IS(sem_getvalue(&go, &units), 0);
	} while (units);
}

static void *joins_itself(void *arg)
{
	(void)arg;
	return (void *)(long)pthread_join(pthread_self(), NULL);
}

static void *exits(void *arg)
{
	pthread_exit(arg);
}

static void test_join(void)
{
	struct timespec t = in_ms(CLOCK_REALTIME, 5);
	pthread_attr_t attr;
	pthread_t w;
	void *value;

	sem_init(&go, 0, 0);
	w = start(waits, &w);
	IS(pthread_tryjoin_np(w, &value), EBUSY);
	IS(pthread_timedjoin_np(w, &value, &t), ETIMEDOUT);
	t = in_ms(CLOCK_MONOTONIC, 5);
	IS(pthread_clockjoin_np(w, &value, CLOCK_MONOTONIC, &t), ETIMEDOUT);
	sem_post(&go);
	IS(pthread_join(w, &value), 0);
	CHECK(value == &w);
	w = start(joins_itself, NULL);
	IS(pthread_join(w, &value), 0);
	IS(value, EDEADLK);
	w = start(exits, &w);
	IS(pthread_join(w, &value), 0);
	CHECK(value == &w);
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	IS(pthread_create(&w, &attr, waits, NULL), 0);
	IS(pthread_join(w, NULL), EINVAL);
	IS(pthread_detach(w), EINVAL);
	let_go();
	pthread_attr_destroy(&attr);
	w = start(waits, NULL);
	IS(pthread_detach(w), 0);
	IS(pthread_join(w, NULL), EINVAL);
	let_go();
}

static void *in_stack(void *arg)
{
	const size_t least = *(size_t *)arg;
	pthread_attr_t attr;
	size_t bytes;
	void *low;

	IS(pthread_getattr_np(pthread_self(), &attr), 0);
	IS(pthread_attr_getstack(&attr, &low, &bytes), 0);
	pthread_attr_destroy(&attr);
	CHECK((char *)&attr >= (char *)low &&
	      (char *)&attr < (char *)low + bytes);
	CHECK(bytes >= least);
	return NULL;
}

static void test_attr(void)
{
	const size_t min = (size_t)sysconf(_SC_THREAD_STACK_MIN);
	size_t bytes = min > 64 << 10 ? min : 64 << 10;
	size_t least = bytes - (24 << 10);
	char *own = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	pthread_attr_t attr;
	pthread_t t;

	pthread_attr_init(&attr);
	for (; bytes <= 64 << 20; bytes *= 4, least = bytes - bytes / 8) {
		IS(pthread_attr_setstacksize(&attr, bytes), 0);
		IS(pthread_create(&t, &attr, in_stack, &least), 0);
		IS(pthread_join(t, NULL), 0);
	}
	IS(pthread_attr_setstack(&attr, own, 1 << 20), 0);
	least = 1 << 19;
	IS(pthread_create(&t, &attr, in_stack, &least), 0);
	IS(pthread_join(t, NULL), 0);
	pthread_attr_destroy(&attr);
	munmap(own, 1 << 20);
}

/* ---- keys, once ---- */

static pthread_key_t key;
static int destroyed;

static void destroy(void *value)
{
	__atomic_fetch_add(&destroyed, 1, __ATOMIC_SEQ_CST);
	if (value == &key) /* once more */
		pthread_setspecific(key, &destroyed);
}

static void *has_value(void *arg)
{
	CHECK(!pthread_getspecific(key));
	IS(pthread_setspecific(key, arg), 0);
	sched_yield();
	CHECK(pthread_getspecific(key) == arg);
	return NULL;
}

static void test_keys(void)
{
	pthread_key_t more[500];
	pthread_t t[20];
	int i;

	IS(pthread_key_create(&key, destroy), 0);
	for (i = 0; i < 500; i++)
		IS(pthread_key_create(&more[i], NULL), 0);
	for (i = 0; i < 20; i++)
		t[i] = start(has_value, &key);
	for (i = 0; i < 20; i++)
		pthread_join(t[i], NULL);
	IS(destroyed, 40);
	for (i = 0; i < 500; i++)
		IS(pthread_key_delete(more[i]), 0);
	IS(pthread_key_delete(key), 0);
}

static pthread_once_t once = PTHREAD_ONCE_INIT;
static int times;

static void runs_once(void)
{
	int i;

	for (i = 0; i < 20; i++)
		sched_yield();
	times++;
}

static void *wants_once(void *arg)
{
	pthread_once(&once, runs_once);
	IS(times, 1);
	return arg;
}

static void test_once(void)
{
	pthread_t t[20];
	int i;

	for (i = 0; i < 20; i++)
		t[i] = start(wants_once, NULL);
	for (i = 0; i < 20; i++)
		pthread_join(t[i], NULL);
}

/* ---- what is asked of a thread ---- */

static volatile int handled;
static volatile pthread_t handler;

static void on_signal(int sig)
{
	(void)sig;
	handler = pthread_self();
	handled = 1;
}

static void *until_handled(void *arg)
{
	while (!handled)
		sched_yield();
	CHECK(pthread_equal(handler, pthread_self()));
	return arg;
}

static void *mask_is(void *arg)
{
	sigset_t now;

	pthread_sigmask(SIG_BLOCK, NULL, &now);
	IS(sigismember(&now, SIGUSR2), arg ? 1 : 0);
	return NULL;
}

static void test_asked(void)
{
	struct sigaction sa = { .sa_handler = on_signal };
	struct sched_param param;
	sigset_t set;
	char name[16];
	pthread_t t;
	int policy;

	t = start(waits, NULL);
	IS(pthread_setname_np(t, "a-name"), 0);
	IS(pthread_getname_np(t, name, sizeof(name)), 0);
	CHECK(!strcmp(name, "a-name"));
	IS(pthread_getname_np(t, name, 3), ERANGE);
	IS(pthread_setname_np(t, "longer than fifteen"), ERANGE);
	IS(pthread_getschedparam(t, &policy, &param), 0);
	IS(policy, SCHED_OTHER);
	IS(pthread_kill(t, 0), 0);
	IS(pthread_kill(t, 1000), EINVAL);
	sem_post(&go);
	pthread_join(t, NULL);
	sigaction(SIGUSR1, &sa, NULL);
	t = start(until_handled, NULL);
	IS(pthread_kill(t, SIGUSR1), 0);
	pthread_join(t, NULL);
	IS(pthread_setname_np(pthread_self(), "main-name"), 0);
	IS(pthread_getname_np(pthread_self(), name, sizeof(name)), 0);
	CHECK(!strcmp(name, "main-name"));
	pthread_join(start(mask_is, NULL), NULL);
	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	pthread_join(start(mask_is, &set), NULL);
}

int main(void)
{
	test_create();
	test_ids();
	test_join();
	test_attr();
	test_keys();
	test_once();
	test_asked();
	return 0;
}
