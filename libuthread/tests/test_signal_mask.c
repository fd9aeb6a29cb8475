/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_signal_mask.c - the signal mask and the alternate stack belong to the
 * uthread: they go where it goes, and no tick and no other uthread sees them.
 */
#include <sched.h>
#include <sys/syscall.h>

#include "ticks.h"

static uthread_sem_t go = UTHREAD_SEM_INITIALIZER(0);
static int came, by_whom;

static void on_signal(int sig)
{
	by_whom = sig;
	add(&came, 1);
}

static void handle(int sig, void (*handler)(int), int flags)
{
	struct sigaction sa;

	memset(&sa, 0, sizeof(sa));
	sa.sa_handler = handler;
	sa.sa_flags = flags;
	CHECK(!sigaction(sig, &sa, NULL));
}

static sigset_t only(int sig)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, sig);
	return set;
}

static void block(int how, int sig)
{
	const sigset_t set = only(sig);

	CHECK(!pthread_sigmask(how, &set, NULL));
}

static int is_blocked(int sig)
{
	sigset_t now;

	CHECK(!pthread_sigmask(SIG_BLOCK, NULL, &now));
	return sigismember(&now, sig);
}

/* What the kernel has for this kernel thread. */
static int is_blocked_really(int sig)
{
	uint64_t now = 0;

	CHECK(!syscall(SYS_rt_sigprocmask, SIG_BLOCK, NULL, &now, 8));
	return now >> (sig - 1) & 1;
}

/* ---- whose ---- */

static void *keeps_its_mask(void *arg)
{
	const int mine = *(int *)arg;

	CHECK(!is_blocked(SIGUSR1) && !is_blocked(SIGUSR2));
	block(SIG_BLOCK, mine);
	for (int i = 0; i < 1000; i++) {
		CHECK_EQ(is_blocked(SIGUSR1), mine == SIGUSR1);
		CHECK_EQ(is_blocked(SIGUSR2), mine == SIGUSR2);
		CHECK_EQ(is_blocked_really(SIGUSR1), mine == SIGUSR1);
		CHECK_EQ(is_blocked_really(SIGUSR2), mine == SIGUSR2);
		CHECK(!is_blocked_really(SIGURG));
		if (i % 50)
			uthread_yield();
		else
			uthread_sleep(10000);
	}
	return arg;
}

TEST(a_mask_goes_where_its_uthread_goes)
{
	static int which[] = { SIGUSR1, SIGUSR2, SIGTERM };
	uthread_t t[30];

	if (TEST_ASAN)
		SKIP("AddressSanitizer has functions of these names itself");
	start_workers(3);
	for (int i = 0; i < 30; i++)
		t[i] = spawn(keeps_its_mask, &which[i % 3]);
	for (int i = 0; i < 30; i++)
		joined(t[i]);
}

static void *tells_its_mask(void *arg)
{
	(void)arg;
	return (void *)(intptr_t)(is_blocked(SIGUSR1) | is_blocked(SIGUSR2)
								<< 1);
}

static void *inherits(void *arg)
{
	CHECK(in_uthread(tells_its_mask, NULL) == (void *)1);
	block(SIG_BLOCK, SIGUSR2);
	CHECK(in_uthread(tells_its_mask, NULL) == (void *)3);
	block(SIG_UNBLOCK, SIGUSR1);
	CHECK(in_uthread(tells_its_mask, NULL) == (void *)2);
	return arg;
}

TEST(a_mask_is_inherited_from_who_creates)
{
	if (TEST_ASAN)
		SKIP("AddressSanitizer has functions of these names itself");
	start_workers(2);
	CHECK(in_uthread(tells_its_mask, NULL) == (void *)0);
	block(SIG_BLOCK, SIGUSR1);
	in_uthread(inherits, NULL);
	CHECK(in_uthread(tells_its_mask, NULL) == (void *)1);
	CHECK(!is_blocked(SIGUSR2));
}

static void *blocks_all(void *arg)
{
	sigset_t all, now;

	sigfillset(&all);
	CHECK(!pthread_sigmask(SIG_SETMASK, &all, NULL));
	CHECK(!pthread_sigmask(SIG_SETMASK, NULL, &now));
	CHECK_EQ(sigismember(&now, SIGURG), 1); /* as it was told */
	CHECK(!is_blocked_really(SIGURG));
	store((int *)arg, 1);
	empty_loop(NULL);
	CHECK(is_blocked(SIGTERM));
	return arg;
}

static void *stops_it(void *arg)
{
	store(&stop, 1);
	return arg;
}

/* Ends only if the tick stops the one that computes. */
TEST(who_blocks_everything_is_stopped_by_its_tick)
{
	struct uthread_config c = config(1);
	int ready = 0;
	uthread_t a, b;

	if (TEST_ASAN)
		SKIP("no preemption under AddressSanitizer");
	c.spares = -1;
	CHECK_EQ(uthread_init(&c), 0);
	a = spawn(blocks_all, &ready);
	while (!load(&ready))
		usleep(100);
	b = spawn(stops_it, NULL);
	joined(a);
	joined(b);
	CHECK_EQ(stats().deferred[UTHREAD_DEFER_SIGNALS], 0);
}

static void *has_an_odd_mask(void *arg)
{
	block(SIG_BLOCK, SIGUSR1);
	CHECK_EQ(uthread_sem_post(&go), 0);
	empty_loop(NULL);
	CHECK(is_blocked_really(SIGUSR1));
	return arg;
}

static void *has_none(void *arg)
{
	CHECK_EQ(uthread_sem_post(&go), 0);
	while (!load(&stop))
		CHECK(!is_blocked_really(SIGUSR1));
	return arg;
}

TEST(ticks_exchange_masks)
{
	uthread_t t[6];

	start(2);
	for (int i = 0; i < 6; i++)
		t[i] = spawn(i % 2 ? has_an_odd_mask : has_none, NULL);
	for (int i = 0; i < 6; i++)
		CHECK_EQ(uthread_sem_wait(&go), 0);
	while (stats().preempted < 100)
		usleep(1000);
	store(&stop, 1);
	for (int i = 0; i < 6; i++)
		joined(t[i]);
}

/* ---- signals that wait ---- */

static void *sends_itself_a_blocked_one(void *arg)
{
	sigset_t set;

	block(SIG_BLOCK, SIGUSR1);
	CHECK(!raise(SIGUSR1));
	for (int i = 0; i < 20; i++)
		uthread_yield();
	uthread_sleep(1 * MS);
	CHECK_EQ(load(&came), 0);
	CHECK(!sigpending(&set));
	CHECK_EQ(sigismember(&set, SIGUSR1), 1);
	block(SIG_UNBLOCK, SIGUSR1);
	CHECK_EQ(load(&came), 1);
	CHECK(!sigpending(&set));
	CHECK_EQ(sigismember(&set, SIGUSR1), 0);

	block(SIG_BLOCK, SIGUSR1);
	CHECK(!raise(SIGUSR1));
	set = only(SIGUSR1);
	CHECK_EQ(sigwaitinfo(&set, NULL), SIGUSR1);
	CHECK_EQ(load(&came), 1);

	CHECK(!raise(SIGUSR1));
	sigemptyset(&set);
	errno = 0;
	CHECK_EQ(sigsuspend(&set), -1);
	CHECK_EQ(errno, EINTR);
	CHECK_EQ(load(&came), 2);
	CHECK(is_blocked(SIGUSR1));
	return arg;
}

static void *has_it_open(void *arg)
{
	while (!load(&stop))
		uthread_yield();
	return arg;
}

TEST(a_blocked_signal_to_itself_waits_for_its_uthread)
{
	uthread_t t[4];

	if (TEST_ASAN)
		SKIP("AddressSanitizer has functions of these names itself");
	handle(SIGUSR1, on_signal, 0);
	start_workers(2);
	for (int i = 0; i < 4; i++)
		t[i] = spawn(has_it_open, NULL);
	in_uthread(sends_itself_a_blocked_one, NULL);
	store(&stop, 1);
	for (int i = 0; i < 4; i++)
		joined(t[i]);
}

static void *pauses_until_it_came(void *arg)
{
	block(SIG_UNBLOCK, SIGUSR1);
	while (!load(&came))
		pause();
	return arg;
}

/* Without spares ticks end the call, and the handler may run in who computes. */
TEST(a_handler_elsewhere_ends_pause)
{
	struct uthread_config c = config(1);
	uthread_t pauser, loops;

	if (TEST_ASAN)
		SKIP("no preemption under AddressSanitizer");
	handle(SIGUSR1, on_signal, 0);
	c.spares = -1;
	CHECK_EQ(uthread_init(&c), 0);
	loops = spawn(empty_loop, NULL);
	block(SIG_BLOCK, SIGUSR1); /* main: for the worker */
	for (int i = 0; i < 30; i++) {
		store(&came, 0);
		pauser = spawn(pauses_until_it_came, NULL);
		do { /* one may come when it has looked, and not begun */
			usleep(5000);
			CHECK(!kill(getpid(), SIGUSR1));
		} while (uthread_tryjoin(pauser, NULL) == EBUSY);
	}
	store(&stop, 1);
	joined(loops);
}

static void *waits_for_any(void *arg)
{
	sigset_t all;
	int sig = 0;

	sigfillset(&all);
	CHECK(!pthread_sigmask(SIG_SETMASK, &all, NULL));
	store((int *)arg, 1);
	CHECK_EQ(sigwait(&all, &sig), 0);
	CHECK_EQ(sig, SIGUSR2);
	store(&stop, 1);
	return arg;
}

/* There are ticks all the while: two share what worker there is. */
TEST(sigwait_of_everything_returns_no_tick)
{
	struct uthread_stats st;
	uthread_t a, b, c;
	int ready = 0;

	block(SIG_BLOCK, SIGUSR2);
	start(1);
	a = spawn(waits_for_any, &ready);
	while (!load(&ready))
		usleep(100);
	b = spawn(empty_loop, NULL);
	c = spawn(empty_loop, NULL);
	do {
		st = stats();
		usleep(1000);
	} while (st.ticks < 20);
	CHECK(!load(&stop));
	CHECK(!kill(getpid(), SIGUSR2));
	joined(a);
	joined(b);
	joined(c);
}

static void *times_out(void *arg)
{
	const struct timespec t = { .tv_nsec = 20 * MS };
	const sigset_t set = only(SIGUSR1);
	const uint64_t start = test_now();

	block(SIG_BLOCK, SIGUSR1);
	CHECK_EQ(sigtimedwait(&set, NULL, &t), -1);
	CHECK_EQ(errno, EAGAIN);
	CHECK(test_now() - start >= 20 * MS);
	store(&stop, 1);
	return arg;
}

TEST(sigtimedwait_is_not_ended_by_a_tick)
{
	uthread_t a, b;

	start(1);
	b = spawn(empty_loop, NULL);
	a = spawn(times_out, NULL);
	joined(a);
	joined(b);
}

/* ---- signals for one uthread alone ---- */

static uthread_t the_one;
static int strange;

static void on_info(int sig, siginfo_t *si, void *uc)
{
	(void)uc;
	if (!uthread_equal(uthread_self(), the_one) || sig != SIGUSR1 ||
	    si->si_code != SI_USER || si->si_pid != getpid())
		add(&strange, 1);
	add(&came, 1);
}

static void *lets_it_in(void *arg)
{
	the_one = uthread_self();
	block(SIG_UNBLOCK, SIGUSR1);
	store((int *)arg, 1);
	while (!load(&stop))
		uthread_yield();
	return arg;
}

static void *has_it_blocked(void *arg)
{
	CHECK(is_blocked(SIGUSR1));
	while (!load(&stop))
		uthread_yield();
	return arg;
}

/* It often comes while the one gives its worker to another, or to nobody. */
TEST(a_signal_comes_to_who_lets_it_in)
{
	struct sigaction sa;
	int ready = 0;
	uthread_t t[2];

	if (TEST_ASAN)
		SKIP("AddressSanitizer has functions of these names itself");
	if (TEST_EMULATED)
		SKIP("signals to threads of a guest");
	memset(&sa, 0, sizeof(sa));
	sa.sa_sigaction = on_info;
	sa.sa_flags = SA_SIGINFO;
	CHECK(!sigaction(SIGUSR1, &sa, NULL));
	block(SIG_BLOCK, SIGUSR1);
	start_workers(1);
	t[0] = spawn(lets_it_in, &ready);
	while (!load(&ready))
		usleep(100);
	t[1] = spawn(has_it_blocked, NULL);
	for (int i = 1; i <= 500; i++) {
		CHECK(!kill(getpid(), SIGUSR1));
		while (load(&came) < i)
			sched_yield();
	}
	store(&stop, 1);
	joined(t[0]);
	joined(t[1]);
	CHECK_EQ(strange, 0);
}

/* ---- SIGPIPE ---- */

static void *writes_to_nobody(void *arg)
{
	int p[2];

	CHECK(!pipe(p));
	close(p[0]);
	CHECK_EQ(write(p[1], "x", 1), -1);
	CHECK_EQ(errno, EPIPE);
	return arg;
}

TEST_DIES(a_pipe_without_reader_ends_the_process, SIGPIPE, "")
{
	if (TEST_ASAN)
		raise(SIGPIPE);
	start_workers(1);
	in_uthread(writes_to_nobody, NULL);
}

TEST(a_pipe_without_reader_is_an_error_where_that_is_wished)
{
	signal(SIGPIPE, SIG_IGN);
	start_workers(1);
	in_uthread(writes_to_nobody, NULL);
	if (TEST_ASAN)
		return;
	signal(SIGPIPE, on_signal);
	in_uthread(writes_to_nobody, NULL);
	CHECK_EQ(came, 1);
	CHECK_EQ(by_whom, SIGPIPE);
}

/* ---- alternate stacks ---- */

static void *tells_its_stack(void *arg)
{
	stack_t now;

	CHECK(!sigaltstack(NULL, &now));
	CHECK_EQ(now.ss_flags, SS_DISABLE);
	return arg;
}

static char *its_stack;
static size_t its_size;

static void on_its_stack(int sig)
{
	stack_t now, none = { .ss_flags = SS_DISABLE };
	char here;

	(void)sig;
	CHECK(&here > its_stack && &here < its_stack + its_size);
	CHECK(!sigaltstack(NULL, &now));
	CHECK_EQ(now.ss_flags, SS_ONSTACK);
	CHECK_EQ(sigaltstack(&none, NULL), -1);
	CHECK_EQ(errno, EPERM);
	for (int i = 0; i < 3; i++)
		uthread_yield();
	add(&came, 1);
}

static void *uses_a_stack(void *arg)
{
	stack_t ss = { .ss_size = 64 << 10 }, none = { .ss_flags = SS_DISABLE };

	its_size = ss.ss_size;
	its_stack = (char *)malloc(its_size);
	memset(its_stack, 'x', its_size);
	ss.ss_sp = its_stack;
	CHECK(!sigaltstack(&ss, NULL));
	for (int i = 1; i <= 20; i++) {
		CHECK(!raise(SIGUSR1));
		CHECK_EQ(load(&came), i);
		uthread_yield();
	}
	CHECK(!sigaltstack(&none, &ss));
	CHECK(ss.ss_sp == its_stack);
	return arg;
}

TEST(an_alternate_stack_is_its_uthreads)
{
	uthread_t a, b;

	if (TEST_ASAN)
		SKIP("AddressSanitizer has alternate stacks of its own");
	handle(SIGUSR1, on_its_stack, SA_ONSTACK);
	start_workers(1);
	a = spawn(uses_a_stack, NULL);
	b = spawn(tells_its_stack, NULL);
	joined(a);
	joined(b);
}

static void *leaves_a_stack(void *arg)
{
	stack_t ss = { .ss_size = 64 << 10 };

	ss.ss_sp = its_stack = (char *)malloc(ss.ss_size);
	its_size = ss.ss_size;
	memset(its_stack, 'x', its_size);
	CHECK(!sigaltstack(&ss, NULL));
	return arg;
}

/* Ticks wrote there when it was the kernel thread's. */
TEST(an_alternate_stack_ends_with_its_uthread)
{
	uthread_t t[4];

	start(1);
	in_uthread(leaves_a_stack, NULL);
	in_uthread(tells_its_stack, NULL);
	for (int i = 0; i < 4; i++)
		t[i] = spawn(empty_loop, NULL);
	while (stats().preempted < 50)
		usleep(1000);
	store(&stop, 1);
	for (int i = 0; i < 4; i++)
		joined(t[i]);
	for (size_t i = 0; i < its_size; i++)
		CHECK_EQ(its_stack[i], 'x');
}

TEST_MAIN()
