/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_sent.c - a signal for a thread that goes from one wait to another, and finds it
 * in a call that waits for other signals, or says which ones wait: it is handled all the
 * same, and soon. And one that it blocks, of which it is told by a signalfd.
 */
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "check.h"

#define LONG_S 1000 /* the test's limit is less */
#define ROUNDS 2000

static int handled, stop;

static void on_signal(int sig)
{
	(void)sig;
	__atomic_fetch_add(&handled, 1, __ATOMIC_SEQ_CST);
}

static bool goes_on(void)
{
	return !__atomic_load_n(&stop, __ATOMIC_SEQ_CST);
}

static sigset_t only(int sig)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, sig);
	return set;
}

static void *waits_for_another(void *unused)
{
	const struct timespec time = { .tv_sec = LONG_S };
	const sigset_t usr2 = only(SIGUSR2);

	(void)unused;
	while (goes_on()) {
		IS(sigtimedwait(&usr2, NULL, &time), -1);
		IS(errno, EINTR);
	}
	return NULL;
}

static void *asks(void *unused)
{
	sigset_t set;

	(void)unused;
	while (goes_on()) {
		IS(sigpending(&set), 0);
		CHECK(!sigismember(&set, SIGUSR2));
		IS(poll(NULL, 0, LONG_S * 1000), -1);
		IS(errno, EINTR);
	}
	return NULL;
}

static void *blocks_it(void *unused)
{
	const struct timespec time = { .tv_nsec = 100000 };
	sigset_t mask;

	(void)unused;
	sigfillset(&mask);
	sigdelset(&mask, SIGUSR2);
	while (goes_on()) {
		ppoll(NULL, 0, &time, &mask);
		IS(poll(NULL, 0, LONG_S * 1000), -1);
		IS(errno, EINTR);
	}
	return NULL;
}

static void is_sent_to(void *(*fn)(void *))
{
	pthread_t t;
	int i;

	handled = stop = 0;
	t = start(fn, NULL);
	/* The next one while its handler runs, or just has. */
	for (i = 0; i < ROUNDS; i++) {
		IS(pthread_kill(t, SIGUSR1), 0);
		while (__atomic_load_n(&handled, __ATOMIC_SEQ_CST) <= i)
			sched_yield();
	}
	__atomic_store_n(&stop, 1, __ATOMIC_SEQ_CST);
	/* It may come before the last wait begins. */
	while (pthread_tryjoin_np(t, NULL)) {
		pthread_kill(t, SIGUSR1);
		sched_yield();
	}
}

/* ---- and one of which a signalfd tells ---- */

static int fd, rt;

static void is_told(int sig, int value)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	struct signalfd_siginfo si;

	IS(poll(&p, 1, LONG_S * 1000), 1);
	IS(read(fd, &si, sizeof(si)), sizeof(si));
	IS(si.ssi_signo, sig);
	IS(si.ssi_pid, getpid());
	if (sig == rt)
		IS(si.ssi_int, value);
}

static void *is_told_of_others(void *unused)
{
	is_told(SIGUSR2, 0);
	is_told(rt, 1);
	is_told(rt, 2);
	return unused;
}

static void *is_told_of_itself(void *unused)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	const sigset_t usr2 = only(SIGUSR2);
	sigset_t set;

	IS(raise(SIGUSR2), 0);
	is_told(SIGUSR2, 0);
	IS(pthread_sigqueue(pthread_self(), rt, (union sigval){ 7 }), 0);
	IS(pthread_sigqueue(pthread_self(), rt, (union sigval){ 8 }), 0);
	is_told(rt, 7);
	is_told(rt, 8);
	IS(raise(SIGUSR2), 0);
	IS(sigpending(&set), 0);
	IS(sigismember(&set, SIGUSR2), 1);
	IS(sigwaitinfo(&usr2, NULL), SIGUSR2);
	IS(poll(&p, 1, 0), 0);
	return unused;
}

static void test_fd(int (*make)(const sigset_t *set))
{
	sigset_t set = only(SIGUSR2);
	pthread_t t;

	rt = SIGRTMIN + 3;
	sigaddset(&set, rt);
	IS(pthread_sigmask(SIG_BLOCK, &set, NULL), 0);
	/* Before there is one. */
	IS(raise(SIGUSR2), 0);
	fd = make(&set);
	CHECK(fd >= 0);
	is_told(SIGUSR2, 0);
	is_told_of_itself(NULL);
	IS(pthread_join(start(is_told_of_itself, NULL), NULL), 0);
	t = start(is_told_of_others, NULL);
	usleep(1000);
	IS(pthread_kill(t, SIGUSR2), 0);
	IS(pthread_sigqueue(t, rt, (union sigval){ 1 }), 0);
	IS(pthread_sigqueue(t, rt, (union sigval){ 2 }), 0);
	IS(pthread_join(t, NULL), 0);
	close(fd);
}

static int by_libc(const sigset_t *set)
{
	return signalfd(-1, set, SFD_CLOEXEC);
}

static int by_number(const sigset_t *set)
{
	return (int)syscall(SYS_signalfd4, -1, set, 8, SFD_CLOEXEC);
}

/* ---- and one that a thread has sent to itself, whoever comes next ---- */

static void *has_none(void *unused)
{
	sigset_t set, none;

	IS(sigpending(&set), 0);
	CHECK(!sigismember(&set, SIGUSR1));
	CHECK(!sigismember(&set, SIGRTMIN));
	sigemptyset(&none);
	IS(pthread_sigmask(SIG_SETMASK, &none, NULL), 0);
	usleep(1000);
	IS(handled, 0);
	return unused;
}

/* Before there are threads. */
static void test_first(void)
{
	sigset_t set = only(SIGUSR1), old;

	sigaddset(&set, SIGRTMIN);
	IS(pthread_sigmask(SIG_BLOCK, &set, &old), 0);
	IS(raise(SIGUSR1), 0);
	IS(pthread_sigqueue(pthread_self(), SIGRTMIN, (union sigval){ 0 }), 0);
	IS(pthread_sigqueue(pthread_self(), SIGRTMIN, (union sigval){ 0 }), 0);
	IS(pthread_join(start(has_none, NULL), NULL), 0);
	IS(handled, 0);
	IS(sigpending(&set), 0);
	IS(sigismember(&set, SIGUSR1), 1);
	IS(sigismember(&set, SIGRTMIN), 1);
	IS(pthread_sigmask(SIG_SETMASK, &old, NULL), 0);
	IS(handled, 3);
	handled = 0;
}

static void *becomes_another(void *unused)
{
	sigset_t set = only(SIGUSR1);

	IS(pthread_sigmask(SIG_BLOCK, &set, NULL), 0);
	IS(raise(SIGUSR1), 0);
	execl("/nowhere", "sent", (char *)NULL);
	IS(sigpending(&set), 0);
	IS(sigismember(&set, SIGUSR1), 1);
	execl("/proc/self/exe", "sent", "has it", (char *)NULL);
	return unused;
}

static void test_exec(void)
{
	int status, i;
	pid_t pid;

	for (i = 0; i < 2; i++) {
		pid = fork();
		if (!pid && i)
			becomes_another(NULL);
		if (!pid) {
			start(becomes_another, NULL);
			pause();
		}
		IS(waitpid(pid, &status, 0), pid);
		IS(status, 0);
	}
}

static int has_it(void)
{
	sigset_t set;

	IS(sigpending(&set), 0);
	IS(sigismember(&set, SIGUSR1), 1);
	return 0;
}

int main(int argc, char **argv)
{
	struct sigaction sa = { .sa_handler = on_signal };
	const sigset_t usr2 = only(SIGUSR2);

	(void)argv;
	if (argc > 1)
		return has_it();
	IS(sigaction(SIGUSR1, &sa, NULL), 0);
	IS(sigaction(SIGUSR2, &sa, NULL), 0);
	IS(sigaction(SIGRTMIN, &sa, NULL), 0);
	test_first();
	test_exec();
	IS(pthread_sigmask(SIG_BLOCK, &usr2, NULL), 0);
	is_sent_to(waits_for_another);
	is_sent_to(asks);
	is_sent_to(blocks_it);
	test_fd(by_libc);
	test_fd(by_number);
	return 0;
}
