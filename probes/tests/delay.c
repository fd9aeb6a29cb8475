// SPDX-License-Identifier: Apache-2.0
/*
 * delay.c - measure/delay.c counts workers alone, by their names.
 *
 * A thread shares one CPU with main until it has waited for it; then it is named
 * as one thread of the runtime after the other. Prints "ok", "not ok: why", or
 * "skip: why" where the kernel counts no waiting.
 */
#define _GNU_SOURCE
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "measure/measure.h"

#define LIMIT_S 60

static long tid;
static int stop;

static void *spin(void *arg)
{
	(void)arg;
	__atomic_store_n(&tid, syscall(SYS_gettid), __ATOMIC_RELEASE);
	while (!__atomic_load_n(&stop, __ATOMIC_ACQUIRE))
		;
	return NULL;
}

static int64_t waited(void)
{
	char path[64];
	int64_t ns = -1;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/task/%ld/schedstat",
		 __atomic_load_n(&tid, __ATOMIC_ACQUIRE));
	f = fopen(path, "re");
	if (f && fscanf(f, "%*s %" SCNd64, &ns) != 1)
		ns = -1;
	if (f)
		fclose(f);
	return ns;
}

static int says(const char *name, pthread_t thread, int counts)
{
	int64_t ns;

	pthread_setname_np(thread, name);
	ns = workers_delay();
	if (counts ? ns > 0 : ns == -1)
		return 1;
	printf("not ok: %s has %" PRId64 "\n", name, ns);
	return 0;
}

int main(void)
{
	static const char *const others[] = { "swtch-probe", "uthread/monitor",
					      "uthread/maker", "uthread/s0" };
	time_t limit = time(NULL) + LIMIT_S;
	pthread_t thread;
	cpu_set_t one;
	size_t i;

	CPU_ZERO(&one);
	CPU_SET((size_t)sched_getcpu(), &one);
	sched_setaffinity(0, sizeof(one), &one);
	if (pthread_create(&thread, NULL, spin, NULL))
		return 1;
	while (waited() <= 0)
		if (time(NULL) > limit) {
			printf("skip: the kernel counts no waiting\n");
			return 0;
		}
	for (i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		if (!says(others[i], thread, 0))
			return 1;
	if (!says("uthread/0", thread, 1) || !says("uthread/17", thread, 1))
		return 1;
	__atomic_store_n(&stop, 1, __ATOMIC_RELEASE);
	pthread_join(thread, NULL);
	printf("ok\n");
	return 0;
}
