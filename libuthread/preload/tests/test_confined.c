/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_confined.c - threads that are told which CPUs they may use run there and nowhere
 * else, and so do their children and theirs alone, whatever others do meanwhile.
 */
#include <sched.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "check.h"

#define TURNS 3000
#define MANY 6

static cpu_set_t all; /* the process has these */
static int cpus[2]; /* two of them; or the same, twice */
static int stop; /* atomic */

static void one(cpu_set_t *set, int cpu)
{
	CPU_ZERO(set);
	CPU_SET(cpu, set);
}

static void confine(pthread_t thread, int cpu)
{
	cpu_set_t set;

	one(&set, cpu);
	IS(pthread_setaffinity_np(thread, sizeof(set), &set), 0);
}

/* What the kernel thread has, whatever libc's functions would say. */
static int is_confined(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	return syscall(SYS_sched_getaffinity, 0, sizeof(set), &set) > 0 &&
	       CPU_COUNT(&set) == 1 && CPU_ISSET(cpu, &set);
}

static void turns(int cpu, int n)
{
	int i;

	for (i = 0; i < n; i++) {
		IS(sched_getcpu(), cpu);
		if (i % 16 == 0)
			usleep(10);
		else if (i % 4 == 0)
			sched_yield();
	}
	CHECK(is_confined(cpu));
}

static void *confines_itself(void *arg)
{
	const int cpu = cpus[(long)arg % 2];

	confine(pthread_self(), cpu);
	turns(cpu, TURNS);
	return NULL;
}

static void *begins_confined(void *arg)
{
	turns(cpus[(long)arg % 2], TURNS);
	return NULL;
}

/* They run beside, on the same kernel threads. */
static void *is_free(void *arg)
{
	cpu_set_t set;

	while (!__atomic_load_n(&stop, __ATOMIC_ACQUIRE)) {
		CPU_ZERO(&set);
		CHECK(syscall(SYS_sched_getaffinity, 0, sizeof(set), &set) > 0);
		IS(CPU_COUNT(&set), CPU_COUNT(&all));
		IS(sched_getaffinity(getpid(), sizeof(set), &set), 0);
		IS(CPU_COUNT(&set), CPU_COUNT(&all));
		IS(pthread_getaffinity_np(pthread_self(), sizeof(set), &set),
		   0);
		CHECK(CPU_EQUAL(&set, &all));
		usleep(20);
	}
	return arg;
}

static void side_by_side(void)
{
	pthread_t t[2 * MANY], beside[2];
	pthread_attr_t attr;
	cpu_set_t set;
	long i;

	for (i = 0; i < 2; i++)
		beside[i] = start(is_free, NULL);
	for (i = 0; i < MANY; i++)
		t[i] = start(confines_itself, (void *)i);
	for (; i < 2 * MANY; i++) {
		pthread_attr_init(&attr);
		one(&set, cpus[i % 2]);
		IS(pthread_attr_setaffinity_np(&attr, sizeof(set), &set), 0);
		IS(pthread_create(&t[i], &attr, begins_confined, (void *)i), 0);
		pthread_attr_destroy(&attr);
	}
	for (i = 0; i < 2 * MANY; i++)
		IS(pthread_join(t[i], NULL), 0);
	__atomic_store_n(&stop, 1, __ATOMIC_RELEASE);
	for (i = 0; i < 2; i++)
		IS(pthread_join(beside[i], NULL), 0);
}

/* ---- by others ---- */

static int told; /* atomic: it may look; it looks at last where it is */

static void *computes(void *arg)
{
	while (!__atomic_load_n(&told, __ATOMIC_ACQUIRE))
		;
	/* It may have been told only just now. */
	while (sched_getcpu() != cpus[1] || !is_confined(cpus[1]))
		;
	turns(cpus[1], 100);
	return arg;
}

static void *waits(void *arg)
{
	while (!__atomic_load_n(&told, __ATOMIC_ACQUIRE))
		usleep(100);
	turns(cpus[1], 100);
	return arg;
}

/* One after the other: all that was asked for counts, the last at last. */
static void told_by_others(void)
{
	void *(*const fn[])(void *) = { computes, waits };
	pthread_t t;
	int i, k;

	for (i = 0; i < 2; i++) {
		__atomic_store_n(&told, 0, __ATOMIC_RELEASE);
		t = start(fn[i], NULL);
		for (k = 0; k < 20; k++) {
			confine(t, cpus[k % 2]);
			usleep(50);
		}
		__atomic_store_n(&told, 1, __ATOMIC_RELEASE);
		IS(pthread_join(t, NULL), 0);
	}
}

/* ---- what one hands on ---- */

extern char **environ;
static char *program;

static void ends_well(pid_t pid)
{
	int status;

	IS(waitpid(pid, &status, 0), pid);
	IS(status, 0);
}

static void *ends_confined(void *arg)
{
	CHECK(is_confined(*(int *)arg));
	turns(*(int *)arg, 10);
	return NULL;
}

static void *hands_on(void *arg)
{
	int cpu = cpus[(long)arg];
	char number[16], *args[] = { program, number, NULL };
	cpu_set_t set;
	pid_t pid;

	snprintf(number, sizeof(number), "%d", cpu);
	one(&set, cpu);
	IS(sched_setaffinity(gettid(), sizeof(set), &set), 0);
	sched_yield();
	IS(pthread_join(start(ends_confined, &cpu), NULL), 0);
	pid = fork();
	if (!pid) {
		CHECK(is_confined(cpu));
		pthread_join(start(ends_confined, &cpu), NULL);
		/* Its own, and it may have more again. */
		IS(sched_setaffinity(0, sizeof(all), &all), 0);
		sched_yield();
		CHECK(!is_confined(cpu) || CPU_COUNT(&all) == 1);
		_exit(0);
	}
	ends_well(pid);
	IS(posix_spawn(&pid, program, NULL, NULL, args, environ), 0);
	ends_well(pid);
	IS(sched_setaffinity(0, sizeof(all), &all), 0);
	sched_yield();
	IS(sched_getaffinity(0, sizeof(set), &set), 0);
	CHECK(CPU_EQUAL(&set, &all));
	CHECK(!is_confined(cpu) || CPU_COUNT(&all) == 1);
	return NULL;
}

/* ---- main ---- */

static void *looks_at_main(void *arg)
{
	const pthread_t first = *(pthread_t *)arg;
	cpu_set_t set;

	IS(sched_getaffinity(getpid(), sizeof(set), &set), 0);
	IS(CPU_COUNT(&set), 1);
	CHECK(CPU_ISSET(cpus[1], &set));
	IS(pthread_getaffinity_np(first, sizeof(set), &set), 0);
	CHECK(CPU_ISSET(cpus[1], &set));
	/* Its own it was told by main. */
	CHECK(is_confined(cpus[1]));
	IS(pthread_setaffinity_np(pthread_self(), sizeof(all), &all), 0);
	sched_yield();
	CHECK(!is_confined(cpus[1]) || CPU_COUNT(&all) == 1);
	/* By its number. */
	one(&set, cpus[0]);
	IS(sched_setaffinity(getpid(), sizeof(set), &set), 0);
	return NULL;
}

static void main_is_confined(void)
{
	pthread_t me = pthread_self();
	cpu_set_t set;

	one(&set, cpus[1]);
	IS(sched_setaffinity(0, sizeof(set), &set), 0);
	turns(cpus[1], 100);
	IS(pthread_join(start(looks_at_main, &me), NULL), 0);
	while (!is_confined(cpus[0]))
		sched_yield();
	turns(cpus[0], 100);
	IS(sched_getaffinity(0, sizeof(set), &set), 0);
	CHECK(CPU_ISSET(cpus[0], &set));
	IS(sched_setaffinity(0, sizeof(all), &all), 0);
	IS(sched_getaffinity(0, sizeof(set), &set), 0);
	CHECK(CPU_EQUAL(&set, &all));
}

int main(int argc, char *argv[])
{
	int cpu, n = 0;

	program = argv[0];
	if (argc > 1)
		return !is_confined(atoi(argv[1]));
	IS(sched_getaffinity(0, sizeof(all), &all), 0);
	for (cpu = 0; cpu < CPU_SETSIZE && n < 2; cpu++)
		if (CPU_ISSET(cpu, &all))
			cpus[n++] = cpu;
	if (n == 1)
		cpus[1] = cpus[0];
	side_by_side();
	told_by_others();
	IS(pthread_join(start(hands_on, (void *)0l), NULL), 0);
	IS(pthread_join(start(hands_on, (void *)1l), NULL), 0);
	main_is_confined();
	return 0;
}
