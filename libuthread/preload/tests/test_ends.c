/* SPDX-License-Identifier: Apache-2.0 */
/* test_ends.c - cancellation, cleanup handlers, fork, the end of main. */
#include <semaphore.h>
#include <signal.h>
#include <sys/wait.h>

#include "check.h"

static int pipe_of[2], cleaned;
static sem_t never;

static void cleans(void *arg)
{
	cleaned += arg != NULL;
}

static void *in_read(void *arg)
{
	char c;

	pthread_cleanup_push(cleans, &cleaned);
	pthread_cleanup_push(cleans, &cleaned);
	IS(read(pipe_of[0], &c, 1), 1);
	pthread_cleanup_pop(0);
	pthread_cleanup_pop(0);
	return arg;
}

static void *in_sem(void *arg)
{
	pthread_cleanup_push(cleans, &cleaned);
	sem_wait(&never);
	pthread_cleanup_pop(0);
	return arg;
}

static void *in_sleep(void *arg)
{
	pthread_cleanup_push(cleans, &cleaned);
	sleep(1000);
	pthread_cleanup_pop(0);
	return arg;
}

static void *in_join(void *arg)
{
	pthread_cleanup_push(cleans, &cleaned);
	pthread_join(*(pthread_t *)arg, NULL);
	pthread_cleanup_pop(0);
	return arg;
}

static void *in_a_loop(void *arg)
{
	int old;

	pthread_cleanup_push(cleans, &cleaned);
	IS(pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &old), 0);
	IS(old, PTHREAD_CANCEL_DEFERRED);
	for (;;)
		__asm__ volatile("" : : : "memory");
	pthread_cleanup_pop(0);
	return arg;
}

static void *later(void *arg)
{
	int old;

	IS(pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old), 0);
	IS(old, PTHREAD_CANCEL_ENABLE);
	sem_wait(&never);
	pthread_testcancel();
	IS(pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL), 0);
	cleaned = 100;
	pthread_testcancel();
	cleaned = -1;
	return arg;
}

static void cancel(void *(*fn)(void *), void *arg, int handlers)
{
	pthread_t t;
	void *value;

	cleaned = 0;
	t = start(fn, arg);
	usleep(1000); /* either way it is right */
	IS(pthread_cancel(t), 0);
	if (fn == later)
		sem_post(&never);
	IS(pthread_join(t, &value), 0);
	CHECK(value == PTHREAD_CANCELED);
	CHECK(cleaned <= handlers && cleaned >= 0);
}

static void test_cancel(void)
{
	pthread_t t = pthread_self();

	sem_init(&never, 0, 0);
	IS(pipe(pipe_of), 0);
	cancel(in_read, NULL, 2);
	cancel(in_sem, NULL, 1);
	cancel(in_sleep, NULL, 1);
	cancel(in_join, &t, 1);
	cancel(in_a_loop, NULL, 1);
	cancel(later, NULL, 100);
	IS(cleaned, 100);
}

static void *exits_deep(void *arg)
{
	pthread_cleanup_push(cleans, &cleaned);
	pthread_exit(arg);
	pthread_cleanup_pop(0);
	return NULL;
}

/* ---- fork ---- */

static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static int prepared, in_child;

static void prepare(void)
{
	pthread_mutex_lock(&m);
	prepared++;
}

static void parent(void)
{
	pthread_mutex_unlock(&m);
}

static void child(void)
{
	in_child++;
	pthread_mutex_unlock(&m);
}

static void *locks(void *arg)
{
	pthread_mutex_lock(&m);
	pthread_mutex_unlock(&m);
	return arg;
}

static void *forks(void *arg)
{
	int i, status;
	pid_t pid;

	for (i = 0; i < 5; i++) {
		pid = fork();
		if (!pid) {
			if (in_child != 1)
				_exit(2);
			if (pthread_join(start(locks, NULL), NULL))
				_exit(3);
			_exit(0);
		}
		IS(waitpid(pid, &status, 0), pid);
		IS(status, 0);
	}
	return arg;
}

static void test_fork(void)
{
	pthread_t t[4];
	int i;

	pthread_atfork(prepare, parent, child);
	forks(NULL);
	for (i = 0; i < 3; i++)
		t[i] = start(forks, NULL);
	t[3] = start(locks, NULL);
	for (i = 0; i < 4; i++)
		pthread_join(t[i], NULL);
	IS(prepared, 20);
	IS(in_child, 0);
}

/* ---- vfork ---- */

static volatile int handled;

static void on_child(int sig)
{
	(void)sig;
	handled++;
}

/* What a child of vfork() does to its signals is no business of its parent's. */
static void test_vfork(void)
{
	struct sigaction sa = { .sa_handler = on_child }, now;
	static int i; /* vfork() may clobber others */
	int status;
	pid_t pid;

	sigaction(SIGCHLD, &sa, NULL);
	for (i = 1; i <= 20; i++) {
		pid = vfork();
		if (!pid) {
			memset(&sa, 0, sizeof(sa));
			sigaction(SIGCHLD, &sa, NULL);
			execl("/bin/true", "true", (char *)NULL);
			_exit(127);
		}
		while (waitpid(pid, &status, 0) < 0)
			IS(errno, EINTR);
		sigaction(SIGCHLD, NULL, &now);
		CHECK(now.sa_handler == on_child);
		while (handled < i)
			usleep(100);
		IS(handled, i);
	}
	sa.sa_handler = SIG_DFL;
	sigaction(SIGCHLD, &sa, NULL);
}

/* The process ends with its last thread, with 0. */
static void *last(void *arg)
{
	pthread_join(*(pthread_t *)arg, NULL);
	return NULL;
}

int main(void)
{
	static pthread_t self;
	void *value;

	test_cancel();
	cleaned = 0;
	pthread_join(start(exits_deep, &self), &value);
	CHECK(value == &self);
	IS(cleaned, 1);
	test_fork();
	test_vfork();
	self = pthread_self();
	start(last, &self);
	pthread_exit(NULL);
}
