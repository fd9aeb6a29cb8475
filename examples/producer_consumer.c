/* SPDX-License-Identifier: Apache-2.0 */
/*
 * producer-consumer [ITEMS]: study 001's future work as a program: the same source
 * as two pthreads and as two uthreads, on one CPU, with room for 1, 16 and 256
 * numbers between them.
 *
 * With room for one, each item is a switch there and one back, and the time is that
 * of switches: here the models differ most. With room for 256 a switch moves many
 * items, and what is left is the lock. The lab measures it with care: `swtch run
 * producer-consumer`; this is the program to read, and one run is no measurement.
 *
 * Switches are counted by who makes them: the kernel (getrusage) for pthreads, the
 * runtime (uthread_stats) for uthreads.
 */
#include <err.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <uthread.h>

#define THREAD(x) pthread_##x
#include "bounded_buffer.h"
#undef THREAD
#define THREAD(x) uthread_##x
#include "bounded_buffer.h"
#undef THREAD

#define ROOM_MAX 256
#define ITEMS_MAX 1000000000

static uint64_t kernel_switches(void)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	return (uint64_t)(u.ru_nvcsw + u.ru_nivcsw);
}

static uint64_t runtime_switches(void)
{
	struct uthread_stats s;

	uthread_stats(&s, sizeof(s));
	return s.switches;
}

static const struct model {
	const char *name;
	uint64_t (*run)(uint64_t *ring, size_t room, uint64_t items);
	uint64_t (*switches)(void);
} models[] = {
	{ "pthread", pthread_run, kernel_switches },
	{ "uthread", uthread_run, runtime_switches },
};

static double now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void row(const struct model *m, size_t room, uint64_t items)
{
	static uint64_t ring[ROOM_MAX];
	double began = now_ns(), switches = -(double)m->switches();
	uint64_t sum = m->run(ring, room, items);
	double took = now_ns() - began;

	switches += (double)m->switches();
	if (sum != items * (items + 1) / 2)
		errx(1, "%s, room for %zu: an item was lost or came twice",
		     m->name, room);
	printf("%-8s %4zu %10.1f %12.4f\n", m->name, room, took / (double)items,
	       switches / (double)items);
}

/* Everything on one CPU: workers are as many as CPUs allowed when they start. */
static void one_cpu(void)
{
	cpu_set_t set;
	int cpu = 0;

	if (sched_getaffinity(0, sizeof(set), &set))
		err(1, "the CPUs allowed are not known");
	while (cpu < CPU_SETSIZE - 1 && !CPU_ISSET(cpu, &set))
		cpu++;
	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		err(1, "cannot stay on CPU %d", cpu);
}

int main(int argc, char **argv)
{
	static const size_t rooms[] = { 1, 16, ROOM_MAX };
	uint64_t items = 20000;
	char *end;

	if (argc > 2)
		errx(2, "usage: producer-consumer [ITEMS]");
	if (argc == 2) {
		items = strtoull(argv[1], &end, 10);
		if (end == argv[1] || *end || argv[1][0] == '-' || !items ||
		    items > ITEMS_MAX)
			errx(2, "%s: give a number of items from 1 to %d",
			     argv[1], ITEMS_MAX);
	}
	one_cpu();
	printf("%-8s %4s %10s %12s\n", "model", "room", "ns/item",
	       "switches/item");
	for (size_t r = 0; r < sizeof(rooms) / sizeof(rooms[0]); r++)
		for (size_t m = 0; m < sizeof(models) / sizeof(models[0]); m++)
			row(&models[m], rooms[r], items);
	if (fflush(stdout) || ferror(stdout))
		err(1, "standard output");
	return 0;
}
