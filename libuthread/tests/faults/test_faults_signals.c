/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_faults_signals.c - masks, handlers, alternate stacks, forks with these,
 * and many ends at once, when what the runtime asks for is refused.
 */
#include "ask.h"

#define CROWD 20

/* One uthread at a time: its TLS may be its worker's. */
static volatile int came, depth;

static bool again(int err)
{
	CHECK(!err || err == EAGAIN);
	return err == EAGAIN;
}

/* The kernel's queue of signals is full at most once. */
static void raise_it(int sig)
{
	int i, err = EAGAIN;

	for (i = 0; i < TRIES && again(err); i++)
		err = raise(sig) ? errno : 0;
	CHECK(!err);
}

static void queue_it(int sig, int value)
{
	union sigval v;
	int i, err = EAGAIN;

	v.sival_int = value;
	for (i = 0; i < TRIES && again(err); i++)
		err = pthread_sigqueue(pthread_self(), sig, v);
	CHECK(!err);
}

static void block(int how, int sig)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, sig);
	CHECK(!pthread_sigmask(how, &set, NULL));
}

static bool is_blocked(int sig)
{
	sigset_t set;

	CHECK(!pthread_sigmask(SIG_BLOCK, NULL, &set));
	return sigismember(&set, sig);
}

/* What was refused just then comes the next time. */
static void let_in(int sig)
{
	block(SIG_UNBLOCK, sig);
	block(SIG_BLOCK, sig);
	block(SIG_UNBLOCK, sig);
}

static bool handle(int sig, void (*handler)(int), int flags)
{
	struct sigaction sa;
	int i;

	memset(&sa, 0, sizeof(sa));
	sa.sa_handler = handler;
	sa.sa_flags = flags;
	for (i = 0; i < TRIES; i++) {
		if (!sigaction(sig, &sa, NULL))
			return true;
		CHECK_EQ(errno, EINVAL);
	}
	return hopeless();
}

static void on_signal(int sig)
{
	(void)sig;
	came++;
	uthread_yield();
}

static void on_nested(int sig)
{
	if (depth++ < 3)
		raise_it(sig);
	uthread_yield();
}

static void on_fork(int sig)
{
	int status;
	pid_t pid = fork();

	(void)sig;
	if (!pid) {
		alarm(TIME_S);
		one_of_each();
		_exit(0);
	}
	CHECK(pid > 0);
	CHECK(waitpid(pid, &status, 0) == pid);
	CHECK_EQ(status, 0);
}

static void *gets_signals(void *arg)
{
	const int queued = SIGRTMIN + 1;
	stack_t ss = { .ss_size = 64 << 10 };
	int i;

	came = depth = 0;
	if (!handle(SIGUSR1, on_signal, 0) || !handle(queued, on_signal, 0))
		return arg;
	block(SIG_BLOCK, SIGUSR1);
	block(SIG_BLOCK, queued);
	raise_it(SIGUSR1);
	for (i = 0; i < 3; i++)
		queue_it(queued, i);
	uthread_yield();
	CHECK_EQ(came, 0);
	let_in(SIGUSR1);
	CHECK_EQ(came, 1);
	let_in(queued);
	CHECK_EQ(came, 4);
	if (handle(SIGUSR2, on_nested, SA_NODEFER)) {
		raise_it(SIGUSR2);
		CHECK_EQ(depth, 4);
	}
	ss.ss_sp = malloc(ss.ss_size);
	CHECK(ss.ss_sp);
	CHECK(!sigaltstack(&ss, NULL));
	if (handle(SIGUSR2, on_signal, SA_ONSTACK)) {
		raise_it(SIGUSR2);
		CHECK_EQ(came, 5);
	}
	ss.ss_flags = SS_DISABLE;
	CHECK(!sigaltstack(&ss, NULL));
	free(ss.ss_sp);
	return arg;
}

static void signals(void)
{
	struct uthread_config c = { .workers = 2, .tick_ns = TICK };
	uthread_t t, other;
	bool there;
	int i;

	if (!start(&c))
		return;
	there = create(&other, NULL, busy, &stop);
	for (i = 0; i < 2; i++)
		if (create(&t, NULL, gets_signals, &c))
			join(t, &c);
	store(&stop, 1);
	if (there)
		join(other, &stop);
}

TEST(signals)
{
	need_ticks();
	every_fault(signals, 4, true);
}

/* ---- forks ---- */

static void *forks_with_a_mask(void *arg)
{
	block(SIG_BLOCK, SIGUSR1);
	block(SIG_BLOCK, SIGRTMIN + 1);
	queue_it(SIGRTMIN + 1, 1);
	on_fork(0);
	CHECK(is_blocked(SIGUSR1) && is_blocked(SIGRTMIN + 1));
	if (handle(SIGUSR2, on_fork, SA_NODEFER))
		raise_it(SIGUSR2);
	CHECK(is_blocked(SIGUSR1) && is_blocked(SIGRTMIN + 1));
	return arg;
}

static void forking(void)
{
	struct uthread_config c = { .workers = 2, .tick_ns = TICK };
	uthread_t t;

	if (start(&c) && create(&t, NULL, forks_with_a_mask, &c))
		join(t, &c);
}

TEST(forks_with_masks)
{
	need_ticks();
	need_threads_in_a_child();
	every_fault(forking, 4, false);
}

/* ---- many ends at once, with signals that wait ---- */

static uthread_sem_t waiting = UTHREAD_SEM_INITIALIZER(0);

static void *ends_with_others(void *arg)
{
	block(SIG_BLOCK, SIGRTMIN + 1);
	queue_it(SIGRTMIN + 1, 1);
	CHECK_EQ(uthread_sem_post(&waiting), 0);
	CHECK_EQ(uthread_sem_wait(&go), 0);
	if (*(int *)arg % 2)
		uthread_exit(arg);
	return arg;
}

static void mass_exit(void)
{
	struct uthread_config c = { .workers = 2, .tick_ns = TICK };
	uthread_t t[CROWD];
	int value[CROWD], round, i, n;

	if (!start(&c))
		return;
	for (round = 0; round < 2; round++) {
		for (i = n = 0; i < CROWD; i++) {
			value[n] = i;
			n += create(&t[n], NULL, ends_with_others, &value[n]);
		}
		for (i = 0; i < n; i++)
			CHECK_EQ(uthread_sem_wait(&waiting), 0);
		for (i = 0; i < n; i++)
			CHECK_EQ(uthread_sem_post(&go), 0);
		for (i = 0; i < n; i++)
			join(t[i], &value[i]);
	}
}

TEST(mass_exit)
{
	need_ticks();
	every_fault(mass_exit, 7, false);
}

TEST_MAIN()
