/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_tls_here.c - a block is set back while its uthread runs on it, with what handlers
 * look at: at each instruction they find it, or nobody. Half an address lay there where
 * memset() began in the midst of a word.
 */
#include <dlfcn.h>
#include <signal.h>

#include "base/region.h"
#include "tls/tls.h"
#include "util.h"

#if defined(__x86_64__) && !TEST_ASAN && !TEST_TSAN

/* It, and what follows it, are no whole words. */
static __thread int data = 42;
static __thread char zero[3];

static const struct uthread *self;
static const struct worker *worker;
static unsigned steps, wrong;

static void on_step(int sig)
{
	const struct here *h = here_now();

	(void)sig;
	steps++;
	if ((h->self && h->self != self) || (h->worker && h->worker != worker))
		wrong++;
}

/* libc's own: what interposes that would look at uthread_here itself. */
static void handle_steps(void)
{
	int (*set)(int, const struct sigaction *, struct sigaction *);
	const struct sigaction sa = { .sa_handler = on_step };

	*(void **)&set = dlsym(RTLD_NEXT, "sigaction");
	CHECK(set && !set(SIGTRAP, &sa, NULL));
}

static void *is_stepped(void *arg)
{
	struct uthread *me = uthread_current();

	handle_steps();
	self = me;
	worker = me->worker;
	data = 7;
	zero[0] = 7;
	region_enter();
	__asm__ volatile("pushfq\n\torq $0x100, (%%rsp)\n\tpopfq"
			 :
			 :
			 : "memory", "cc");
	tls_reset(me);
	__asm__ volatile("pushfq\n\tandq $~0x100, (%%rsp)\n\tpopfq"
			 :
			 :
			 : "memory", "cc");
	region_leave();
	CHECK_EQ(data, 42);
	CHECK_EQ(zero[0], 0);
	CHECK(steps > 50);
	CHECK_EQ(wrong, 0);
	return arg;
}

TEST(a_block_is_set_back_and_no_handler_finds_half_an_address)
{
	if (TEST_EMULATED)
		SKIP("nothing is stepped under an emulator");
	start_workers(1);
	in_uthread(is_stepped, NULL);
}

#else

TEST(a_block_is_set_back_and_no_handler_finds_half_an_address)
{
	SKIP("own TLS, and steps, are looked at where there are both");
}

#endif

TEST_MAIN()
