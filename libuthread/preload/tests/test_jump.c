/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handlers that leave a wait by siglongjmp(), as POSIX lets them leave read() and the
 * like: in main and in other threads, a thousand times each, and afterwards everything
 * works as before. Each wait would last for ever, so that who is not left hangs.
 */
#include <setjmp.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "left_waits.h"

#define TIMES 1000
#define FEWER 100 /* where each needs two handlers, or another thread's turn */

static _Thread_local sigjmp_buf env;
static _Thread_local volatile sig_atomic_t armed; /* it may jump */

/* ---- who sends ---- */

static pthread_t target;
static int first, second; /* signals; 0: none */
static bool to_process;
static int stop; /* atomic */

/* Again and again: one may have come before the wait. */
static void *sends(void *arg)
{
	const struct timespec t = { .tv_nsec = 20000 };
	int sig[2] = { first, second }, i;

	while (!__atomic_load_n(&stop, __ATOMIC_ACQUIRE))
		for (i = 0; i < 2 && sig[i]; i++) {
			if (to_process)
				kill(getpid(), sig[i]);
			else
				pthread_kill(target, sig[i]);
			clock_nanosleep(CLOCK_MONOTONIC, 0, &t, NULL);
		}
	return arg;
}

static void on(int sig, void (*fn)(int), int flags)
{
	struct sigaction a = { .sa_handler = fn, .sa_flags = flags };

	sigemptyset(&a.sa_mask);
	/* One that waits must not come upon this one, which would end its wait. */
	if (sig == SIGHUP)
		sigaddset(&a.sa_mask, SIGUSR1);
	IS(sigaction(sig, &a, NULL), 0);
}

static pthread_t sender(pthread_t to, int sig, int other)
{
	target = to;
	first = sig;
	second = other;
	__atomic_store_n(&stop, 0, __ATOMIC_RELEASE);
	return start(sends, NULL);
}

static void end(pthread_t t)
{
	__atomic_store_n(&stop, 1, __ATOMIC_RELEASE);
	IS(pthread_join(t, NULL), 0);
}

static void jumps(int sig)
{
	(void)sig;
	if (!armed)
		return;
	armed = 0;
	siglongjmp(env, 1);
}

/* ---- a thousand times each ---- */

/* True: by a jump. */
static bool leaves(void (*fn)(void))
{
	sigset_t now;

	if (!sigsetjmp(env, 1)) {
		armed = 1;
		fn();
		armed = 0; /* the handler had come before */
		return false;
	}
	IS(pthread_sigmask(SIG_BLOCK, NULL, &now), 0);
	IS(sigismember(&now, SIGUSR1), 0);
	IS(sigismember(&now, SIGUSR2), 1);
	return true;
}

static void *leaves_all(void *arg)
{
	const pthread_t s = sender(pthread_self(), SIGUSR1, 0);
	int i, n;

	for (i = 0; i < WAITS; i++)
		for (n = 0; n < TIMES;)
			n += leaves(waits[i].fn);
	end(s);
	return arg;
}

/* ---- a plain pthread ---- */

static sem_t lonely;
static int sleeper; /* atomic: its thread id, once for each wait */

/* What a wait has left there is not to be seen any more. */
static __attribute__((noinline)) void wipe(void)
{
	volatile char c[8192];
	size_t i;

	for (i = 0; i < sizeof(c); i++)
		c[i] = 0x5a;
}

#ifndef SS_AUTODISARM
#define SS_AUTODISARM (1 << 31)
#endif
#define ALT_BYTES (1 << 17)

/* In its handlers the kernel says that there is none. */
static void have_alternate_stack(void)
{
	const stack_t alt = {
		.ss_sp = mmap(NULL, ALT_BYTES, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
		.ss_size = ALT_BYTES,
		.ss_flags = (int)SS_AUTODISARM,
	};

	CHECK(alt.ss_sp != MAP_FAILED);
	IS(sigaltstack(&alt, NULL), 0);
}

static void *sleeps_and_leaves(void *on_alt)
{
	volatile int i;

	if (on_alt)
		have_alternate_stack();
	for (i = 0; i < FEWER; i++) {
		if (!sigsetjmp(env, 1)) {
			armed = 1;
			__atomic_store_n(&sleeper, gettid(), __ATOMIC_RELEASE);
			sem_wait(&lonely);
			CHECK(!"nobody posts");
		}
		wipe();
	}
	return on_alt;
}

static bool is_in_futex(int tid)
{
	char path[64], now[32] = "", futex[32];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/task/%d/syscall", tid);
	snprintf(futex, sizeof(futex), "%d ", SYS_futex);
	f = fopen(path, "r");
	CHECK(f);
	if (!fgets(now, sizeof(now), f))
		now[0] = 0;
	fclose(f);
	return !strncmp(now, futex, strlen(futex));
}

/* By uthread-run it is one that has a stack of its own. */
static void on_own_stack(bool on_alt)
{
	static char stack[1 << 18] __attribute__((aligned(4096)));
	pthread_attr_t attr;
	pthread_t t;
	int i, tid;

	on(SIGUSR1, jumps, on_alt ? SA_ONSTACK : 0);
	IS(sem_init(&lonely, 0, 0), 0);
	pthread_attr_init(&attr);
	IS(pthread_attr_setstack(&attr, stack, sizeof(stack)), 0);
	IS(pthread_create(&t, &attr, sleeps_and_leaves, on_alt ? stack : NULL),
	   0);
	for (i = 0; i < FEWER; i++) {
		while (!(tid = __atomic_exchange_n(&sleeper, 0,
						   __ATOMIC_ACQ_REL)))
			sched_yield();
		while (!is_in_futex(tid))
			sched_yield();
		IS(pthread_kill(t, SIGUSR1), 0);
	}
	IS(pthread_join(t, NULL), 0);
	IS(sem_post(&lonely), 0);
	IS(sem_wait(&lonely), 0);
}

static void each_wait(bool in_main, int flags)
{
	make_all();
	on(SIGUSR1, jumps, flags);
	to_process = in_main;
	if (in_main)
		leaves_all(NULL);
	else
		IS(pthread_join(start(leaves_all, NULL), NULL), 0);
	to_process = false;
	on(SIGUSR1, jumps, SA_RESTART); /* the last one may come late */
	all_work();
	drop_all();
}

/* ---- what the handler itself gives ---- */

static int gift[2], thanks[2];
static sem_t unit;

static void gives_and_jumps(int sig)
{
	(void)sig;
	if (!armed)
		return;
	armed = 0;
	IS(write(gift[1], "x", 1), 1);
	IS(sem_post(&unit), 0);
	siglongjmp(env, 1);
}

static void in_gift(void)
{
	char c;

	if (read(gift[0], &c, 1) == 1)
		CHECK(!"who jumps has read nothing");
}

static void in_unit(void)
{
	if (!sem_wait(&unit))
		CHECK(!"who jumps has taken nothing");
}

static void *takes(void *arg)
{
	char c;
	int i;

	for (i = 0; i < 2 * FEWER; i++) {
		IS(read(gift[0], &c, 1), 1);
		IS(sem_wait(&unit), 0);
		IS(write(thanks[1], &c, 1), 1);
	}
	return arg;
}

/* Somebody else waits for the same, and gets it. */
static void *others_get_it(void *arg)
{
	const pthread_t t = start(takes, NULL);
	const pthread_t s = sender(pthread_self(), SIGUSR1, 0);
	int i, n;
	char c;

	for (i = 0; i < 2; i++)
		for (n = 0; n < FEWER; n++) {
			while (!leaves(i ? in_unit : in_gift))
				;
			while (read(thanks[0], &c, 1) < 0)
				IS(errno, EINTR);
		}
	end(s);
	IS(pthread_join(t, NULL), 0);
	return arg;
}

/* Nobody else does, and it is still there. */
static void *gets_it_then(void *arg)
{
	const pthread_t s = sender(pthread_self(), SIGUSR1, 0);
	int i, n;
	char c;

	for (i = 0; i < 2; i++)
		for (n = 0; n < FEWER; n++) {
			while (!leaves(i ? in_unit : in_gift))
				;
			while (read(gift[0], &c, 1) < 0)
				IS(errno, EINTR);
			while (sem_wait(&unit))
				IS(errno, EINTR);
		}
	end(s);
	return arg;
}

/* ---- handlers in handlers ---- */

static _Thread_local sigjmp_buf inner;
static _Thread_local volatile sig_atomic_t deep; /* in a handler's wait */

static void waits_too(int sig)
{
	(void)sig;
	if (!armed)
		return;
	deep = 1;
	for (;;)
		in_read();
}

static void jumps_out_of_both(int sig)
{
	(void)sig;
	if (!deep)
		return;
	armed = deep = 0;
	siglongjmp(env, 1);
}

static void *leaves_two(void *arg)
{
	const pthread_t s = sender(pthread_self(), SIGUSR1, SIGHUP);
	int i;

	for (i = 0; i < FEWER;)
		i += leaves(i % 2 ? in_recv : in_sem_wait);
	end(s);
	return arg;
}

/* Only the handler's wait is left; what it came in goes on. */
static void leaves_its_own(int sig)
{
	const int saved = errno;

	(void)sig;
	if (!armed)
		return;
	armed = 0;
	if (!sigsetjmp(inner, 1)) {
		deep = 1;
		for (;;)
			in_read();
	}
	IS(write(gift[1], "x", 1), 1);
	errno = saved;
}

static void jumps_in_handler(int sig)
{
	(void)sig;
	if (!deep)
		return;
	deep = 0;
	siglongjmp(inner, 1);
}

static void *goes_on(void *arg)
{
	const pthread_t s = sender(pthread_self(), SIGUSR1, SIGHUP);
	char c;
	int i;

	for (i = 0; i < FEWER; i++) {
		armed = 1;
		IS(read(gift[0], &c, 1), 1);
		IS(armed, 0);
	}
	end(s);
	return arg;
}

/* ---- everything ---- */

static void *on_alternate_stack(void *(*fn)(void *))
{
	const size_t size = 1 << 16;
	stack_t ss = { .ss_sp = malloc(size), .ss_size = size };
	stack_t none = { .ss_flags = SS_DISABLE };

	IS(sigaltstack(&ss, NULL), 0);
	fn(NULL);
	IS(sigaltstack(&none, NULL), 0);
	free(ss.ss_sp);
	return NULL;
}

static void *in_handlers(void *arg)
{
	int flags;

	for (flags = 0; flags <= SA_ONSTACK; flags += SA_ONSTACK) {
		on(SIGUSR1, gives_and_jumps, flags);
		on_alternate_stack(others_get_it);
		on_alternate_stack(gets_it_then);
		on(SIGUSR1, waits_too, flags);
		on(SIGHUP, jumps_out_of_both, flags);
		on_alternate_stack(leaves_two);
		on(SIGUSR1, leaves_its_own, flags | SA_RESTART);
		on(SIGHUP, jumps_in_handler, flags | SA_RESTART);
		on_alternate_stack(goes_on);
	}
	return arg;
}

int main(void)
{
	each_wait(true, 0);
	each_wait(false, 0);
	each_wait(true, SA_RESTART);
	each_wait(false, SA_RESTART);
	on_own_stack(false);
	on_own_stack(true);
	make_all();
	IS(pipe(gift), 0);
	IS(pipe(thanks), 0);
	IS(sem_init(&unit, 0, 0), 0);
	in_handlers(NULL);
	IS(pthread_join(start(in_handlers, NULL), NULL), 0);
	on(SIGUSR1, jumps, SA_RESTART);
	all_work();
	return 0;
}
