/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_bound.c - main is bound to a CPU before there are threads, and these are asked to
 * run on the others, as OpenMP's OMP_PROC_BIND does: they can be made, and there is
 * somewhere to run.
 */
#include <dirent.h>
#include <sched.h>
#include <sys/wait.h>

#include "check.h"

static cpu_set_t first; /* the process has these */

static void one(cpu_set_t *set, int cpu)
{
	CPU_ZERO(set);
	CPU_SET(cpu, set);
}

static pthread_barrier_t both;

static void *runs(void *arg)
{
	cpu_set_t is;

	pthread_barrier_wait(&both); /* somebody looks */
	IS(pthread_getaffinity_np(pthread_self(), sizeof(is), &is), 0);
	IS(CPU_COUNT(&is), 1);
	CHECK(CPU_ISSET((int)(long)arg, &is));
	return arg;
}

/* May any kernel thread run there? */
static int anybody(int cpu)
{
	DIR *tasks = opendir("/proc/self/task");
	struct dirent *d;
	cpu_set_t set;
	int some = 0;

	CHECK(tasks);
	while ((d = readdir(tasks)))
		if (d->d_name[0] != '.' &&
		    !sched_getaffinity((pid_t)atoi(d->d_name), sizeof(set),
				       &set))
			some |= CPU_ISSET(cpu, &set) != 0;
	closedir(tasks);
	return some;
}

static void make(int cpu)
{
	pthread_attr_t attr;
	cpu_set_t set;
	pthread_t t;

	one(&set, cpu);
	pthread_attr_init(&attr);
	IS(pthread_attr_setaffinity_np(&attr, sizeof(set), &set), 0);
	IS(pthread_create(&t, &attr, runs, (void *)(long)cpu), 0);
	/* Who ran one that has just ended may have its CPUs for a moment. */
	while (!anybody(cpu))
		usleep(1000);
	pthread_barrier_wait(&both);
	IS(pthread_join(t, NULL), 0);
	pthread_attr_destroy(&attr);
}

static void *binds(void *arg)
{
	cpu_set_t set;

	one(&set, (int)(long)arg);
	IS(pthread_setaffinity_np(pthread_self(), sizeof(set), &set), 0);
	IS(pthread_getaffinity_np(pthread_self(), sizeof(set), &set), 0);
	IS(CPU_COUNT(&set), 1);
	CHECK(CPU_ISSET((int)(long)arg, &set));
	return arg;
}

/* A program that began on one CPU asks for the others, too. */
static void begins_bound(char *program, int last)
{
	char number[16], *args[] = { program, number, NULL };
	cpu_set_t set;
	int cpu, status;
	pid_t pid;

	for (cpu = 0; cpu < last; cpu++) {
		if (!CPU_ISSET(cpu, &first))
			continue;
		snprintf(number, sizeof(number), "%d", cpu);
		pid = fork();
		if (!pid) {
			one(&set, last);
			sched_setaffinity(0, sizeof(set), &set);
			execv(program, args);
			_exit(127);
		}
		IS(waitpid(pid, &status, 0), pid);
		IS(status, 0);
	}
}

int main(int argc, char *argv[])
{
	cpu_set_t set;
	int cpu, last = -1;

	pthread_barrier_init(&both, NULL, 2);
	if (argc > 1) {
		make(atoi(argv[1]));
		return 0;
	}
	IS(sched_getaffinity(0, sizeof(first), &first), 0);
	for (cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, &first))
			last = cpu;
	one(&set, last);
	IS(pthread_setaffinity_np(pthread_self(), sizeof(set), &set), 0);
	for (cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, &first))
			make(cpu);
	/* None that there is: as the kernel says. */
	CPU_ZERO(&set);
	IS(pthread_setaffinity_np(pthread_self(), sizeof(set), &set), EINVAL);
	for (cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, &first))
			IS(pthread_join(start(binds, (void *)(long)cpu), NULL),
			   0);
	/* Main stays where it was put. */
	IS(pthread_getaffinity_np(pthread_self(), sizeof(set), &set), 0);
	IS(CPU_COUNT(&set), 1);
	CHECK(CPU_ISSET(last, &set));
	begins_bound(argv[0], last);
	return 0;
}
