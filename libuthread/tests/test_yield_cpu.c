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

int sched_yield(void)
{
	if (load(&begun) == 2)
		add(&offers, 1);
	return 0;
}

static void *yields(void *arg)
{
	add(&begun, 1);
	while (load(&begun) < 2)
		CHECK_EQ(uthread_yield(), 0);
	while (load(&offers) < OFFERS) /* or the test's time-out ends it */
		CHECK_EQ(uthread_yield_cpu(), 0);
	return arg;
}

TEST(who_yield_to_each_other_offer_the_cpu_now_and_then)
{
	const uint64_t since = test_now();
	uthread_t t[2];

	start_workers(1);
	for (int i = 0; i < 2; i++)
		t[i] = spawn(yields, NULL);
	for (int i = 0; i < 2; i++)
		joined(t[i]);
	/* The runtime's own locks may have called it, too. */
	CHECK(test_now() - since >= OFFERS / 2 * EVERY_NS);
}

TEST_MAIN()
