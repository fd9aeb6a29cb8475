/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_signal_queue.c - signals with a real-time number that a uthread sends to
 * itself wait in order, with their values; of the others one waits.
 */
#include "ticks.h"

#define MANY 20

static volatile int came, last_code;
static volatile int values[2000];

static void on_value(int sig, siginfo_t *si, void *uc)
{
	(void)uc;
	CHECK_EQ(si->si_signo, sig);
	CHECK_EQ(si->si_pid, getpid());
	last_code = si->si_code;
	values[came++] = si->si_value.sival_int;
}

static void block(int how, int sig)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, sig);
	CHECK(!pthread_sigmask(how, &set, NULL));
}

static void handle(int sig)
{
	struct sigaction sa;

	memset(&sa, 0, sizeof(sa));
	sa.sa_sigaction = on_value;
	sa.sa_flags = SA_SIGINFO;
	CHECK(!sigaction(sig, &sa, NULL));
}

static int queue(int sig, int value)
{
	union sigval v;

	v.sival_int = value;
	return pthread_sigqueue(pthread_self(), sig, v);
}

static void *queues(void *arg)
{
	const int sig = SIGRTMIN + 2, other = SIGRTMIN + 1;
	sigset_t set;
	siginfo_t si;
	int i;

	handle(sig);
	handle(other);
	CHECK_EQ(queue(sig, 7), 0);
	CHECK(came == 1 && values[0] == 7 && last_code == SI_QUEUE);

	/* Waited for. */
	block(SIG_BLOCK, sig);
	block(SIG_BLOCK, other);
	for (i = 0; i < MANY; i++) {
		CHECK_EQ(queue(sig, i), 0);
		uthread_yield();
	}
	CHECK(!raise(sig));
	CHECK_EQ(queue(other, 100), 0);
	CHECK(!sigpending(&set));
	CHECK(sigismember(&set, sig) == 1 && sigismember(&set, other) == 1);
	CHECK_EQ(came, 1);
	sigemptyset(&set);
	sigaddset(&set, sig);
	sigaddset(&set, other);
	CHECK_EQ(sigwaitinfo(&set, &si), other);
	CHECK_EQ(si.si_value.sival_int, 100);
	for (i = 0; i < MANY; i++) {
		CHECK_EQ(sigwaitinfo(&set, &si), sig);
		CHECK_EQ(si.si_value.sival_int, i);
		CHECK_EQ(si.si_code, SI_QUEUE);
	}
	CHECK_EQ(sigwaitinfo(&set, &si), sig);
	CHECK_EQ(si.si_code, SI_TKILL);
	CHECK(!sigpending(&set));
	CHECK_EQ(sigismember(&set, sig), 0);

	/* Let in. */
	came = 0;
	for (i = 0; i < MANY; i++)
		CHECK_EQ(queue(sig, i), 0);
	CHECK_EQ(queue(other, 100), 0);
	CHECK_EQ(came, 0);
	block(SIG_UNBLOCK, sig);
	CHECK_EQ(came, MANY);
	block(SIG_UNBLOCK, other);
	CHECK_EQ(came, MANY + 1);
	for (i = 0; i < MANY; i++)
		CHECK_EQ(values[i], i);
	CHECK_EQ(values[MANY], 100);
	return arg;
}

static void need_signals(void)
{
	if (TEST_ASAN)
		SKIP("AddressSanitizer has functions of these names itself");
}

TEST(real_time_signals_to_oneself_are_queued)
{
	need_signals();
	start_workers(1);
	in_uthread(queues, NULL);
}

static void *queues_another(void *arg)
{
	handle(SIGUSR1);
	block(SIG_BLOCK, SIGUSR1);
	for (int i = 1; i <= 3; i++)
		CHECK_EQ(queue(SIGUSR1, i), 0);
	block(SIG_UNBLOCK, SIGUSR1);
	CHECK(came == 1 && values[0] == 1 && last_code == SI_QUEUE);
	return arg;
}

TEST(of_an_ordinary_signal_one_waits)
{
	need_signals();
	start_workers(1);
	in_uthread(queues_another, NULL);
}

/* It ends with what waits. */
static void *fills(void *arg)
{
	int n = 0, err;

	block(SIG_BLOCK, SIGRTMIN + 1);
	while (n < 2000 && !(err = queue(SIGRTMIN + 1, n)))
		n++;
	CHECK(n == 2000 || err == EAGAIN);
	CHECK(n >= 32); /* _POSIX_SIGQUEUE_MAX */
	*(int *)arg = n;
	return arg;
}

static void *fills_and_lets_in(void *arg)
{
	int n = 0;

	fills(&n);
	/* An ordinary one has no need of a place. */
	handle(SIGUSR1);
	block(SIG_BLOCK, SIGUSR1);
	CHECK(!raise(SIGUSR1));
	block(SIG_UNBLOCK, SIGUSR1);
	CHECK_EQ(came, 1);
	came = 0;
	handle(SIGRTMIN + 1);
	block(SIG_UNBLOCK, SIGRTMIN + 1);
	CHECK_EQ(came, n);
	for (int i = 0; i < n; i++)
		CHECK_EQ(values[i], i);
	return arg;
}

TEST(who_queues_too_many_is_told)
{
	int n = 0, again = 0;

	need_signals();
	start_workers(2);
	in_uthread(fills, &n);
	in_uthread(fills, &again);
	CHECK_EQ(again, n);
	in_uthread(fills_and_lets_in, NULL);
}

static void *leaves_them_to_its_child(void *arg)
{
	sigset_t set;
	int status, n = 0;
	pid_t pid;

	fills(&n);
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		CHECK(!sigpending(&set));
		CHECK_EQ(sigismember(&set, SIGRTMIN + 1), 0);
		fills(&n);
		_exit(n < 32);
	}
	CHECK(waitpid(pid, &status, 0) == pid);
	CHECK_EQ(status, 0);
	CHECK(!sigpending(&set));
	CHECK_EQ(sigismember(&set, SIGRTMIN + 1), 1);
	return arg;
}

TEST(a_child_begins_without_them)
{
	need_signals();
	start_workers(1);
	in_uthread(leaves_them_to_its_child, NULL);
}

TEST_MAIN()
