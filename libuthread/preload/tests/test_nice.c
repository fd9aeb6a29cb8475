/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_nice.c - the nice value of a thread is its own, and of the threads and children
 * that it makes; no other has it, and nobody when it has ended.
 */
#include <dirent.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "check.h"

static int base;

/* How many kernel threads of the process are not as it is. */
static int others(void)
{
	DIR *tasks = opendir("/proc/self/task");
	struct dirent *d;
	int n = 0, nice;

	CHECK(tasks);
	while ((d = readdir(tasks))) {
		if (d->d_name[0] == '.')
			continue;
		errno = 0;
		nice = getpriority(PRIO_PROCESS, (id_t)atoi(d->d_name));
		n += !errno && nice != base;
	}
	closedir(tasks);
	return n;
}

static void *inherits(void *arg)
{
	IS(getpriority(PRIO_PROCESS, 0), (long)arg);
	return NULL;
}

static void forks(int nice)
{
	pid_t pid = fork();
	int status;

	if (!pid)
		_exit(getpriority(PRIO_PROCESS, 0) != nice ||
		      syscall(SYS_getpriority, PRIO_PROCESS, 0) != 20 - nice);
	IS(waitpid(pid, &status, 0), pid);
	IS(status, 0);
}

static void *is_nicer(void *arg)
{
	errno = 0;
	IS(getpriority(PRIO_PROCESS, 0), base);
	IS(setpriority(PRIO_PROCESS, 0, base + 3), 0);
	IS(getpriority(PRIO_PROCESS, (id_t)gettid()), base + 3);
	IS(nice(2), base + 5);
	sched_yield();
	IS(getpriority(PRIO_PROCESS, 0), base + 5);
	IS(pthread_join(start(inherits, (void *)(long)(base + 5)), NULL), 0);
	forks(base + 5);
	IS(setpriority(PRIO_PROCESS, (id_t)gettid(), 1000), 0);
	errno = 0;
	IS(nice(0), 19);
	IS(nice(2000000000), 19);
	IS(errno, 0);
	forks(19);
	if (geteuid()) {
		IS(setpriority(PRIO_PROCESS, 0, -20), -1);
		IS(errno, EACCES);
		IS(nice(-2000000000), -1);
		IS(errno, EPERM);
	} else {
		errno = 0;
		IS(nice(-2000000000), -20);
		IS(errno, 0);
	}
	return arg;
}

static void *is_not(void *arg)
{
	IS(getpriority(PRIO_PROCESS, 0), base);
	return arg;
}

int main(void)
{
	int i;

	base = getpriority(PRIO_PROCESS, 0);
	if (base > 10) {
		printf("nice enough already: not looked at\n");
		return 77;
	}
	for (i = 0; i < 20; i++) {
		IS(pthread_join(start(is_nicer, NULL), NULL), 0);
		IS(pthread_join(start(is_not, NULL), NULL), 0);
		IS(getpriority(PRIO_PROCESS, 0), base);
	}
	/* glibc's last thread is joined a moment before it is gone. Or the test's time-out
	 * ends it. */
	while (others())
		usleep(1000);
	return 0;
}
