/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_signal_jump.c - handlers that do not return: they leave what they have
 * interrupted by siglongjmp(), setcontext() or uthread_exit(), a call of libc's that a
 * tick must not end (preempt/calls.c) among it.
 */
#include <poll.h>
#include <setjmp.h>
#include <sys/syscall.h>
#include <ucontext.h>

#include "sched/sched.h"
#include "ticks.h"

#define ROUNDS 50

static sigjmp_buf env;
static ucontext_t context;
static volatile int by_context;
static int asleep, left;

static void leave(int sig)
{
	(void)sig;
	add(&left, 1);
	if (by_context)
		setcontext(&context);
	siglongjmp(env, 1);
}

static void handle(int sig, void (*handler)(int), int flags)
{
	struct sigaction sa;

	memset(&sa, 0, sizeof(sa));
	sa.sa_handler = handler;
	sa.sa_flags = flags;
	CHECK(!sigaction(sig, &sa, NULL));
}

/* Where the call had its record is the program's own again: a call that libc
 * makes by itself, and that ticks end, must not be written down there. */
static __attribute__((noinline)) void use_the_stack(void)
{
	const struct timespec t = test_time(5 * MS);
	volatile char mine[16 << 10];
	const uint64_t ticks = stats().ticks;

	for (size_t i = 0; i < sizeof(mine); i++)
		mine[i] = 'x';
	while (stats().ticks < ticks + 2)
		syscall(SYS_nanosleep, &t, NULL);
	for (size_t i = 0; i < sizeof(mine); i++)
		CHECK_EQ(mine[i], 'x');
}

static void *waits_and_is_left(void *arg)
{
	const struct timespec t = { 60, 0 };
	sigset_t usr1;
	volatile int i;

	sigemptyset(&usr1);
	sigaddset(&usr1, SIGUSR1);
	CHECK(!pthread_sigmask(SIG_UNBLOCK, &usr1, NULL));
	for (i = 0; i < ROUNDS; i++) {
		const int before = load(&left);

		if (by_context)
			CHECK(!getcontext(&context));
		if (load(&left) == before && !sigsetjmp(env, 1)) {
			store(&asleep, 1);
			CHECK_EQ(nanosleep(&t, NULL), -1);
			CHECK(0);
		}
		CHECK_EQ(load(&left), before + 1);
		use_the_stack();
	}
	store(&stop, 1);
	return arg;
}

/* Its only worker is wanted by another all the time. */
static void leaves_a_call(void)
{
	struct uthread_config c = config(1);
	sigset_t usr1;
	uthread_t t[2];

	if (TEST_ASAN)
		SKIP("no preemption under AddressSanitizer");
	if (TEST_EMULATED)
		SKIP("signals to threads of a guest");
	handle(SIGUSR1, leave, 0);
	c.tick_ns = MS / 2;
	c.spares = -1;
	c.main = UTHREAD_MAIN_PTHREAD;
	sigemptyset(&usr1);
	sigaddset(&usr1, SIGUSR1);
	CHECK(!pthread_sigmask(SIG_BLOCK, &usr1, NULL));
	CHECK_EQ(uthread_init(&c), 0);
	t[0] = spawn(waits_and_is_left, NULL);
	t[1] = spawn(empty_loop, NULL);
	while (!load(&stop)) {
		if (load(&asleep)) {
			store(&asleep, 0);
			usleep(2000); /* until it sleeps, most times */
			CHECK(!kill(getpid(), SIGUSR1));
		}
		usleep(500);
	}
	joined(t[0]);
	joined(t[1]);
	CHECK_EQ(left, ROUNDS);
}

TEST(siglongjmp_out_of_a_call)
{
	leaves_a_call();
}

TEST(setcontext_out_of_a_call)
{
	by_context = 1;
	leaves_a_call();
}

/* ---- what waits for the mask that the jump brings ---- */

static int came, begun;

/* The second one is taken by a tick meanwhile, and is blocked here. */
static void leaves_the_first(int sig)
{
	(void)sig;
	if (add(&came, 1) > 1)
		return;
	store(&begun, 1);
	while (!load(&uthread_self()->raised))
		;
	siglongjmp(env, 1);
}

static void *computes_until_both(void *arg)
{
	if (!sigsetjmp(env, 1))
		store(&asleep, 1);
	while (load(&came) < 2)
		;
	return arg;
}

TEST(what_was_sent_to_a_handler_comes_when_it_is_left)
{
	uthread_t t;

	start(2);
	handle(SIGUSR1, leaves_the_first, 0);
	t = spawn(computes_until_both, NULL);
	while (!load(&asleep))
		uthread_sleep(MS);
	CHECK_EQ(uthread_kill(t, SIGUSR1), 0);
	while (!load(&begun))
		uthread_sleep(MS);
	CHECK_EQ(uthread_kill(t, SIGUSR1), 0);
	joined(t);
	CHECK_EQ(load(&came), 2);
}

/* ---- the end ---- */

static int pipe_fds[2], order;

static void inner(void *arg)
{
	CHECK_EQ(add(&order, 1), 1);
	(void)arg;
}

static void outer(void *arg)
{
	CHECK_EQ(add(&order, 1), 2);
	(void)arg;
}

static void ends(int sig)
{
	(void)sig;
	uthread_cleanup_push(inner, NULL);
	uthread_exit(&order);
	uthread_cleanup_pop(0);
}

static void *reads(void *arg)
{
	char c;

	uthread_cleanup_push(outer, NULL);
	uthread_read(pipe_fds[0], &c, 1);
	CHECK(0);
	uthread_cleanup_pop(0);
	return arg;
}

/* The wait is over: who comes next to the descriptor has it. */
TEST(a_handler_ends_its_uthread_in_a_wait)
{
	uthread_t t;
	void *value;
	char c;

	if (TEST_ASAN || TEST_TSAN)
		SKIP("jumps are libc's under sanitizers");
	start(2);
	handle(SIGUSR1, ends, 0);
	CHECK(!pipe(pipe_fds));
	t = spawn(reads, NULL);
	while (load(&((struct uthread *)t)->state) != UT_WAITING)
		uthread_sleep(MS);
	CHECK_EQ(uthread_kill(t, SIGUSR1), 0);
	CHECK_EQ(uthread_join(t, &value), 0);
	CHECK(value == &order);
	CHECK_EQ(load(&order), 2);
	CHECK_EQ(write(pipe_fds[1], "x", 1), 1);
	CHECK_EQ(uthread_read(pipe_fds[0], &c, 1), 1);
}

/* ---- and on an alternate stack ---- */

#ifndef SS_AUTODISARM
#define SS_AUTODISARM (1 << 31)
#endif

static void *comes_to_a_handler(void *ss)
{
	CHECK(!sigaltstack(ss, NULL));
	uthread_cleanup_push(outer, NULL);
	/* The kernel brings it, not the end of a region. */
	syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), SIGUSR1);
	CHECK(0);
	uthread_cleanup_pop(0);
	return ss;
}

/* The next signal may use the stack as soon as a frame of the uthread's own runs. */
TEST(handlers_of_an_alternate_stack_run_before_it_is_left)
{
	static char alt[64 << 10];
	stack_t ss = { .ss_sp = alt, .ss_size = sizeof(alt) };

	if (TEST_ASAN || TEST_TSAN)
		SKIP("handlers are libc's under sanitizers");
	start(1);
	handle(SIGUSR1, ends, SA_ONSTACK);
	CHECK(in_uthread(comes_to_a_handler, &ss) == &order);
	CHECK_EQ(order, 2);
	/* Also where the handler is told that there is none. */
	ss.ss_flags = (int)SS_AUTODISARM;
	order = 0;
	CHECK(in_uthread(comes_to_a_handler, &ss) == &order);
	CHECK_EQ(order, 2);
}

TEST_MAIN()
