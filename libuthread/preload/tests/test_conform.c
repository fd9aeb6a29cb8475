/* SPDX-License-Identifier: Apache-2.0 */
/* test_conform.c - what conformance suites ask at the edges: errors, and who ends what. */
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "check.h"

static sem_t up, go;
static volatile int done;

static void on_signal(int sig)
{
	(void)sig;
}

static void *waits(void *arg)
{
	sem_post(&up);
	while (sem_wait(&go))
		;
	return arg;
}

/* ---- a handler ends the wait for a semaphore ---- */

static void *until_interrupted(void *arg)
{
	IS(sem_wait(arg), -1);
	IS(errno, EINTR);
	done = 1;
	return NULL;
}

static void *until_interrupted_timed(void *arg)
{
	struct timespec t = in_ms(CLOCK_REALTIME, 1000 * 1000 * 1000);

	IS(sem_timedwait(arg, &t), -1);
	IS(errno, EINTR);
	done = 1;
	return NULL;
}

static void interrupt(void *(*fn)(void *), sem_t *sem)
{
	pthread_t t;

	done = 0;
	t = start(fn, sem);
	while (!done) {
		IS(pthread_kill(t, SIGUSR1), 0);
		usleep(1000);
	}
	IS(pthread_join(t, NULL), 0);
}

static void test_interrupted(int shared)
{
	struct sigaction sa = { .sa_handler = on_signal };
	sem_t sem;

	IS(sem_init(&sem, shared, 0), 0);
	sigaction(SIGUSR1, &sa, NULL);
	interrupt(until_interrupted, &sem);
	interrupt(until_interrupted_timed, &sem);
	/* With a time-out that flag is none. */
	sa.sa_flags = SA_RESTART;
	sigaction(SIGUSR1, &sa, NULL);
	interrupt(until_interrupted_timed, &sem);
	IS(sem_destroy(&sem), 0);
}

static void *for_ever(void *arg)
{
	sem_post(&up);
	sem_wait(arg);
	return NULL;
}

static void test_cancelled(int shared)
{
	pthread_t t;
	void *value;
	sem_t sem;
	int i;

	IS(sem_init(&sem, shared, 0), 0);
	for (i = 0; i < 10; i++) {
		t = start(for_ever, &sem);
		while (sem_wait(&up))
			;
		if (i % 2)
			usleep(1000);
		IS(pthread_cancel(t), 0);
		IS(pthread_join(t, &value), 0);
		CHECK(value == PTHREAD_CANCELED);
	}
	IS(sem_destroy(&sem), 0);
}

/* ---- mutexes ---- */

static pthread_mutex_t mutex;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static int told;

static void *waits_for_cond(void *arg)
{
	IS(pthread_mutex_lock(&mutex), 0);
	sem_post(&up);
	while (!told)
		IS(pthread_cond_wait(&cond, &mutex), 0);
	IS(pthread_mutex_unlock(&mutex), 0);
	return arg;
}

/* Who waits for a condition uses the mutex. */
static void test_used(int type)
{
	pthread_mutexattr_t attr;
	pthread_t t;

	told = 0;
	pthread_mutexattr_init(&attr);
	pthread_mutexattr_settype(&attr, type);
	IS(pthread_mutex_init(&mutex, &attr), 0);
	pthread_mutexattr_destroy(&attr);
	t = start(waits_for_cond, NULL);
	while (sem_wait(&up))
		;
	IS(pthread_mutex_lock(&mutex), 0);
	IS(pthread_mutex_unlock(&mutex), 0);
	IS(pthread_mutex_destroy(&mutex), EBUSY);
	IS(pthread_mutex_lock(&mutex), 0);
	told = 1;
	IS(pthread_cond_broadcast(&cond), 0);
	IS(pthread_mutex_unlock(&mutex), 0);
	IS(pthread_join(t, NULL), 0);
	IS(pthread_mutex_destroy(&mutex), 0);
}

static void *inherits(void *arg)
{
	int i;

	for (i = 0; i < 1000; i++) {
		IS(pthread_mutex_lock(arg), 0);
		if (i % 100 == 0)
			sched_yield();
		IS(pthread_mutex_unlock(arg), 0);
	}
	return NULL;
}

static void *ends_with_it(void *arg)
{
	IS(pthread_mutex_lock(arg), 0);
	return NULL;
}

static void test_inherits(int robust, int shared)
{
	pthread_mutex_t *m = mmap(NULL, sizeof(*m), PROT_READ | PROT_WRITE,
				  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pthread_mutexattr_t attr;
	pthread_t t[4];
	int i;

	pthread_mutexattr_init(&attr);
	IS(pthread_mutexattr_setprotocol(&attr, PTHREAD_PRIO_INHERIT), 0);
	IS(pthread_mutexattr_setrobust(&attr, robust), 0);
	IS(pthread_mutexattr_setpshared(&attr, shared), 0);
	IS(pthread_mutex_init(m, &attr), 0);
	IS(pthread_mutexattr_getprotocol(&attr, &i), 0);
	IS(i, PTHREAD_PRIO_INHERIT);
	pthread_mutexattr_destroy(&attr);
	for (i = 0; i < 4; i++)
		t[i] = start(inherits, m);
	for (i = 0; i < 4; i++)
		pthread_join(t[i], NULL);
	if (robust == PTHREAD_MUTEX_ROBUST) {
		pthread_join(start(ends_with_it, m), NULL);
		IS(pthread_mutex_lock(m), EOWNERDEAD);
		IS(pthread_mutex_consistent(m), 0);
		IS(pthread_mutex_unlock(m), 0);
	}
	IS(pthread_mutex_destroy(m), 0);
	munmap(m, sizeof(*m));
}

/* ---- policies, CPUs ---- */

static void *policy_is(void *arg)
{
	struct sched_param param;
	int policy;

	IS(pthread_getschedparam(pthread_self(), &policy, &param), 0);
	IS(policy, (long)arg);
	IS(param.sched_priority, 0);
	return NULL;
}

static void *policies(void *arg)
{
	const pthread_t me = pthread_self();
	struct sched_param param = { .sched_priority = 0 };

	policy_is((void *)SCHED_OTHER);
	IS(pthread_setschedparam(me, SCHED_BATCH, &param), 0);
	policy_is((void *)SCHED_BATCH);
	IS(pthread_join(start(policy_is, (void *)SCHED_BATCH), NULL), 0);
	IS(pthread_setschedprio(me, 0), 0);
	IS(pthread_setschedprio(me, 1), EINVAL);
	IS(pthread_setschedparam(me, SCHED_FIFO, &param), EINVAL);
	IS(pthread_setschedparam(me, 99, &param), EINVAL);
	param.sched_priority = 1;
	IS(pthread_setschedparam(me, SCHED_OTHER, &param), EINVAL);
	param.sched_priority = 1000;
	IS(pthread_setschedparam(me, SCHED_RR, &param), EINVAL);
	policy_is((void *)SCHED_BATCH);
	return arg;
}

static cpu_set_t one;

static void *has_one_cpu(void *arg)
{
	cpu_set_t set;

	IS(pthread_getaffinity_np(pthread_self(), sizeof(set), &set), 0);
	CHECK(CPU_EQUAL(&set, &one));
	return arg;
}

static void *cpus(void *arg)
{
	cpu_set_t set;

	IS(pthread_setaffinity_np(pthread_self(), sizeof(one), &one), 0);
	has_one_cpu(NULL);
	IS(pthread_join(start(has_one_cpu, NULL), NULL), 0);
	CPU_ZERO(&set);
	IS(pthread_setaffinity_np(pthread_self(), sizeof(set), &set), EINVAL);
	has_one_cpu(NULL);
	return arg;
}

static void test_sched(void)
{
	pthread_attr_t attr;
	cpu_set_t set;
	pthread_t t;
	int i;

	IS(pthread_join(start(policies, NULL), NULL), 0);
	IS(pthread_getaffinity_np(pthread_self(), sizeof(set), &set), 0);
	for (i = 0; !CPU_ISSET(i, &set); i++)
		;
	CPU_ZERO(&one);
	CPU_SET(i, &one);
	IS(pthread_join(start(cpus, NULL), NULL), 0);
	pthread_attr_init(&attr);
	IS(pthread_attr_setaffinity_np(&attr, sizeof(one), &one), 0);
	IS(pthread_create(&t, &attr, has_one_cpu, NULL), 0);
	IS(pthread_join(t, NULL), 0);
	CPU_ZERO(&set);
	IS(pthread_attr_setaffinity_np(&attr, sizeof(set), &set), 0);
	IS(pthread_create(&t, &attr, has_one_cpu, NULL), EINVAL);
	pthread_attr_destroy(&attr);
}

/* ---- CPU time ---- */

static long long cpu_ns(clockid_t clock)
{
	struct timespec t;

	IS(clock_gettime(clock, &t), 0);
	return t.tv_sec * 1000000000ll + t.tv_nsec;
}

#define SOME_NS 10000000

/* These end if the clock runs while the thread does. */
static void uses_some(clockid_t clock)
{
	const long long then = cpu_ns(clock);

	while (cpu_ns(clock) - then < SOME_NS)
		;
}

static long used_us(void)
{
	struct rusage u;

	IS(getrusage(RUSAGE_THREAD, &u), 0);
	return (u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1000000 +
	       u.ru_utime.tv_usec + u.ru_stime.tv_usec;
}

/* What getrusage() counts is the thread's clock, in whole microseconds. */
static void *is_counted(void *arg)
{
	const long long begin = cpu_ns(CLOCK_THREAD_CPUTIME_ID);
	long long then, now;
	long used;

	do {
		then = cpu_ns(CLOCK_THREAD_CPUTIME_ID);
		used = used_us();
		now = cpu_ns(CLOCK_THREAD_CPUTIME_ID);
		CHECK(used >= then / 1000 - 2 && used <= now / 1000);
		sched_yield();
	} while (now - begin < SOME_NS);
	return arg;
}

/* Some after others, so that workers have run others before, and some at once. */
static void test_usage(void)
{
	pthread_t t[3];
	int i;

	uses_some(CLOCK_THREAD_CPUTIME_ID);
	is_counted(NULL);
	for (i = 0; i < 3; i++)
		IS(pthread_join(start(is_counted, NULL), NULL), 0);
	for (i = 0; i < 3; i++)
		t[i] = start(is_counted, NULL);
	for (i = 0; i < 3; i++)
		IS(pthread_join(t[i], NULL), 0);
}

static void *has_clock(void *arg)
{
	struct timespec t;
	clockid_t clock;

	IS(pthread_getcpuclockid(pthread_self(), &clock), 0);
	uses_some(clock);
	uses_some(CLOCK_THREAD_CPUTIME_ID);
	IS(clock_getres(clock, &t), 0);
	IS(clock_getres(clock, NULL), 0);
	IS(clock_settime(clock, &t), -1);
	IS(errno, EPERM);
	CHECK(cpu_ns(clock) >= 2 * SOME_NS);
	waits(NULL);
	return arg;
}

static void test_clock(void)
{
	clockid_t clock, again, main_clock;
	struct timespec ms = { .tv_nsec = 1000000 };
	pthread_t t[3];
	long long then;
	int i, k;

	IS(pthread_getcpuclockid(pthread_self(), &main_clock), 0);
	uses_some(main_clock);
	for (k = 0; k < 3; k++) {
		for (i = 0; i < 3; i++)
			t[i] = start(has_clock, NULL);
		for (i = 0; i < 3; i++)
			while (sem_wait(&up))
				;
		for (i = 0; i < 3; i++) {
			IS(pthread_getcpuclockid(t[i], &clock), 0);
			IS(pthread_getcpuclockid(t[i], &again), 0);
			IS(clock, again);
			CHECK(clock != main_clock);
			CHECK(cpu_ns(clock) >= 2 * SOME_NS);
			/* It stands while the thread waits. */
			do {
				then = cpu_ns(clock);
				nanosleep(&ms, NULL);
			} while (cpu_ns(clock) != then);
		}
		for (i = 0; i < 3; i++)
			sem_post(&go);
		for (i = 0; i < 3; i++)
			IS(pthread_join(t[i], NULL), 0);
	}
	IS(clock_gettime(99, &ms), -1);
	IS(errno, EINVAL);
	IS(clock_gettime(-99, &ms), -1);
	IS(errno, EINVAL);
}

/* ---- what the kernel calls a thread ---- */

static volatile int handled;

static void on_own(int sig)
{
	handled = sig;
}

static void *called(void *arg)
{
	struct sigaction sa = { .sa_handler = on_own };
	char name[16];
	int status;
	pid_t pid;

	IS(prctl(PR_SET_NAME, "a-name-that-is-too-long"), 0);
	IS(pthread_getname_np(pthread_self(), name, sizeof(name)), 0);
	CHECK(!strcmp(name, "a-name-that-is-"));
	IS(pthread_setname_np(pthread_self(), "another"), 0);
	IS(prctl(PR_GET_NAME, name), 0);
	CHECK(!strcmp(name, "another"));
	sigaction(SIGUSR2, &sa, NULL);
	handled = 0;
	IS(tgkill(getpid(), gettid(), SIGUSR2), 0);
	IS(handled, SIGUSR2);
	handled = 0;
	IS(syscall(SYS_tgkill, getpid(), gettid(), SIGUSR2), 0);
	IS(handled, SIGUSR2);
	IS(tgkill(getpid(), gettid(), 1000), -1);
	IS(errno, EINVAL);
	pid = fork();
	if (!pid)
		_exit(gettid() == getpid() ? 0 : 3);
	IS(waitpid(pid, &status, 0), pid);
	IS(status, 0);
	return arg;
}

/* ---- libc's own signals ---- */

static void test_kill(void)
{
	pthread_t t = start(waits, NULL);
	int sig;

	while (sem_wait(&up))
		;
	for (sig = 32; sig < SIGRTMIN; sig++) {
		IS(pthread_kill(t, sig), EINVAL);
		IS(pthread_kill(pthread_self(), sig), EINVAL);
		IS(pthread_sigqueue(t, sig, (union sigval){ 0 }), EINVAL);
	}
	IS(pthread_kill(t, -1), EINVAL);
	IS(pthread_kill(t, 0), 0);
	IS(pthread_kill(t, SIGRTMAX + 1), EINVAL);
	sem_post(&go);
	IS(pthread_join(t, NULL), 0);
}

int main(void)
{
	sem_init(&up, 0, 0);
	sem_init(&go, 0, 0);
	test_interrupted(0);
	test_interrupted(1);
	test_cancelled(0);
	test_cancelled(1);
	test_used(PTHREAD_MUTEX_NORMAL);
	test_used(PTHREAD_MUTEX_ERRORCHECK);
	test_used(PTHREAD_MUTEX_RECURSIVE);
	test_inherits(PTHREAD_MUTEX_ROBUST, PTHREAD_PROCESS_PRIVATE);
	test_inherits(PTHREAD_MUTEX_ROBUST, PTHREAD_PROCESS_SHARED);
	test_inherits(PTHREAD_MUTEX_STALLED, PTHREAD_PROCESS_SHARED);
	test_sched();
	test_clock();
	test_usage();
	called(NULL);
	IS(pthread_join(start(called, NULL), NULL), 0);
	test_kill();
	return 0;
}
