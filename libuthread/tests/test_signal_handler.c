/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_signal_handler.c - the program's handlers in uthreads: they wait, move
 * to other workers, are left by a jump, and post semaphores wherever they come.
 */
#include <sched.h>
#include <setjmp.h>
#include <sys/syscall.h>
#include <sys/time.h>

#include "ticks.h"

static int came, wrong;

static void handle(int sig, void (*handler)(int, siginfo_t *, void *),
		   int flags)
{
	struct sigaction sa;

	if (TEST_ASAN)
		SKIP("AddressSanitizer has functions of these names itself");
	memset(&sa, 0, sizeof(sa));
	sa.sa_sigaction = handler;
	sa.sa_flags = flags | SA_SIGINFO;
	CHECK(!sigaction(sig, &sa, NULL));
}

/* ---- what the program is told ---- */

static void does_nothing(int sig, siginfo_t *si, void *uc)
{
	(void)sig;
	(void)si;
	(void)uc;
}

static void simple(int sig)
{
	(void)sig;
	add(&came, 1);
}

TEST(sigaction_says_what_it_was_told)
{
	struct sigaction sa;

	handle(SIGUSR1, does_nothing, SA_NODEFER | SA_ONSTACK);
	start_workers(1);
	for (int i = 0; i < 2; i++) {
		CHECK(!sigaction(SIGUSR1, NULL, &sa));
		CHECK(sa.sa_sigaction == does_nothing);
		CHECK(sa.sa_flags & SA_NODEFER && sa.sa_flags & SA_ONSTACK);
		handle(SIGUSR1, does_nothing, SA_NODEFER | SA_ONSTACK);
	}
	CHECK(signal(SIGUSR1, simple) != SIG_ERR);
	CHECK(!raise(SIGUSR1));
	CHECK(signal(SIGUSR1, SIG_IGN) == simple);
	CHECK(!raise(SIGUSR1));
	CHECK(signal(SIGUSR1, SIG_DFL) == SIG_IGN);
	CHECK_EQ(came, 1);
	handle(SIGUSR1, does_nothing, (int)SA_RESETHAND);
	CHECK(!raise(SIGUSR1));
	CHECK(!sigaction(SIGUSR1, NULL, &sa));
	CHECK(sa.sa_handler == SIG_DFL);
}

static void *sets_the_ticks_signal(void *arg)
{
	CHECK(signal(SIGURG, simple) == SIG_DFL);
	CHECK(!raise(SIGURG));
	CHECK_EQ(load(&came), 1);
	store(&stop, 1);
	return arg;
}

TEST(the_ticks_signal_can_be_the_programs_too)
{
	uthread_t a, b;

	start(1);
	a = spawn(empty_loop, NULL);
	b = spawn(sets_the_ticks_signal, NULL);
	joined(a); /* by a tick: it is the only worker */
	joined(b);
	CHECK(!kill(getpid(), SIGURG));
	CHECK_EQ(load(&came), 2);
}

#define RAISES SCALE(50000)

static void *raises_the_ticks_signal(void *arg)
{
	CHECK(signal(SIGURG, simple) == SIG_DFL);
	for (int i = 1; i <= RAISES; i++) {
		CHECK(!raise(SIGURG));
		CHECK_EQ(load(&came), i);
	}
	store(&stop, 1);
	return arg;
}

/* Also when a tick is pending just then. */
TEST(each_that_is_raised_comes_beside_ticks)
{
	uthread_t a, b;

	start(1);
	a = spawn(empty_loop, NULL);
	b = spawn(raises_the_ticks_signal, NULL);
	joined(b);
	joined(a);
}

/* ---- handlers that wait ---- */

static _Thread_local int mine;

static void waits(int sig, siginfo_t *si, void *uc)
{
	const uthread_t me = uthread_self();
	const int value = mine;

	(void)sig;
	(void)si;
	(void)uc;
	for (int i = 0; i < 3; i++)
		uthread_yield();
	uthread_sleep(20000);
	if (uthread_self() != me || mine != value)
		add(&wrong, 1);
	add(&came, 1);
}

static int bits(void)
{
	volatile int n = 0;

	for (int i = 0; i < 2000; i++)
		n += i & 1;
	return n;
}

static void *signals_itself_often(void *arg)
{
	const int n = SCALE(200);

	for (int i = 1; i <= n; i++) {
		volatile double x = 0.5 * i;

		mine = i;
		CHECK(!raise(i % 2 ? SIGUSR1 : SIGUSR2));
		CHECK_EQ(mine, i);
		CHECK(x == 0.5 * i);
		CHECK_EQ(bits(), 1000);
	}
	return arg;
}

/* The frames of many wait on their stacks, and come back on other workers. */
static void handlers_wait(int flags)
{
	uthread_t t[16];

	handle(SIGUSR1, waits, flags);
	handle(SIGUSR2, waits, flags);
	start(3);
	for (int i = 0; i < 16; i++)
		t[i] = spawn(signals_itself_often, NULL);
	for (int i = 0; i < 16; i++)
		joined(t[i]);
	CHECK_EQ(wrong, 0);
	CHECK_EQ(came, 16 * SCALE(200));
}

TEST(a_handler_may_wait)
{
	handlers_wait(0);
}

TEST(a_handler_with_nodefer_may_wait)
{
	handlers_wait(SA_NODEFER);
}

TEST(a_handler_with_onstack_may_wait)
{
	handlers_wait(SA_ONSTACK);
}

static void moves(int sig, siginfo_t *si, void *uc)
{
	(void)sig;
	(void)si;
	(void)uc;
	migrate();
	add(&came, 1);
}

static void *moves_in_handlers(void *arg)
{
	/* Each worker's own alternate stack must be left: then a tick on it
	 * does not write where another's is. */
	for (int i = 1; i <= 20; i++) {
		CHECK(!raise(SIGUSR1));
		CHECK_EQ(load(&came), i);
	}
	return arg;
}

static void handlers_move(int flags)
{
	uthread_t t[6];

	handle(SIGUSR1, moves, flags);
	start(3);
	for (int i = 0; i < 6; i++)
		t[i] = spawn(empty_loop, NULL);
	in_uthread(moves_in_handlers, NULL);
	/* All of them on alternate stacks at once. */
	while (stats().preempted < 300)
		usleep(1000);
	store(&stop, 1);
	for (int i = 0; i < 6; i++)
		joined(t[i]);
}

TEST(a_handler_may_move)
{
	handlers_move(0);
}

TEST(a_handler_with_nodefer_may_move)
{
	handlers_move(SA_NODEFER);
}

static void checks_its_mask(int sig, siginfo_t *si, void *uc)
{
	sigset_t now;

	(void)si;
	(void)uc;
	for (int i = 0; i < 5; i++) {
		CHECK(!pthread_sigmask(SIG_BLOCK, NULL, &now));
		CHECK_EQ(sigismember(&now, sig), sig == SIGUSR1);
		CHECK_EQ(sigismember(&now, SIGTERM), 0);
		uthread_yield();
	}
	add(&came, 1);
}

static void *handler_masks(void *arg)
{
	sigset_t now;

	for (int i = 1; i <= 50; i++) {
		CHECK(!raise(SIGUSR1));
		CHECK(!raise(SIGUSR2));
		CHECK(!pthread_sigmask(SIG_BLOCK, NULL, &now));
		CHECK_EQ(sigismember(&now, SIGUSR1), 0);
		uthread_yield();
	}
	return arg;
}

TEST(a_handlers_mask_goes_along)
{
	uthread_t t[8];

	handle(SIGUSR1, checks_its_mask, 0);
	handle(SIGUSR2, checks_its_mask, SA_NODEFER);
	start(2);
	for (int i = 0; i < 8; i++)
		t[i] = spawn(handler_masks, NULL);
	for (int i = 0; i < 8; i++)
		joined(t[i]);
	CHECK_EQ(came, 800);
}

/* ---- left by a jump ---- */

static void jumps(int sig, siginfo_t *si, void *uc)
{
	(void)sig;
	(void)si;
	(void)uc;
	uthread_yield();
	siglongjmp(**(sigjmp_buf **)uthread_getspecific(0), 1);
}

static volatile int *volatile nowhere = (volatile int *)8;

static void *faults(void *arg)
{
	sigjmp_buf env, *p = &env;
	sigset_t now;

	CHECK_EQ(uthread_setspecific(0, &p), 0);
	for (int i = 0; i < 100; i++) {
		if (!sigsetjmp(env, 1)) {
			if (i % 2)
				*nowhere = 1;
			else
				raise(SIGUSR1);
			CHECK(0);
		}
		uthread_yield();
		CHECK(!pthread_sigmask(SIG_BLOCK, NULL, &now));
		CHECK_EQ(sigismember(&now, SIGUSR1), 0);
		CHECK_EQ(sigismember(&now, SIGSEGV), 0);
	}
	return arg;
}

static void handlers_jump(int flags)
{
	uthread_key_t key;
	uthread_t t[8];

	handle(SIGUSR1, jumps, flags);
	handle(SIGSEGV, jumps, flags);
	start(2);
	CHECK_EQ(uthread_key_create(&key, NULL), 0);
	CHECK_EQ(key, 0);
	for (int i = 0; i < 8; i++)
		t[i] = spawn(faults, NULL);
	for (int i = 0; i < 8; i++)
		joined(t[i]);
}

TEST(a_handler_may_be_left_by_a_jump)
{
	handlers_jump(0);
}

TEST(a_handler_with_onstack_may_be_left_by_a_jump)
{
	handlers_jump(SA_ONSTACK);
}

/* ---- others come meanwhile ---- */

static const int others[] = { SIGUSR2, SIGALRM, SIGPROF, SIGIO };
static pid_t kernel_thread;

static void *sends_others(void *arg)
{
	for (unsigned n = 0; !load(&stop); n++) {
		syscall(SYS_tgkill, getpid(), kernel_thread, others[n % 4]);
		for (int i = 0; i < 100; i++)
			__asm__ volatile("" : : : "memory");
	}
	return arg;
}

/* A handler that ends in a region leaves nothing blocked, whatever comes at whichever
 * instruction. */
static void *sends_to_itself_among_others(void *arg)
{
	/* Or as many as a busy machine has time for. */
	const uint64_t end = test_now() + 20000 * MS;
	sigset_t own, set;
	pthread_t p;

	kernel_thread = (pid_t)syscall(SYS_gettid);
	/* It lets none in. */
	sigfillset(&set);
	CHECK(!pthread_sigmask(SIG_SETMASK, &set, NULL));
	CHECK(!pthread_create(&p, NULL, sends_others, NULL));
	sigemptyset(&own);
	sigaddset(&own, SIGHUP);
	CHECK(!pthread_sigmask(SIG_SETMASK, &own, NULL));
	for (int i = 0; i < SCALE(400000) && test_now() < end; i++) {
		CHECK(!raise(SIGUSR1));
		CHECK(!pthread_sigmask(SIG_BLOCK, NULL, &set));
		CHECK(!memcmp(&set, &own, 8));
	}
	store(&stop, 1);
	CHECK(!pthread_join(p, NULL));
	return arg;
}

TEST(a_mask_comes_back_behind_a_handler)
{
	handle(SIGUSR1, does_nothing, 0);
	for (int i = 0; i < 4; i++)
		handle(others[i], does_nothing, 0);
	start_workers(1);
	joined(spawn(sends_to_itself_among_others, NULL));
}

/* ---- semaphores ---- */

static uthread_sem_t sem;

static void posts(int sig, siginfo_t *si, void *uc)
{
	(void)sig;
	(void)si;
	(void)uc;
	if (uthread_sem_post(&sem))
		add(&wrong, 1);
	add(&came, 1);
}

static void *posts_and_takes(void *arg)
{
	while (!load(&stop)) {
		CHECK_EQ(uthread_sem_post(&sem), 0);
		CHECK_EQ(uthread_sem_wait(&sem), 0);
	}
	return arg;
}

/* It comes in the midst of posts and waits of the same semaphore. */
static void post_in_handlers(int uthreads, int pthreads)
{
	const struct itimerval often = { { 0, 200 }, { 0, 200 } };
	const struct itimerval never = { { 0, 0 }, { 0, 0 } };
	pthread_t p[4];
	uthread_t t[8];
	int value;

	handle(SIGALRM, posts, SA_RESTART);
	if (uthreads)
		start(2);
	for (int i = 0; i < uthreads; i++)
		t[i] = spawn(posts_and_takes, NULL);
	for (int i = 0; i < pthreads; i++)
		CHECK(!pthread_create(&p[i], NULL, posts_and_takes, NULL));
	if (uthreads) { /* not to this thread, but to theirs */
		sigset_t set;

		sigemptyset(&set);
		sigaddset(&set, SIGALRM);
		CHECK(!pthread_sigmask(SIG_BLOCK, &set, NULL));
	}
	CHECK(!setitimer(ITIMER_REAL, &often, NULL));
	if (!uthreads && !pthreads)
		while (load(&came) < 1000) {
			CHECK_EQ(uthread_sem_post(&sem), 0);
			CHECK_EQ(uthread_sem_wait(&sem), 0);
		}
	while (load(&came) < 1000)
		usleep(1000);
	CHECK(!setitimer(ITIMER_REAL, &never, NULL));
	store(&stop, 1);
	for (int i = 0; i < uthreads; i++)
		joined(t[i]);
	for (int i = 0; i < pthreads; i++)
		CHECK(!pthread_join(p[i], NULL));
	CHECK_EQ(wrong, 0);
	CHECK_EQ(uthread_sem_getvalue(&sem, &value), 0);
	CHECK_EQ(value, load(&came)); /* none is lost */
}

TEST(a_handler_posts_in_a_pthread)
{
	post_in_handlers(0, 0);
}

TEST(a_handler_posts_in_uthreads)
{
	post_in_handlers(6, 0);
}

TEST(a_handler_posts_in_both)
{
	post_in_handlers(4, 3);
}

static int took;

static void *takes_posts(void *arg)
{
	for (int i = 0; i < *(int *)arg; i++) {
		CHECK_EQ(uthread_sem_wait(&sem), 0);
		add(&took, 1);
	}
	return arg;
}

/* Nobody else posts, and no other signal comes that would end its sleep. */
static void post_by_who_waits(int flags)
{
	int rounds = SCALE(1000);
	pthread_t p;

	handle(SIGUSR1, posts, flags);
	CHECK(!pthread_create(&p, NULL, takes_posts, &rounds));
	for (int i = 1; i <= rounds; i++) {
		if (i % 8 == 0)
			usleep(200); /* else it may not sleep yet */
		CHECK(!pthread_kill(p, SIGUSR1));
		while (load(&took) < i)
			sched_yield();
	}
	CHECK(!pthread_join(p, NULL));
	CHECK_EQ(wrong, 0);
}

TEST(a_handler_posts_what_its_pthread_waits_for)
{
	post_by_who_waits(0);
}

TEST(a_handler_posts_what_its_pthread_waits_for_and_sleeps_on)
{
	post_by_who_waits(SA_RESTART);
}

/* ---- nobody runs ---- */

static void notes_who(int sig, siginfo_t *si, void *uc)
{
	(void)sig;
	(void)si;
	(void)uc;
	add(&came, 1);
	if (uthread_sem_post(&sem))
		add(&wrong, 1);
}

static void *waits_for_the_handler(void *arg)
{
	CHECK_EQ(uthread_sem_wait(&sem), 0);
	return arg;
}

/* The workers sleep; main blocks it. */
TEST(a_signal_wakes_an_idle_worker)
{
	sigset_t set;
	uthread_t t;

	handle(SIGUSR1, notes_who, 0);
	start_workers(2);
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	for (int i = 1; i <= 50; i++) {
		CHECK(!pthread_sigmask(SIG_UNBLOCK, &set, NULL));
		t = spawn(waits_for_the_handler, NULL);
		CHECK(!pthread_sigmask(SIG_BLOCK, &set, NULL));
		usleep((useconds_t)i * 20);
		CHECK(!kill(getpid(), SIGUSR1));
		while (load(&came) < i)
			usleep(100);
		joined(t);
	}
	CHECK_EQ(wrong, 0);
}

TEST_MAIN()
