/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kill_util.h - a handler that says in whose context it ran.
 */
#ifndef UTHREAD_TEST_KILL_UTIL_H
#define UTHREAD_TEST_KILL_UTIL_H

#include "util.h"

/* What a target returns that came to its end. */
static uthread_sem_t s = UTHREAD_SEM_INITIALIZER(0);

static int handled, elsewhere, value_sum, value_last, in_order = 1;
static uthread_t target;

static inline void handler(int sig, siginfo_t *si, void *uc)
{
	char here;
	void *low;
	size_t bytes;

	(void)sig;
	(void)uc;
	if (uthread_self() != target) {
		store(&elsewhere, 1);
		return;
	}
	CHECK_EQ(uthread_getstack(target, &low, &bytes), 0);
	if (!TEST_ASAN)
		CHECK(&here >= (char *)low && &here < (char *)low + bytes);
	if (si && si->si_code == SI_QUEUE) {
		in_order &= si->si_value.sival_int == value_last + 1;
		value_last = si->si_value.sival_int;
		value_sum += value_last;
	}
	__atomic_fetch_add(&handled, 1, __ATOMIC_SEQ_CST);
}

static inline void handle(int sig, int flags)
{
	struct sigaction sa = { .sa_sigaction = handler,
				.sa_flags = SA_SIGINFO | flags };

	CHECK(!sigaction(sig, &sa, NULL));
}

static inline void until_handled(int n)
{
	while (load(&handled) < n)
		uthread_sleep(100000);
}

#endif
