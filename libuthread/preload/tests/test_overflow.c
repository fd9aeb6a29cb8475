/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_overflow.c - a program that handles the overflow of a stack: its handler runs on
 * the alternate stack of the thread, reports or leaves by siglongjmp(), and that any
 * number of times; without one the signal ends the process.
 */
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "check.h"

#define ALT (64 * 1024)
#define ROUNDS 20

static __thread sigjmp_buf back;
static __thread char *alt;
static __thread volatile char *address;
static __thread volatile int deepest;
static volatile char *volatile nowhere = (volatile char *)16;

static void on_fault(int sig, siginfo_t *si, void *context)
{
	char here;

	(void)context;
	if (sig != SIGSEGV || &here < alt || &here >= alt + ALT)
		_exit(2);
	address = si->si_addr;
	siglongjmp(back, 1);
}

static __attribute__((noinline)) int dig(volatile char *outer)
{
	volatile char room[2048];

	room[0] = outer ? outer[0] : 1;
	return ++deepest < 0 ? 0 : dig(room) + room[0];
}

static void set_alt(void)
{
	stack_t ss = { .ss_size = ALT };

	CHECK(alt = ss.ss_sp = malloc(ALT));
	IS(sigaltstack(&ss, NULL), 0);
}

static void *digs(void *arg)
{
	int i;

	set_alt();
	for (i = 0; i < ROUNDS; i++) {
		address = NULL;
		deepest = 0;
		if (!sigsetjmp(back, 1))
			dig(NULL);
		CHECK(address && deepest > 5);
		sched_yield();
		/* Another fault, with the same handler. */
		address = NULL;
		if (!sigsetjmp(back, 1))
			*nowhere = 1;
		CHECK(address == nowhere);
	}
	return arg;
}

/* It has a handler, and no stack that this could run on. */
static void *digs_without(void *arg)
{
	dig(NULL);
	return arg;
}

static void ends_process(void)
{
	const struct rlimit none = { 0, 0 };
	int status;
	pid_t pid = fork();

	if (!pid) {
		setrlimit(RLIMIT_CORE, &none);
		fclose(stderr);
		pthread_join(start(digs_without, NULL), NULL);
		_exit(0);
	}
	IS(waitpid(pid, &status, 0), pid);
	CHECK(WIFSIGNALED(status));
	IS(WTERMSIG(status), SIGSEGV);
}

int main(void)
{
	struct sigaction sa = { .sa_sigaction = on_fault,
				.sa_flags = SA_SIGINFO | SA_ONSTACK };
	pthread_attr_t small;
	pthread_t t[4];
	int i;

	IS(sigaction(SIGSEGV, &sa, NULL), 0);
	pthread_attr_init(&small);
	IS(pthread_attr_setstacksize(&small, 128 * 1024), 0);
	for (i = 0; i < 4; i++)
		IS(pthread_create(&t[i], &small, digs, NULL), 0);
	for (i = 0; i < 4; i++)
		IS(pthread_join(t[i], NULL), 0);
	digs(NULL);
	ends_process();
	return 0;
}
