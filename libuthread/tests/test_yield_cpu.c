/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_yield_cpu.c - who yield to each other may wait for somebody whom the kernel keeps
 * from this CPU: it hears of it, but not each time. It is called here.
 */
#include <sched.h>

#include "uthread/pthread.h"
#include "util.h"

#define OFFERS 10
#define EVERY_NS 50000u

static int begun, offers;
static uint64_t first, last; /* of these: when */
static _Thread_local int asked;

/* Once a call: the runtime's own locks call it, too, as often as they like. */
__attribute__((noinline)) static void ask(int value)
{
	__asm__ volatile("" : : : "memory");
	asked = value;
}

int sched_yield(void)
{
	if (!asked)
		return 0;
	ask(0);
	last = test_now();
	if (add(&offers, 1) == 1)
		first = last;
	return 0;
}

static void *yields(void *arg)
{
	add(&begun, 1);
	while (load(&begun) < 2)
		CHECK_EQ(uthread_yield(), 0);
	while (load(&offers) < OFFERS) { /* or the test's time-out ends it */
		ask(1);
		CHECK_EQ(uthread_yield_cpu(), 0);
		ask(0);
	}
	return arg;
}

TEST(who_yield_to_each_other_offer_the_cpu_now_and_then)
{
	uthread_t t[2];

	start_workers(1);
	for (int i = 0; i < 2; i++)
		t[i] = spawn(yields, NULL);
	for (int i = 0; i < 2; i++)
		joined(t[i]);
	/* Each is called for that long after the last, and comes later. */
	CHECK(last - first >= OFFERS / 2 * EVERY_NS);
}

TEST_MAIN()
