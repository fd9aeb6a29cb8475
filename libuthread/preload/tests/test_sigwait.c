/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_sigwait.c [many] - waiting for signals that all threads block: who gets which,
 * what ends the wait, and that a thread in one keeps no kernel thread.
 */
#include <semaphore.h>
#include <signal.h>
#include <sys/wait.h>

#include "check.h"

static sigset_t both; /* SIGUSR1, SIGRTMIN: blocked everywhere */
static sem_t done;

static void queue_to(pthread_t t, int sig, int value)
{
	const union sigval v = { .sival_int = value };

	IS(pthread_sigqueue(t, sig, v), 0);
}

/* ---- what comes ---- */

static pthread_t waiter;

static void *sends(void *arg)
{
	const union sigval v = { .sival_int = 40 };

	sem_wait(&done);
	usleep(1000);
	IS(pthread_kill(waiter, SIGUSR1), 0);
	sem_wait(&done);
	usleep(1000);
	IS(kill(getpid(), SIGUSR1), 0);
	sem_wait(&done);
	usleep(1000);
	queue_to(waiter, SIGRTMIN, 10);
	queue_to(waiter, SIGRTMIN, 11);
	sem_wait(&done);
	usleep(1000);
	IS(sigqueue(getpid(), SIGRTMIN, v), 0);
	sem_wait(&done);
	usleep(1000);
	IS(pthread_kill(waiter, SIGUSR1), 0);
	return arg;
}

static void *gets(void *arg)
{
	siginfo_t si;
	int sig = 0;
	pthread_t t;

	waiter = pthread_self();
	t = start(sends, NULL);
	sem_post(&done);
	errno = 77;
	IS(sigwaitinfo(&both, &si), SIGUSR1);
	IS(errno, 77);
	IS(si.si_signo, SIGUSR1);
	IS(si.si_code, SI_USER); /* libc says so */
	IS(si.si_pid, getpid());
	sem_post(&done);
	IS(sigwaitinfo(&both, &si), SIGUSR1);
	IS(si.si_code, SI_USER);
	IS(si.si_pid, getpid());
	sem_post(&done);
	IS(sigwaitinfo(&both, &si), SIGRTMIN);
	IS(si.si_value.sival_int, 10);
	IS(si.si_code, SI_QUEUE);
	IS(sigwaitinfo(&both, &si), SIGRTMIN);
	IS(si.si_value.sival_int, 11);
	sem_post(&done);
	IS(sigwaitinfo(&both, &si), SIGRTMIN);
	IS(si.si_value.sival_int, 40);
	sem_post(&done);
	IS(sigwait(&both, &sig), 0);
	IS(sig, SIGUSR1);
	pthread_join(t, NULL);
	/* What is there already. */
	IS(raise(SIGUSR1), 0);
	IS(sigwait(&both, &sig), 0);
	IS(sig, SIGUSR1);
	IS(kill(getpid(), SIGUSR1), 0);
	IS(sigwaitinfo(&both, NULL), SIGUSR1);
	return arg;
}

static void *times_out(void *arg)
{
	struct timespec t = { .tv_nsec = 3000000 }, before, after;
	siginfo_t si;

	clock_gettime(CLOCK_MONOTONIC, &before);
	IS(sigtimedwait(&both, &si, &t), -1);
	IS(errno, EAGAIN);
	clock_gettime(CLOCK_MONOTONIC, &after);
	CHECK((after.tv_sec - before.tv_sec) * 1000000000l + after.tv_nsec -
		      before.tv_nsec >=
	      3000000);
	t.tv_nsec = 0;
	IS(sigtimedwait(&both, &si, &t), -1);
	IS(errno, EAGAIN);
	t.tv_nsec = 1000000000;
	IS(sigtimedwait(&both, &si, &t), -1);
	IS(errno, EINVAL);
	t = (struct timespec){ .tv_sec = 86400 };
	IS(raise(SIGUSR1), 0);
	IS(sigtimedwait(&both, &si, &t), SIGUSR1);
	return arg;
}

/* ---- what ends it ---- */

static volatile int handled, over;

static void on_signal(int sig)
{
	(void)sig;
	handled++;
}

static void *is_interrupted(void *arg)
{
	sigset_t one;
	int sig;

	if (arg) { /* a signal that it waits for and lets in */
		sigemptyset(&one);
		sigaddset(&one, SIGRTMIN);
		IS(pthread_sigmask(SIG_UNBLOCK, &one, NULL), 0);
	}
	IS(sigwaitinfo(&both, NULL), -1);
	IS(errno, EINTR);
	over = 1;
	IS(sigwait(&both, &sig), 0); /* goes on behind handlers */
	IS(sig, SIGUSR1);
	over = 2;
	return arg;
}

static void test_handlers(void *lets_one_in)
{
	struct sigaction sa = { .sa_handler = on_signal,
				.sa_flags = SA_RESTART };
	pthread_t t;

	sigaction(SIGUSR2, &sa, NULL);
	over = 0;
	t = start(is_interrupted, lets_one_in);
	while (!over) {
		IS(pthread_kill(t, SIGUSR2), 0);
		usleep(500);
	}
	handled = 0;
	while (handled < 3) {
		IS(pthread_kill(t, SIGUSR2), 0);
		usleep(500);
	}
	IS(over, 1);
	IS(pthread_kill(t, SIGUSR1), 0);
	pthread_join(t, NULL);
	IS(over, 2);
}

/* ---- one that somebody has let in, and nobody does any more ---- */

static void *lets_in(void *arg)
{
	sigset_t one, old;

	sigemptyset(&one);
	sigaddset(&one, SIGRTMIN);
	IS(pthread_sigmask(SIG_UNBLOCK, &one, &old), 0);
	usleep(100);
	if (arg)
		IS(pthread_sigmask(SIG_SETMASK, &old, NULL), 0);
	return arg;
}

static void *sends_one(void *arg)
{
	const union sigval v = { .sival_int = 50 };

	usleep(2000);
	IS(sigqueue(getpid(), SIGRTMIN, v), 0);
	return arg;
}

/* Without a handler it would end the process where it is let in. */
static void *gets_one(void *arg)
{
	siginfo_t si;
	pthread_t t = start(sends_one, NULL);

	while (sigwaitinfo(&both, &si) != SIGRTMIN)
		IS(errno, EINTR);
	IS(si.si_value.sival_int, 50);
	pthread_join(t, NULL);
	return arg;
}

static void test_once_let_in(void)
{
	pthread_t t[4];
	int i, again;

	for (again = 0; again < 10; again++) {
		for (i = 0; i < 4; i++)
			t[i] = start(lets_in, again % 2 ? t : NULL);
		for (i = 0; i < 4; i++)
			pthread_join(t[i], NULL);
		pthread_join(start(gets_one, NULL), NULL);
		gets_one(NULL);
	}
}

static void *is_cancelled(void *arg)
{
	over = 3;
	sigwaitinfo(&both, NULL);
	CHECK(!"reached");
	return arg;
}

static void test_cancel(void)
{
	pthread_t t;
	void *value;
	int late;

	for (late = 0; late < 2; late++) {
		over = 0;
		t = start(is_cancelled, NULL);
		while (late && !over)
			usleep(500);
		usleep(late ? 2000 : 0);
		IS(pthread_cancel(t), 0);
		IS(pthread_join(t, &value), 0);
		CHECK(value == PTHREAD_CANCELED);
	}
}

static void *forks(void *arg)
{
	int status;
	pid_t pid = fork();

	if (!pid) {
		pthread_join(start(gets, NULL), NULL);
		times_out(NULL);
		_exit(3);
	}
	CHECK(pid > 0);
	IS(waitpid(pid, &status, 0), pid);
	IS(status, 3 << 8);
	return arg;
}

/* ---- many ---- */

#define MANY 200

static pthread_t all[MANY];

/* The last goes on first: with a worker for each of the first nobody would wake them. */
static void *is_a_link(void *arg)
{
	const int i = (int)(long)arg;
	siginfo_t si;

	IS(sigwaitinfo(&both, &si), SIGUSR1);
	IS(si.si_code, SI_USER);
	if (i)
		IS(pthread_kill(all[i - 1], SIGUSR1), 0);
	return NULL;
}

static void *takes_one(void *arg)
{
	siginfo_t si;

	while (sigwaitinfo(&both, &si) != SIGRTMIN)
		IS(errno, EINTR); /* the kernel's, when another was quicker */
	IS(si.si_code, SI_QUEUE);
	sem_post(&done);
	return arg;
}

static volatile sig_atomic_t handled;

static void notes(int sig)
{
	handled = sig;
}

static void *pauses(void *arg)
{
	IS(pause(), -1);
	IS(errno, EINTR);
	IS(handled, SIGUSR2);
	sem_post(&done);
	return arg;
}

/* Again and again: one may come before it pauses. */
static void test_pause(void)
{
	struct sigaction a = { .sa_handler = notes };
	pthread_t t;

	IS(sigaction(SIGUSR2, &a, NULL), 0);
	t = start(pauses, NULL);
	do {
		IS(pthread_kill(t, SIGUSR2), 0);
		usleep(1000);
	} while (sem_trywait(&done));
	pthread_join(t, NULL);
}

/* ---- more than there are workers, in calls that let the signal in ---- */

#define SEVERAL 6

static void *lets_it_in(void *arg)
{
	sigset_t none, other;

	sigemptyset(&none);
	sigemptyset(&other);
	sigaddset(&other, SIGRTMIN + 1);
	sem_post(&done);
	if ((long)arg % 3 == 0) {
		IS(sigsuspend(&none), -1);
	} else { /* it is let in before, so it may come before the call */
		IS(pthread_sigmask(SIG_SETMASK, &none, NULL), 0);
		while (!handled) {
			IS((long)arg % 3 == 1 ? pause() :
						sigwaitinfo(&other, NULL),
			   -1);
			IS(errno, EINTR);
		}
	}
	sem_post(&done);
	return arg;
}

static volatile int at_end;

static void *sends_again(void *arg)
{
	while (!at_end) {
		for (long i = 0; i < SEVERAL; i++)
			IS(pthread_kill(all[i], SIGUSR2), 0);
		usleep(1000);
	}
	return arg;
}

/* Each ends, the main thread hears of all, and who sends has its turn. */
static void test_several(void)
{
	struct sigaction a = { .sa_handler = notes };
	sigset_t usr2;
	pthread_t t;

	handled = 0;
	IS(sigaction(SIGUSR2, &a, NULL), 0);
	sigemptyset(&usr2);
	sigaddset(&usr2, SIGUSR2);
	IS(pthread_sigmask(SIG_BLOCK, &usr2, NULL), 0);
	for (long i = 0; i < SEVERAL; i++)
		all[i] = start(lets_it_in, (void *)i);
	for (int i = 0; i < SEVERAL; i++)
		while (sem_wait(&done))
			IS(errno, EINTR);
	t = start(sends_again, NULL);
	for (int i = 0; i < SEVERAL; i++)
		while (sem_wait(&done))
			IS(errno, EINTR);
	at_end = 1; /* before any is joined */
	pthread_join(t, NULL);
	for (int i = 0; i < SEVERAL; i++)
		pthread_join(all[i], NULL);
	IS(pthread_sigmask(SIG_UNBLOCK, &usr2, NULL), 0);
}

static void test_many(void)
{
	const union sigval v = { .sival_int = 1 };
	int i;

	for (i = 0; i < MANY; i++)
		all[i] = start(is_a_link, (void *)(long)i);
	usleep(2000);
	IS(pthread_kill(all[MANY - 1], SIGUSR1), 0);
	for (i = 0; i < MANY; i++)
		pthread_join(all[i], NULL);
	/* Of those to the process each goes to one. */
	for (i = 0; i < 20; i++)
		all[i] = start(takes_one, NULL);
	for (i = 0; i < 20; i++) {
		IS(sigqueue(getpid(), SIGRTMIN, v), 0);
		if (i % 2)
			while (sem_wait(&done) || sem_wait(&done))
				IS(errno, EINTR);
	}
	for (i = 0; i < 20; i++)
		pthread_join(all[i], NULL);
	IS(sem_trywait(&done), -1);
}

int main(int argc, char *argv[])
{
	sem_init(&done, 0, 0);
	sigemptyset(&both);
	sigaddset(&both, SIGUSR1);
	sigaddset(&both, SIGRTMIN);
	pthread_sigmask(SIG_BLOCK, &both, NULL);
	if (argc > 1 && !strcmp(argv[1], "many")) {
		test_many();
		test_pause();
		test_several();
		return 0;
	}
	gets(NULL);
	times_out(NULL);
	pthread_join(start(gets, NULL), NULL);
	pthread_join(start(times_out, NULL), NULL);
	gets(NULL);
	test_handlers(NULL);
	test_handlers(&both);
	test_once_let_in();
	test_cancel();
	pthread_join(start(forks, NULL), NULL);
	test_many();
	test_pause();
	test_several();
	return 0;
}
