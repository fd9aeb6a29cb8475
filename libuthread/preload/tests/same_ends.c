/* SPDX-License-Identifier: Apache-2.0 */
/*
 * same_ends.c - threads that end in a handler or a key's destructor, main too; what runs at
 * exit() beside threads; a once whose function is cancelled; processes by the kernel's own
 * calls and by libc's, and the mask they get; deadlines that never come.
 */
#include <limits.h>
#include <linux/sched.h>
#include <semaphore.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "same.h"

extern char **environ;

static sem_t up;

static void wait_up(void)
{
	while (sem_wait(&up))
		;
}

static void *returns(void *arg)
{
	return arg;
}

static void says(void *arg)
{
	SAY(arg);
}

/* ---- in a destructor ---- */

static pthread_key_t key;
static int runs;

static void destroys(void *arg)
{
	SAY(++runs);
	if (runs < 3)
		pthread_setspecific(key, arg);
	if (runs == 2)
		pthread_exit(&runs);
}

static void *has_key(void *arg)
{
	pthread_setspecific(key, arg);
	return NULL;
}

static void in_destructor(void)
{
	pthread_key_create(&key, destroys);
	SAY(by_thread(has_key, &key) == NULL);
	SAY(runs);
}

/* ---- in a handler ---- */

static volatile bool begun;

static void exits(int sig)
{
	pthread_exit((void *)(long)sig);
}

static void *pauses(void *arg)
{
	pthread_cleanup_push(says, (void *)1L);
	sem_post(&up);
	for (;;)
		pause();
	pthread_cleanup_pop(0);
	return arg;
}

static void *computes(void *arg)
{
	pthread_cleanup_push(says, (void *)2L);
	sem_post(&up);
	for (;;)
		begun = true;
	pthread_cleanup_pop(0);
	return arg;
}

static void *raises(void *arg)
{
	pthread_cleanup_push(says, (void *)3L);
	raise(SIGUSR1);
	pthread_cleanup_pop(0);
	return arg;
}

static void ends_by_signal(void *(*fn)(void *))
{
	pthread_t t = start(fn, NULL);
	void *value;

	wait_up();
	IS(pthread_kill(t, SIGUSR1), 0);
	pthread_join(t, &value);
	SAY(value);
}

static void in_handler(void)
{
	struct sigaction sa = { .sa_handler = exits };

	sigaction(SIGUSR1, &sa, NULL);
	ends_by_signal(pauses);
	ends_by_signal(computes);
	SAY(by_thread(raises, NULL));
}

/* ---- main, and exit() ---- */

static pthread_t other;

static void *is_last(void *arg)
{
	wait_up();
	pthread_join(*(pthread_t *)arg, NULL);
	puts("last");
	return arg;
}

static void at_exit(void)
{
	puts("at exit");
}

static void main_first(void)
{
	static pthread_t me;
	struct sigaction sa = { .sa_handler = exits };

	me = pthread_self();
	atexit(at_exit);
	sigaction(SIGUSR1, &sa, NULL);
	start(is_last, &me);
	sem_post(&up);
	raise(SIGUSR1);
}

static void joins_at_exit(void)
{
	void *value;

	sem_post(&up);
	SAY(pthread_join(other, &value));
	SAY(value == &up);
	SAY(pthread_getspecific(key) == &key);
}

static void *waits(void *arg)
{
	wait_up();
	return arg;
}

static void *exits_all(void *arg)
{
	pthread_setspecific(key, arg);
	exit(3);
}

static void by_exit(void)
{
	pthread_key_create(&key, says);
	other = start(waits, &up);
	atexit(joins_at_exit);
	start(exits_all, &key);
	for (;;)
		pause();
}

/* ---- once ---- */

static pthread_once_t once = PTHREAD_ONCE_INIT;
static int times;

static void is_cancelled_first(void)
{
	if (times++)
		return;
	sem_post(&up);
	for (;;)
		pause();
}

static void *does_once(void *arg)
{
	pthread_once(&once, is_cancelled_first);
	return arg;
}

static void cancelled_once(void)
{
	pthread_t t = start(does_once, &up), next;
	void *value;

	wait_up();
	next = start(does_once, &up);
	usleep(2000);
	pthread_cancel(t);
	pthread_join(t, &value);
	SAY(value == PTHREAD_CANCELED);
	pthread_join(next, &value);
	SAY(value == &up);
	SAY(times);
}

/* ---- processes ---- */

#define MASK "grep SigBlk /proc/self/status"

static void say_status(pid_t pid)
{
	int status;

	SAY(waitpid(pid, &status, 0) == pid);
	SAY(status);
}

static void by_kernel(void)
{
	struct clone_args args = { .exit_signal = SIGCHLD };
	long pid;

	fflush(stdout);
	pid = syscall(SYS_clone3, &args, sizeof(args));
	if (!pid)
		syscall(SYS_exit_group, 5);
	say_status((pid_t)pid);
	pid = syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
	if (!pid)
		syscall(SYS_exit_group, 6);
	say_status((pid_t)pid);
	fflush(stdout);
	pid = _Fork();
	if (!pid) {
		puts("_Fork");
		fflush(stdout);
		_exit(7);
	}
	say_status((pid_t)pid);
}

static void with_mask(void)
{
	char *argv[] = { "sh", "-c", "exec " MASK, NULL };
	posix_spawnattr_t attr;
	char line[64];
	sigset_t set;
	FILE *f;
	pid_t pid;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	fflush(stdout);
	f = popen(MASK, "r");
	printf("%s", fgets(line, sizeof(line), f));
	SAY(pclose(f));
	fflush(stdout);
	SAY(posix_spawnp(&pid, "sh", NULL, NULL, argv, environ));
	say_status(pid);
	posix_spawnattr_init(&attr);
	sigaddset(&set, SIGHUP);
	posix_spawnattr_setsigmask(&attr, &set);
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK);
	fflush(stdout);
	SAY(posix_spawnp(&pid, "sh", NULL, &attr, argv, environ));
	say_status(pid);
	SAY(posix_spawn(&pid, "/nowhere", NULL, NULL, argv, environ));
	pid = vfork();
	if (!pid) {
		execvp(argv[0], argv);
		_exit(9);
	}
	say_status(pid);
	/* The last, for SIGCHLD may stay blocked behind it (docs/runtime/preload.md). */
	SAY(system(MASK));
}

/* ---- deadlines ---- */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;

static void *posts(void *arg)
{
	usleep(2000);
	sem_post(&up);
	return arg;
}

/* Its waiter has given back the mutex, so it waits. */
static void *signals(void *arg)
{
	pthread_mutex_lock(&mutex);
	pthread_cond_signal(&cond);
	pthread_mutex_unlock(&mutex);
	return arg;
}

static void *holds(void *arg)
{
	pthread_mutex_lock(&mutex);
	sem_post(&up);
	usleep(2000);
	pthread_mutex_unlock(&mutex);
	return arg;
}

static void until(const struct timespec *t)
{
	pthread_t thread = start(posts, NULL);

	SAY(sem_timedwait(&up, t));
	pthread_join(thread, NULL);
	thread = start(posts, NULL);
	SAY(sem_clockwait(&up, CLOCK_MONOTONIC, t));
	pthread_join(thread, NULL);
	pthread_mutex_lock(&mutex);
	thread = start(signals, NULL);
	SAY(pthread_cond_timedwait(&cond, &mutex, t));
	pthread_mutex_unlock(&mutex);
	pthread_join(thread, NULL);
	thread = start(holds, NULL);
	wait_up();
	SAY(pthread_mutex_timedlock(&mutex, t));
	pthread_mutex_unlock(&mutex);
	pthread_join(thread, NULL);
	SAY(pthread_timedjoin_np(start(returns, NULL), NULL, t));
	SAY(pthread_clockjoin_np(start(returns, NULL), NULL, CLOCK_MONOTONIC,
				 t));
}

static void never(void)
{
	static const time_t seconds[] = { 1l << 35, LONG_MAX / 1000000000,
					  LONG_MAX / 1000000000 + 5, LONG_MAX };
	struct timespec t = { .tv_nsec = 999999999 };
	size_t i;

	for (i = 0; i < sizeof(seconds) / sizeof(seconds[0]); i++) {
		t.tv_sec = seconds[i];
		until(&t);
	}
}

static void *calls(void *arg)
{
	(*(void (**)(void))arg)();
	return arg;
}

static void in_child(void (*fn)(void), bool thread)
{
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (!pid) {
		if (thread)
			by_thread(calls, &fn);
		else
			fn();
		exit(0);
	}
	say_status(pid);
}

int main(void)
{
	static void (*const all[])(void) = {
		in_destructor,	in_handler, main_first, by_exit,
		cancelled_once, by_kernel,  with_mask,	never,
	};
	size_t i;
	int round;

	sem_init(&up, 0, 0);
	for (round = 0; round < 2; round++) {
		for (i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
			TITLE("%d: %zu", round, i);
			in_child(all[i], false);
			if (all[i] != main_first) /* two would join it */
				in_child(all[i], true);
		}
		by_thread(returns, NULL);
	}
	return 0;
}
