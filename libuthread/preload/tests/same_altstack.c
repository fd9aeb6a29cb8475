/* SPDX-License-Identifier: Apache-2.0 */
/*
 * same_altstack.c - what sigaltstack() says before, in and after a handler, with
 * SS_AUTODISARM and without, on that stack and not; and which stack is there after a
 * handler that has set another. In main and in another thread.
 */
#include <signal.h>

#include "check.h"

#ifndef SS_AUTODISARM
#define SS_AUTODISARM (1 << 31)
#endif

static char first[64 << 10], second[48 << 10];
static int sets;

static void say(const char *when)
{
	stack_t now;

	IS(sigaltstack(NULL, &now), 0);
	printf("%s: %s, %zu bytes, flags %x\n", when,
	       now.ss_sp == first  ? "the first" :
	       now.ss_sp == second ? "the second" :
				     "none",
	       now.ss_size, now.ss_flags);
}

static int set(char *stack, size_t bytes, int flags)
{
	const stack_t ss = { .ss_sp = stack,
			     .ss_size = bytes,
			     .ss_flags = flags };

	return sigaltstack(&ss, NULL) ? errno : 0;
}

static void nested(int sig)
{
	(void)sig;
	say("    in one of that");
}

static void handles(int sig)
{
	(void)sig;
	say("  in a handler");
	if (sets)
		printf("  set: %d\n", set(second, sizeof(second), 0));
	say("  still in it");
	raise(SIGUSR2);
	say("  and now");
}

static void one(int flags, int on, int nested_on)
{
	struct sigaction a = { .sa_handler = handles, .sa_flags = on };

	printf("flags %x, handler %x, its %x, %d\n", flags, on, nested_on,
	       sets);
	IS(sigaction(SIGUSR1, &a, NULL), 0);
	a.sa_handler = nested;
	a.sa_flags = nested_on;
	IS(sigaction(SIGUSR2, &a, NULL), 0);
	IS(set(first, sizeof(first), flags), 0);
	say("before");
	raise(SIGUSR1);
	say("after");
	IS(set(NULL, 0, SS_DISABLE), 0);
	say("without");
}

static void *all(void *arg)
{
	int i;

	for (i = 0; i < 16; i++) {
		sets = i & 1;
		one(i & 2 ? (int)SS_AUTODISARM : 0, i & 4 ? SA_ONSTACK : 0,
		    i & 8 ? SA_ONSTACK : 0);
	}
	return arg;
}

int main(void)
{
	all(NULL);
	IS(pthread_join(start(all, NULL), NULL), 0);
	all(NULL); /* main may be another kind of thread by now */
	return 0;
}
