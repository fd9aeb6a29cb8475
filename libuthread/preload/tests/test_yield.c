/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_yield.c - sched_yield() of a thread beside which no other is to run gives the CPU
 * to whoever else waits for it. OpenBLAS's threads and others spin by it for each other.
 */
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "check.h"

#define YIELDS \
	20000 /* together less than the kernel lets one run at a stretch */

static volatile long *turns; /* of the child, on the same CPU */

static void *yields(void *arg)
{
	long before;
	int i;

	while (!*turns)
		usleep(1000);
	/* Until it waited for the CPU all the time; else it has a turn at most in each
	 * stretch of ours, and the test's time-out ends this. */
	do {
		before = *turns;
		for (i = 0; i < YIELDS; i++)
			sched_yield();
	} while (*turns - before <= YIELDS / 20);
	return arg;
}

int main(void)
{
	cpu_set_t set;
	pid_t pid;
	int cpu;

	turns = mmap(NULL, sizeof(*turns), PROT_READ | PROT_WRITE,
		     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(turns != MAP_FAILED);
	IS(sched_getaffinity(0, sizeof(set), &set), 0);
	for (cpu = 0; !CPU_ISSET(cpu, &set);)
		cpu++;
	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	IS(sched_setaffinity(0, sizeof(set), &set), 0);
	pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;) {
			++*turns;
			sched_yield();
		}
	}
	pthread_join(start(yields, NULL), NULL);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	return 0;
}
