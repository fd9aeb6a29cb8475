/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_timers.c - a timer's signal comes to the thread that it is for, and says what
 * the kernel has it say.
 */
#include <signal.h>
#include <sys/wait.h>

#include "check.h"

#define THREADS 6
#define TIMES 20
#define MANY 2000

static __thread volatile int came; /* to this thread */
static __thread volatile int me;
static volatile int elsewhere;

static void on_timer(int sig, siginfo_t *si, void *uc)
{
	char text[100];
	int n;

	(void)uc;
	came++;
	if (si->si_signo == sig && si->si_code == SI_TIMER &&
	    si->si_value.sival_int == me)
		return;
	elsewhere = 1;
	n = snprintf(text, sizeof(text), "signal %d, code %d, %d to %d\n", sig,
		     si->si_code, si->si_value.sival_int, me);
	if (write(2, text, (size_t)n) != n)
		_exit(2);
}

static timer_t timer_for(pid_t tid, int sig, int value)
{
	struct sigevent ev = { .sigev_notify = SIGEV_THREAD_ID };
	timer_t t;

	ev.sigev_signo = sig;
	ev.sigev_value.sival_int = value;
	ev._sigev_un._tid = tid;
	IS(timer_create(CLOCK_MONOTONIC, &ev, &t), 0);
	return t;
}

static void every_ms(timer_t t)
{
	struct itimerspec every = { { 0, 1000000 }, { 0, 1000000 } };

	IS(timer_settime(t, 0, &every, NULL), 0);
}

/* Each has its own, computes or waits, and gets no other's. */
static void *has_one(void *arg)
{
	const int sig = (long)arg % 2 ? SIGALRM : SIGRTMIN + 3;
	struct timespec ms = { 0, 1000000 };
	struct itimerspec now;
	timer_t t;

	me = (int)(long)arg + 1;
	t = timer_for(gettid(), sig, me);
	every_ms(t);
	while (came < TIMES)
		if ((long)arg % 3)
			nanosleep(&ms, NULL);
	IS(timer_gettime(t, &now), 0);
	IS(now.it_interval.tv_nsec, 1000000);
	CHECK(timer_getoverrun(t) >= 0);
	IS(timer_delete(t), 0);
	IS(timer_delete(t), -1);
	IS(errno, EINVAL);
	return NULL;
}

/* By sigwaitinfo(), which it blocks them for. */
static void *waits(void *arg)
{
	const int sig = SIGRTMIN + 4;
	siginfo_t si;
	sigset_t set;
	timer_t t;
	int i;

	sigemptyset(&set);
	sigaddset(&set, sig);
	IS(pthread_sigmask(SIG_BLOCK, &set, NULL), 0);
	t = timer_for(gettid(), sig, 77);
	every_ms(t);
	for (i = 0; i < TIMES; i++) {
		while (sigwaitinfo(&set, &si) != sig)
			CHECK(errno == EINTR);
		IS(si.si_code, SI_TIMER);
		IS(si.si_value.sival_int, 77);
	}
	IS(timer_delete(t), 0);
	return arg;
}

/* It is over: the timer is not, and nobody has its signal. */
static void *leaves_it(void *arg)
{
	me = 1234;
	*(timer_t *)arg = timer_for(gettid(), SIGALRM, me);
	every_ms(*(timer_t *)arg);
	return NULL;
}

static void outlives_its_thread(void)
{
	struct timespec some = { 0, 20000000 };
	timer_t t;

	IS(pthread_join(start(leaves_it, &t), NULL), 0);
	came = 0;
	while (nanosleep(&some, &some))
		;
	IS(came, 0);
	IS(timer_delete(t), 0);
}

static void *makes_many(void *arg)
{
	struct sigevent ev = { .sigev_notify = SIGEV_THREAD_ID };
	timer_t t;
	int i;

	for (i = 0; i < MANY; i++)
		IS(timer_delete(timer_for(gettid(), SIGALRM, i)), 0);
	ev.sigev_signo = 10000;
	ev._sigev_un._tid = gettid();
	IS(timer_create(CLOCK_MONOTONIC, &ev, &t), -1);
	IS(errno, EINVAL);
	ev.sigev_signo = SIGALRM;
	ev._sigev_un._tid = gettid() + 1000;
	IS(timer_create(CLOCK_MONOTONIC, &ev, &t), -1);
	IS(errno, EINVAL);
	ev._sigev_un._tid = gettid();
	IS(timer_create(1000, &ev, &t), -1);
	IS(errno, EINVAL);
	return arg;
}

/* Its child has none, and may make its own. */
static void *forks(void *arg)
{
	timer_t t = timer_for(gettid(), SIGALRM, 1);
	struct itimerspec now;
	int status;
	pid_t pid;

	pid = fork();
	if (!pid) {
		IS(timer_gettime(t, &now), -1);
		IS(errno, EINVAL);
		IS(pthread_join(start(has_one, (void *)1l), NULL), 0);
		_exit(elsewhere);
	}
	IS(waitpid(pid, &status, 0), pid);
	IS(status, 0);
	IS(timer_delete(t), 0);
	return arg;
}

int main(void)
{
	struct sigaction sa = { .sa_sigaction = on_timer,
				.sa_flags = SA_SIGINFO | SA_RESTART };
	pthread_t t[THREADS];
	long i;

	IS(sigaction(SIGALRM, &sa, NULL), 0);
	IS(sigaction(SIGRTMIN + 3, &sa, NULL), 0);
	for (i = 0; i < THREADS; i++)
		t[i] = start(has_one, (void *)i);
	has_one((void *)(long)THREADS); /* main, among the others */
	for (i = 0; i < THREADS; i++)
		IS(pthread_join(t[i], NULL), 0);
	IS(pthread_join(start(waits, NULL), NULL), 0);
	outlives_its_thread();
	IS(pthread_join(start(makes_many, NULL), NULL), 0);
	IS(pthread_join(start(forks, NULL), NULL), 0);
	has_one((void *)2l); /* main */
	IS(elsewhere, 0);
	return 0;
}
