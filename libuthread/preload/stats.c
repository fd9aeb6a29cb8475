/* SPDX-License-Identifier: Apache-2.0 */
/* stats.c - uthread-run --stats: what the threads did, at the end of the process. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "libc.h"

/* Not what a library sends to stderr's buffer: that may be closed by now. */
__attribute__((destructor)) static void say_stats(void)
{
	const char *wanted = getenv("UTHREAD_RUN_STATS");
	struct uthread_stats s;

	if (!wanted || atoi(wanted) != (int)getpid() ||
	    uthread_stats(&s, sizeof(s)))
		return;
	dprintf(STDERR_FILENO,
		"uthread-run: %llu threads on %u workers; %llu switches, %llu waits, %llu ticks that stopped a thread\n"
		"uthread-run: %llu calls slept in the kernel while others waited, at most %u spare workers at a time\n",
		(unsigned long long)s.created, s.workers,
		(unsigned long long)s.switches, (unsigned long long)s.parks,
		(unsigned long long)s.preempted, (unsigned long long)s.blocked,
		s.spares_most);
}
