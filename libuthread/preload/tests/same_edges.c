/* SPDX-License-Identifier: Apache-2.0 */
/*
 * same_edges.c - main that detaches itself, early and late; what threads and processes are
 * called after a fork; sleeps that a handler ends; what the kernel is asked of a thread by
 * its number; cleanup handlers that defer.
 */
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "same.h"

static sem_t up;

/* ---- main, detached ---- */

static pthread_t first;

static void detach(void)
{
	pthread_attr_t attr;
	int state;

	SAY(pthread_detach(first));
	SAY(pthread_getattr_np(first, &attr));
	SAY(pthread_attr_getdetachstate(&attr, &state));
	SAY(state);
	pthread_attr_destroy(&attr);
}

static void *joins(void *arg)
{
	SAY(pthread_join(first, NULL));
	SAY(pthread_detach(first));
	fflush(stdout);
	sem_post(&up);
	return arg;
}

static void early(void)
{
	detach();
	start(joins, NULL);
	while (sem_wait(&up))
		;
	pthread_exit(NULL);
}

static void *returns(void *arg)
{
	return arg;
}

static void late(void)
{
	by_thread(returns, NULL);
	early();
}

/* ---- names ---- */

static void say_names(void)
{
	char name[32] = "";
	FILE *f = fopen("/proc/self/comm", "r");

	printf("%s", fgets(name, sizeof(name), f));
	fclose(f);
	SAY(prctl(PR_GET_NAME, name));
	puts(name);
	SAY(pthread_getname_np(pthread_self(), name, sizeof(name)));
	puts(name);
}

static void *names(void *arg)
{
	int depth = 0;
	pid_t pid;

	if (arg)
		pthread_setname_np(pthread_self(), arg);
	do {
		fflush(stdout);
		pid = fork();
		if (pid) {
			waitpid(pid, NULL, 0);
			break;
		}
		say_names();
		by_thread(returns, NULL);
		SAY(pthread_setname_np(pthread_self(), "changed"));
		say_names();
		SAY(prctl(PR_SET_NAME, "changed again"));
		say_names();
		SAY(pthread_setname_np(pthread_self(), "0123456789abcdef"));
	} while (++depth < 2);
	if (depth) {
		fflush(stdout);
		_exit(0);
	}
	return arg;
}

/* ---- sleeps ---- */

static void on_signal(int sig)
{
	(void)sig;
}

static volatile bool awake;

static void *interrupts(void *arg)
{
	while (!awake) {
		usleep(20000);
		IS(pthread_kill(*(pthread_t *)arg, SIGUSR1), 0);
	}
	return NULL;
}

/* By sleep(), or by nanosleep(): what is left. */
static long sleep_50(bool whole, int *error)
{
	struct timespec t = { .tv_sec = 50 };
	pthread_t me = pthread_self(), other;
	long left;

	awake = false;
	other = start(interrupts, &me);
	errno = 0;
	left = whole ? (long)sleep(50) : nanosleep(&t, &t);
	*error = errno;
	awake = true;
	pthread_join(other, NULL);
	return whole ? left : t.tv_sec;
}

/*
 * It may end as it begins, and then what is left is 50 seconds and some slack: once more.
 * Else that and the time that has passed are 50 seconds, but for the part of one that is
 * not said, and more where it was late to begin or to come back.
 */
static void *sleeps(void *arg)
{
	struct timespec begun, now;
	int whole, error;
	int64_t passed_ns;
	long left;

	for (whole = 0; whole < 2; whole++) {
		do {
			clock_gettime(CLOCK_MONOTONIC, &begun);
			left = sleep_50(whole, &error);
			clock_gettime(CLOCK_MONOTONIC, &now);
		} while (left == 50 && error == EINTR);
		passed_ns = (now.tv_sec - begun.tv_sec) * INT64_C(1000000000) +
			    (now.tv_nsec - begun.tv_nsec);
		SAY(left < 50 && left * INT64_C(1000000000) + passed_ns >
					 49 * INT64_C(1000000000));
		SAY(error);
	}
	return arg;
}

/* ---- deferred by a cleanup handler ---- */

static void says_type(void *arg)
{
	int type;

	SAY(pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, &type));
	SAY(type);
	SAY(arg == NULL);
}

static void *defers(void *arg)
{
	int type;

	pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
	pthread_cleanup_push_defer_np(says_type, NULL);
	pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, &type);
	SAY(type);
	pthread_cleanup_pop_restore_np(1);
	pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, &type);
	SAY(type);
	pthread_cleanup_push_defer_np(says_type, arg);
	pthread_cancel(pthread_self());
	pthread_testcancel();
	pthread_cleanup_pop_restore_np(0);
	return arg;
}

/* ---- by number ---- */

static void *by_number(void *arg)
{
	struct timespec t;
	const int nice = getpriority(PRIO_PROCESS, 0);

	SAY_ERRNO(sched_rr_get_interval(0, &t));
	SAY_ERRNO(sched_rr_get_interval(gettid(), &t));
	SAY_ERRNO(sched_rr_get_interval(-1, &t));
	SAY_ERRNO(getpriority(PRIO_PROCESS, (id_t)gettid()) == nice);
	SAY_ERRNO(setpriority(PRIO_PROCESS, (id_t)gettid(), nice));
	SAY_ERRNO(getpriority(PRIO_PROCESS, (id_t)-1));
	SAY_ERRNO(setpriority(99, 0, 0));
	return arg;
}

static void in_child(void (*fn)(void))
{
	pid_t pid;
	int status;

	fflush(stdout);
	pid = fork();
	if (!pid) {
		first = pthread_self();
		fn();
	}
	waitpid(pid, &status, 0);
	SAY(status);
}

int main(void)
{
	struct sigaction sa = { .sa_handler = on_signal };

	sem_init(&up, 0, 0);
	sigaction(SIGUSR1, &sa, NULL);
	in_child(early);
	in_child(late);
	names(NULL);
	by_thread(names, NULL);
	by_thread(names, "thread");
	names(NULL);
	names("main thread");
	by_thread(names, NULL);
	sleeps(NULL);
	by_thread(sleeps, NULL);
	by_number(NULL);
	by_thread(by_number, NULL);
	SAY(by_thread(defers, NULL) == PTHREAD_CANCELED);
	return 0;
}
