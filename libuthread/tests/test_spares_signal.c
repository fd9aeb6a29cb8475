/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_spares_signal.c - who waits for a signal does so for long: a spare stands in at
 * once. Who is taken in a call, as no spare is left, has its mask when that is done.
 */
#include <signal.h>
#include <sys/syscall.h>

#include "spares.h"

static void ends_a_wait(int sig)
{
	(void)sig;
}

static void *waits_for_signal(void *arg)
{
	sigset_t all;

	sigfillset(&all);
	sigdelset(&all, SIGUSR1);
	CHECK_EQ(sigsuspend(&all), -1);
	return arg;
}

/* So collectors of garbage stop threads. The tick that finds one sees a call that has
 * ended, for sigsuspend() does at any handler. */
TEST(there_are_as_many_as_uthreads_that_wait_for_a_signal)
{
	const struct sigaction sa = { .sa_handler = ends_a_wait };
	uthread_t t[MANY];
	sigset_t usr1;

	start(2, 2 * MANY);
	sigemptyset(&usr1);
	sigaddset(&usr1, SIGUSR1);
	CHECK(!sigprocmask(SIG_BLOCK, &usr1, NULL));
	CHECK(!sigaction(SIGUSR1, &sa, NULL));
	for (int i = 0; i < MANY; i++)
		t[i] = spawn(waits_for_signal, NULL);
	until_used(MANY - 2);
	for (int i = 0; i < MANY; i++)
		CHECK_EQ(uthread_kill(t[i], SIGUSR1), 0);
	for (int i = 0; i < MANY; i++)
		joined(t[i]);
	CHECK_EQ(stats().blocked_refused, 0);
}

static int ended;

static void *suspends(void *arg)
{
	waits_for_signal(NULL);
	store(&ended, 1);
	return arg;
}

static void *takes_signal(void *arg)
{
	sigset_t usr1;
	int sig;

	sigemptyset(&usr1);
	sigaddset(&usr1, SIGUSR1);
	CHECK_EQ(sigwait(&usr1, &sig), 0);
	store(&ended, 1);
	return arg;
}

static void *pauses(void *arg)
{
	sigset_t usr1;

	sigemptyset(&usr1);
	sigaddset(&usr1, SIGUSR1);
	CHECK(!sigprocmask(SIG_UNBLOCK, &usr1, NULL));
	CHECK_EQ(pause(), -1);
	CHECK(!sigprocmask(SIG_BLOCK, &usr1, NULL));
	store(&ended, 1);
	return arg;
}

/* Nobody waits behind it, and so no tick comes. (The first may come before there is
 * a spare.) */
TEST(who_waits_for_a_signal_gives_its_worker_away_at_once)
{
	static void *(*const waits[])(void *) = { suspends, takes_signal,
						  pauses };
	const struct sigaction sa = { .sa_handler = ends_a_wait };
	uint64_t before;
	sigset_t usr1;
	uthread_t t;

	start(2, 20);
	sigemptyset(&usr1);
	sigaddset(&usr1, SIGUSR1);
	CHECK(!sigprocmask(SIG_BLOCK, &usr1, NULL));
	CHECK(!sigaction(SIGUSR1, &sa, NULL));
	for (size_t i = 0; i < sizeof(waits) / sizeof(*waits); i++) {
		before = stats().blocked;
		do {
			store(&ended, 0);
			t = spawn(waits[i], NULL);
			do {
				usleep(1000);
				uthread_kill(t, SIGUSR1);
			} while (!load(&ended));
			joined(t);
		} while (stats().blocked == before);
	}
}

static void *spins(void *arg)
{
	while (!load(&ended))
		;
	return arg;
}

/* Of the kernel thread that it runs on. */
static uint64_t blocked_really(void)
{
	uint64_t now = 0;

	CHECK(!syscall(SYS_rt_sigprocmask, SIG_BLOCK, NULL, &now, sizeof(now)));
	return now;
}

static void *runs_commands(void *arg)
{
	const uint64_t before = blocked_really();
	sigset_t now;

	for (int i = 0; i < 5; i++) {
		CHECK_EQ(system("exec sleep 0.02"), 0);
		CHECK(!sigprocmask(SIG_BLOCK, NULL, &now));
		CHECK(!sigismember(&now, SIGCHLD));
		for (int turn = 0; turn < 3; turn++) {
			uthread_yield();
			CHECK_EQ(blocked_really(), before);
		}
	}
	return arg;
}

/* libc blocks SIGCHLD meanwhile, of which nobody hears. */
TEST(who_is_taken_in_system_has_its_mask_behind_it)
{
	uthread_t waiting, spinning, running;

	start(1, 1);
	block(&waiting, 1);
	store(&ended, 0);
	spinning = spawn(spins, NULL);
	until_used(1);
	running = spawn(runs_commands, NULL);
	joined(running);
	store(&ended, 1);
	joined(spinning);
	unblock(&waiting, 1);
}

TEST_MAIN()
