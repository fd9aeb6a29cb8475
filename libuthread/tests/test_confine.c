/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_confine.c - uthreads that are confined to CPUs run there, the others and the
 * runtime's own kernel threads are not.
 */
#include <dirent.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/syscall.h>

#include "uthread/io.h"
#include "uthread/pthread.h"
#include "util.h"

#define MANY 8
#define TURNS 400

static cpu_set_t all; /* that the process has */
static int cpus[2]; /* two of them, or one twice */
static int stop;

static void look_at_machine(void)
{
	int cpu, n = 0;

	CHECK_EQ(sched_getaffinity(0, sizeof(all), &all), 0);
	for (cpu = 0; cpu < CPU_SETSIZE && n < 2; cpu++)
		if (CPU_ISSET(cpu, &all))
			cpus[n++] = cpu;
	if (n == 1)
		cpus[1] = cpus[0];
}

static int confine(uthread_t thread, int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	return uthread_confine(thread, set.__bits, sizeof(set));
}

static bool is_free(pid_t tid)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	return syscall(SYS_sched_getaffinity, tid, sizeof(set), &set) > 0 &&
	       CPU_EQUAL(&set, &all);
}

static void *is_confined(void *arg)
{
	const int cpu = cpus[(long)arg % 2];
	int i;

	CHECK_EQ(confine(uthread_self(), cpu), 0);
	for (i = 0; i < TURNS; i++) {
		CHECK_EQ(sched_getcpu(), cpu);
		if (i % 8 == 0)
			uthread_sleep(10000);
		else
			uthread_yield();
	}
	return arg;
}

static void *is_not(void *arg)
{
	while (!load(&stop)) {
		CHECK(is_free(0));
		uthread_yield();
	}
	return arg;
}

static void side_by_side(enum uthread_tls mode)
{
	uthread_t t[MANY], beside;
	uthread_attr_t attr;
	long i;

	store(&stop, 0);
	CHECK_EQ(uthread_attr_init(&attr), 0);
	CHECK_EQ(uthread_attr_settls(&attr, mode), 0);
	CHECK_EQ(uthread_create(&beside, &attr, is_not, NULL), 0);
	for (i = 0; i < MANY; i++)
		CHECK_EQ(uthread_create(&t[i], &attr, is_confined, (void *)i),
			 0);
	for (i = 0; i < MANY; i++)
		joined(t[i]);
	store(&stop, 1);
	joined(beside);
}

TEST(own_and_shared_tls)
{
	look_at_machine();
	start_workers(2);
	side_by_side(UTHREAD_TLS_SHARED);
	if (!*uthread_tls_reason())
		side_by_side(UTHREAD_TLS_OWN);
}

/* ---- the runtime's own ---- */

static void *has_helpers(void *arg)
{
	char name[] = "/tmp/uthread-confine-XXXXXX";
	int fd;

	CHECK_EQ(confine(uthread_self(), cpus[0]), 0);
	fd = mkstemp(name);
	CHECK(fd >= 0);
	CHECK_EQ(uthread_write(fd, "x", 1), 1);
	CHECK_EQ(uthread_fsync(fd), 0);
	CHECK_EQ(uthread_close(fd), 0);
	unlink(name);
	usleep(20000); /* a spare stands in, if there is one */
	return arg;
}

TEST(threads_that_are_made_meanwhile)
{
	struct dirent *d;
	DIR *tasks;

	look_at_machine();
	start_workers(1);
	joined(spawn(has_helpers, NULL));
	tasks = opendir("/proc/self/task");
	CHECK(tasks);
	while ((d = readdir(tasks)))
		if (d->d_name[0] != '.')
			CHECK(is_free((pid_t)atoi(d->d_name)) ||
			      errno == ESRCH);
	closedir(tasks);
}

/* ---- what it says ---- */

static void *is_itself(void *arg)
{
	cpu_set_t set;

	CHECK_EQ(uthread_confine(uthread_self(), NULL, 0), 0);
	CHECK(is_free(0));
	CHECK_EQ(confine(uthread_self(), cpus[1]), 0);
	CHECK_EQ(sched_getcpu(), cpus[1]);
	/* Of the process, whoever asks. */
	CHECK_EQ(uthread_process_cpus(set.__bits, sizeof(set)), 0);
	CHECK(CPU_EQUAL(&set, &all));
	CHECK_EQ(uthread_confine(uthread_self(), NULL, 0), 0);
	CHECK(is_free(0));
	return arg;
}

TEST(errors_and_no_cpus)
{
	uthread_t t;

	look_at_machine();
	start_workers(2);
	CHECK_EQ(confine(NULL, cpus[0]), ESRCH);
	joined(spawn(is_itself, NULL));
	t = spawn(is_confined, (void *)1l);
	CHECK_EQ(confine(t, cpus[1]), 0);
	joined(t);
	CHECK_EQ(confine(t, cpus[0]), ESRCH);
}

TEST_MAIN()
