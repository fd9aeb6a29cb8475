/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_signal_whose.c - a signal that comes to a kernel thread in a region, and is for
 * another than who runs there.
 */
#include <sys/mman.h>
#include <sys/syscall.h>

#include "preempt/preempt.h"
#include "signals/signals.h"
#include "ticks.h"

static uthread_sem_t go = UTHREAD_SEM_INITIALIZER(0);
static uthread_t whose;
static int came, handled_there;

/* What the program is told, and what the kernel has for this kernel thread. */
static int is_blocked(int sig)
{
	sigset_t told;
	uint64_t now = 0;

	CHECK(!pthread_sigmask(SIG_BLOCK, NULL, &told));
	CHECK(!syscall(SYS_rt_sigprocmask, SIG_BLOCK, NULL, &now, 8));
	CHECK_EQ(sigismember(&told, sig), (int)(now >> (sig - 1) & 1));
	return sigismember(&told, sig);
}

static void *waits_to_go(void *arg)
{
	CHECK_EQ(uthread_sem_wait(&go), 0);
	return arg;
}

static void on_its_own(int sig)
{
	(void)sig;
	CHECK(uthread_self() == whose);
	add(&handled_there, 1);
}

/* It comes in a region, and another is to handle it. */
static void is_sent_anothers(int sig)
{
	siginfo_t si;

	(void)sig;
	memset(&si, 0, sizeof(si));
	si.si_signo = SIGUSR2;
	si.si_code = SI_QUEUE;
	si.si_pid = getpid();
#if !UTHREAD_SAN
	whose_say(&si, whose);
#endif
	region_enter();
	CHECK(!syscall(SYS_rt_tgsigqueueinfo, getpid(), syscall(SYS_gettid),
		       SIGUSR2, &si));
	region_leave();
	CHECK(!is_blocked(SIGTERM) && !is_blocked(SIGUSR2));
	CHECK(is_blocked(SIGUSR1));
	add(&came, 1);
}

static void *is_in_a_handler(void *arg)
{
	CHECK(!raise(SIGUSR1));
	CHECK_EQ(load(&came), 1);
	CHECK(!is_blocked(SIGTERM) && !is_blocked(SIGUSR1));
	return arg;
}

/* Everything is blocked from where it came until it is seen whose it is. */
TEST(a_mask_comes_back_in_a_handler_behind_what_is_anothers)
{
	if (TEST_ASAN || TEST_TSAN)
		SKIP("sanitizers have functions of these names themselves");
	if (TEST_EMULATED)
		SKIP("qemu-user does not tell whose it is");
	CHECK(signal(SIGUSR1, is_sent_anothers) != SIG_ERR);
	CHECK(signal(SIGUSR2, on_its_own) != SIG_ERR);
	start_workers(1);
	whose = spawn(waits_to_go, NULL);
	in_uthread(is_in_a_handler, NULL);
	CHECK_EQ(uthread_sem_post(&go), 0);
	joined(whose);
	CHECK_EQ(load(&handled_there), 1);
}

#define IN_A_ROW 10
#define ROUNDS SCALE(20)

static int runs, others_run, stopped_on;

/* The first is stopped where the others wait for its end. */
static void comes_in_order(int sig, siginfo_t *si, void *uc)
{
	(void)sig;
	(void)uc;
	CHECK(uthread_self() == whose);
	CHECK_EQ(si->si_value.sival_int, load(&came));
	if (!load(&came)) {
		store(&stopped_on, uthread_worker());
		while (!load(&others_run))
			;
	}
	add(&came, 1);
}

#define LONG_CALL (4 << 20) /* bytes, in one that no signal ends */

static void *map(void *at, int flags)
{
	void *got = mmap(at, LONG_CALL, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);

	CHECK(got != MAP_FAILED);
	return got;
}

/* Mostly in the kernel, where a tick comes for several at once. It may end anywhere, and
 * leaves nothing mapped beside. */
static void *computes_till_all_came(void *area)
{
	store(&runs, 1);
	while (load(&came) < IN_A_ROW)
		map(area, MAP_FIXED | MAP_POPULATE);
	return area;
}

/* `whose` computes, and has been sent so many. */
static void begin_and_send(void *area)
{
	store(&runs, 0);
	whose = spawn(computes_till_all_came, area);
	while (!load(&runs))
		usleep(100);
	for (int n = 0; n < IN_A_ROW; n++)
		CHECK_EQ(uthread_sigqueue(whose, SIGRTMIN, (union sigval){ n }),
			 0);
}

static void *computes_beside_it(void *area)
{
	store(&others_run, 1);
	return computes_till_all_came(area);
}

/* Who blocks all and leaves that worker to nobody else before they came. */
static uthread_t spawn_deaf_on(int worker, void *area)
{
	sigset_t all, old;
	uthread_t ut;

	sigfillset(&all);
	CHECK(!pthread_sigmask(SIG_SETMASK, &all, &old));
	ut = spawn_on(worker, computes_beside_it, area);
	CHECK(!pthread_sigmask(SIG_SETMASK, &old, NULL));
	return ut;
}

/* A tick has sent them all to the kernel thread below: who goes on elsewhere while the first
 * is handled takes the others along. */
TEST(those_that_wait_for_a_handler_go_where_it_goes)
{
	struct sigaction sa = { .sa_sigaction = comes_in_order,
				.sa_flags = SA_SIGINFO };
	struct uthread_config c = { .size = sizeof(c),
				    .workers = 2,
				    .spares = -1 };
	uthread_t other;
	void *area;

	if (TEST_ASAN || TEST_TSAN)
		SKIP("no preemption, and sanitizers have functions of these names");
	if (TEST_EMULATED)
		SKIP("qemu-user does not tell whose it is");
	CHECK(!sigaction(SIGRTMIN, &sa, NULL));
	CHECK_EQ(uthread_init(&c), 0);
	area = map(NULL, 0);
	for (int i = 0; i < ROUNDS; i++) {
		store(&came, 0);
		store(&others_run, 0);
		store(&stopped_on, -1);
		begin_and_send(area);
		while (load(&stopped_on) < 0)
			usleep(100);
		other = spawn_deaf_on(load(&stopped_on), area);
		joined(whose);
		joined(other);
	}
}

#define ENDS SCALE(200)
#define PLACES 256 /* for those that a uthread has sent to itself and blocks */

static void ends_its_thread(int sig)
{
	(void)sig;
	uthread_exit(NULL);
}

static void *has_all_places(void *arg)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGRTMIN);
	CHECK(!pthread_sigmask(SIG_BLOCK, &set, NULL));
	for (int i = 0; i < PLACES; i++)
		CHECK_EQ(uthread_sigqueue(uthread_self(), SIGRTMIN,
					  (union sigval){ i }),
			 0);
	return arg;
}

/* Those behind the one in whose handler it ends are nobody's: there is room for others. */
TEST(what_is_for_one_that_ends_in_a_handler_is_forgotten)
{
	void *area;

	if (TEST_ASAN || TEST_TSAN)
		SKIP("no preemption, and sanitizers have functions of these names");
	if (TEST_EMULATED)
		SKIP("qemu-user does not tell whose it is");
	CHECK(signal(SIGRTMIN, ends_its_thread) != SIG_ERR);
	store(&came, 0);
	area = map(NULL, 0);
	for (int i = 0; i < ENDS; i++) {
		begin_and_send(area);
		joined(whose);
	}
	in_uthread(has_all_places, NULL);
}

#define SENT 10000
#define CROWD 2000

static void *sends_both(void *arg)
{
	while (load(&handled_there) < SENT) {
		kill(getpid(), SIGUSR2);
		kill(getpid(), SIGUSR1); /* while that one is given, often */
	}
	return arg;
}

static void *waits_for_many(void *arg)
{
	CHECK(!pthread_sigmask(SIG_UNBLOCK, arg, NULL));
	while (load(&handled_there) < SENT)
		CHECK_EQ(uthread_sem_wait(&go), 0);
	return arg;
}

/* One comes to a worker with nothing to run, which gives it to who waits, and another at any
 * instruction of that. The crowd, of which none lets them in, is there to make that long. */
TEST(what_comes_as_one_is_given_is_handled_in_its_uthread)
{
	static uthread_t crowd[CROWD];
	pthread_t sender;
	sigset_t both;

	if (TEST_ASAN || TEST_TSAN)
		SKIP("sanitizers have functions of these names themselves");
	if (TEST_EMULATED)
		SKIP("qemu-user: signals to the process come late, or to nobody");
	start(2);
	signal(SIGUSR1, on_its_own);
	signal(SIGUSR2, on_its_own);
	sigemptyset(&both);
	sigaddset(&both, SIGUSR1);
	sigaddset(&both, SIGUSR2);
	CHECK(!pthread_sigmask(SIG_BLOCK, &both, NULL));
	for (int i = 0; i < CROWD; i++)
		crowd[i] = spawn(waits_to_go, NULL);
	whose = spawn(waits_for_many, &both);
	CHECK(!pthread_create(&sender, NULL, sends_both, NULL));
	CHECK(!pthread_join(sender, NULL));
	for (int i = 0; i < CROWD + 1; i++)
		CHECK_EQ(uthread_sem_post(&go), 0);
	for (int i = 0; i < CROWD; i++)
		joined(crowd[i]);
	joined(whose);
}

TEST_MAIN()
