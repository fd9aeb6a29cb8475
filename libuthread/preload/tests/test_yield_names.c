/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_yield_names.c - sched_yield() by its other names gives way to other threads. It is
 * run once more with one worker and without ticks, where nothing else does.
 */
#include <sched.h>
#include <sys/syscall.h>
#include <threads.h>

#include "check.h"

static int began;

static void by_syscall(void)
{
	IS(syscall(SYS_sched_yield), 0);
}

#if defined(__x86_64__)
/* Of programs that were linked with glibc 2.33 or earlier. */
int yield_by_old_name(void);
__asm__(".symver yield_by_old_name, pthread_yield@GLIBC_2.2.5");

static void by_old_name(void)
{
	IS(yield_by_old_name(), 0);
}
#endif

static void (*const names[])(void) = {
	thrd_yield,
	by_syscall,
#if defined(__x86_64__)
	by_old_name,
#endif
};

static void *begins(void *arg)
{
	__atomic_store_n(&began, 1, __ATOMIC_SEQ_CST);
	return arg;
}

static void *waits_for_another(void *arg)
{
	pthread_t other;
	unsigned i;

	for (i = 0; i < sizeof(names) / sizeof(*names); i++) {
		__atomic_store_n(&began, 0, __ATOMIC_SEQ_CST);
		other = start(begins, NULL);
		while (!__atomic_load_n(&began, __ATOMIC_SEQ_CST))
			names[i]();
		IS(pthread_join(other, NULL), 0);
	}
	return arg;
}

int main(void)
{
	IS(pthread_join(start(waits_for_another, NULL), NULL), 0);
	return 0;
}
