/* SPDX-License-Identifier: Apache-2.0 */
/*
 * same_signals.c - signals to the process that all threads block by then, though they let
 * them in when the first thread was made: they wait for sigwait(), or who unblocks them.
 * Also those whose default action ends the process. And errors of what is said about
 * signals.
 */
#include <dirent.h>
#include <semaphore.h>
#include <signal.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "same.h"

static sem_t up, go;
static volatile int handled, by_me;
static pthread_t who;

static void handler(int sig)
{
	handled += sig == SIGUSR1 ? 1 : 100;
	by_me = pthread_equal(pthread_self(), who);
}

static void *waits(void *arg)
{
	sem_post(&up);
	while (sem_wait(&go))
		;
	return arg;
}

/* As many threads as there may be workers have been idle, and let in what main did. */
static void begin(void)
{
	pthread_t t[8];
	int i;

	for (i = 0; i < 8; i++)
		t[i] = start(waits, NULL);
	for (i = 0; i < 8; i++)
		while (sem_wait(&up))
			;
	for (i = 0; i < 8; i++)
		sem_post(&go);
	for (i = 0; i < 8; i++)
		pthread_join(t[i], NULL);
	usleep(5000);
}

static sigset_t both;

static void *sigwaits(void *arg)
{
	int sig = 0;

	sem_post(&up);
	SAY(sigwait(&both, &sig));
	SAY(sig);
	return arg;
}

static void *unblocks(void *arg)
{
	sigset_t old;

	who = pthread_self();
	SAY(pthread_sigmask(SIG_UNBLOCK, &both, &old));
	SAY(sigismember(&old, SIGUSR1));
	SAY(handled);
	SAY(by_me);
	return arg;
}

static void *inherits(void *arg)
{
	sigset_t set;

	SAY(pthread_sigmask(SIG_BLOCK, NULL, &set));
	SAY(sigismember(&set, SIGUSR1));
	SAY(sigismember(&set, SIGHUP));
	SAY_ERRNO(sigpending(&set));
	SAY(sigismember(&set, SIGUSR1));
	return arg;
}

/* Of a kernel thread: what it blocks, and what lies at the process. */
static bool says_of(const char *number, uint64_t *blocked, uint64_t *process)
{
	char path[300], line[256];
	int found = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/task/%s/status", number);
	f = fopen(path, "r");
	while (f && fgets(line, sizeof(line), f)) {
		found += sscanf(line, "SigBlk: %lx", blocked) == 1;
		found += sscanf(line, "ShdPnd: %lx", process) == 1;
	}
	if (f)
		fclose(f);
	return found == 2; /* or it has just ended */
}

/*
 * Until it lies at the process and stays there. A worker with nothing to run may be about
 * to take it, or have it, on its way back there, as long as one of them lets it in.
 */
static void is_pending(int sig)
{
	const uint64_t bit = 1ull << (sig - 1);
	uint64_t blocked, process;
	struct dirent *e;
	bool stays;
	DIR *tasks;

	do {
		usleep(1000);
		stays = true;
		tasks = opendir("/proc/self/task");
		CHECK(tasks);
		while ((e = readdir(tasks)))
			if (*e->d_name != '.' &&
			    says_of(e->d_name, &blocked, &process))
				stays &= blocked & process & bit ? true : false;
		closedir(tasks);
	} while (!stays);
}

static void test_to_process(void)
{
	const struct timespec at_once = { 0 };
	siginfo_t si;
	pthread_t t;
	int i;

	pthread_sigmask(SIG_BLOCK, &both, NULL);
	for (i = 0; i < 3; i++) {
		t = start(sigwaits, NULL);
		while (sem_wait(&up))
			;
		if (i)
			usleep(2000);
		kill(getpid(), SIGUSR1);
		pthread_join(t, NULL);
	}
	SAY(handled);
	/* Nobody waits. */
	kill(getpid(), SIGUSR1);
	is_pending(SIGUSR1);
	by_thread(inherits, NULL);
	SAY(sigtimedwait(&both, &si, &at_once));
	SAY(si.si_code);
	SAY(si.si_pid == getpid());
	SAY_ERRNO(sigtimedwait(&both, &si, &at_once));
	SAY_ERRNO(sigtimedwait(&both, &si, &negative));
	kill(getpid(), SIGUSR1);
	is_pending(SIGUSR1);
	SAY(handled);
	by_thread(unblocks, NULL);
	handled = 0;
	kill(getpid(), SIGUSR1);
	kill(getpid(), SIGRTMIN);
	is_pending(SIGUSR1);
	is_pending(SIGRTMIN);
	SAY(handled);
	unblocks(NULL);
	/* And again, as if nothing had been. */
	handled = 0;
	begin();
	kill(getpid(), SIGUSR1);
	while (!handled)
		usleep(1000);
	SAY(handled);
}

/* ---- threads by their numbers ---- */

static pid_t number;

static void *has_number(void *arg)
{
	number = gettid();
	who = pthread_self();
	sem_post(&up);
	while (sem_wait(&go) || !handled)
		;
	SAY(handled);
	SAY(by_me);
	return arg;
}

static volatile int woken;

static void *signals_main(void *arg)
{
	do {
		usleep(2000);
		*(int *)arg = tgkill(getpid(), getpid(), SIGUSR1);
	} while (!woken); /* it may not sleep yet */
	return NULL;
}

static void test_numbers(void)
{
	pthread_t t;
	int got = -1;

	handled = 0;
	t = start(has_number, NULL);
	while (sem_wait(&up))
		;
	SAY_ERRNO(tgkill(getpid(), number, 0));
	SAY_ERRNO(tgkill(getpid(), number, 99));
	SAY_ERRNO(tgkill(getpid(), number, SIGUSR1));
	while (!handled)
		usleep(1000);
	sem_post(&go);
	pthread_join(t, NULL);
	handled = 0;
	t = start(has_number, NULL);
	while (sem_wait(&up))
		;
	SAY_ERRNO(syscall(SYS_tkill, number, SIGUSR1));
	while (!handled)
		usleep(1000);
	sem_post(&go);
	pthread_join(t, NULL);
	/* Nobody has it any more. */
	while (!tgkill(getpid(), number, 0))
		usleep(1000);
	SAY_ERRNO(tgkill(getpid(), number, SIGUSR1));
	who = pthread_self();
	handled = 0;
	t = start(signals_main, &got);
	while (sem_wait(&go) && !handled)
		;
	woken = 1;
	SAY(handled > 0);
	SAY(by_me);
	pthread_join(t, NULL);
	SAY(got);
}

/* ---- one that its thread blocks for a handler alone ---- */

static sem_t in_handler;
static volatile int first;

static void counts(int sig)
{
	(void)sig;
	first++;
}

static void lingers(int sig)
{
	(void)sig;
	sem_post(&in_handler);
	usleep(20000);
}

static void change_raw(int how)
{
	syscall(SYS_rt_sigprocmask, how, &both, NULL, 8);
}

/* Two at once: the second handler comes upon the first instruction of the first one's. */
static void *handles_two(void *arg)
{
	change_raw(SIG_BLOCK);
	raise(SIGUSR1);
	raise(SIGRTMIN);
	change_raw(SIG_UNBLOCK);
	sem_post(&up);
	while (first < 3)
		sem_wait(&go);
	return arg;
}

/* By its number alone one of any process can be meant. */
static void test_number_elsewhere(void)
{
	const pid_t pid = fork();
	int status;

	if (!pid)
		for (;;)
			pause();
	SAY_ERRNO(syscall(SYS_tkill, pid, SIGKILL));
	kill(pid, SIGTERM); /* which is too late, or all there is */
	SAY(waitpid(pid, &status, 0) == pid);
	SAY(WTERMSIG(status));
}

static void test_in_handler(void)
{
	struct sigaction sa = { .sa_handler = counts }, was[2];
	struct timespec after;
	pthread_t t;

	sem_init(&in_handler, 0, 0);
	sigaction(SIGUSR1, &sa, &was[0]);
	sa.sa_handler = lingers;
	sigaction(SIGRTMIN, &sa, &was[1]);
	pthread_sigmask(SIG_UNBLOCK, &both, NULL);
	t = start(handles_two, NULL);
	pthread_sigmask(SIG_BLOCK, &both, NULL);
	while (sem_wait(&in_handler))
		;
	kill(getpid(), SIGUSR1);
	while (sem_wait(&up))
		;
	/* The worker has nothing to run meanwhile. */
	while (first < 3) {
		after = in_ms(CLOCK_REALTIME, 5);
		sem_timedwait(&in_handler, &after);
		kill(getpid(), SIGUSR1);
	}
	/* The last handler may have run just before it began to wait. */
	sem_post(&go);
	pthread_join(t, NULL);
	while (!sem_trywait(&go))
		;
	SAY(first >= 3);
	pthread_sigmask(SIG_UNBLOCK, &both, NULL);
	sigaction(SIGUSR1, &was[0], NULL);
	sigaction(SIGRTMIN, &was[1], NULL);
}

/* ---- a handler that is one for once ---- */

static struct sigaction once = { .sa_handler = counts,
				 .sa_flags = SA_RESETHAND };
static int sent;

/* One after the other: main may not wait yet. */
static void *sends_to_process(void *arg)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	do {
		usleep(1000);
		sigaction(SIGUSR2, &once, NULL);
		kill(getpid(), SIGUSR2);
		sent++;
		while (first < sent)
			usleep(100);
	} while (!woken);
	return arg;
}

/* Who finds it has nothing to run, and gives it to main. */
static void test_once(void)
{
	struct sigaction sa, was;
	pthread_t t;
	int i;

	first = 0;
	sigaction(SIGUSR2, NULL, &was);
	for (i = 0; i < 3; i++) {
		woken = 0;
		sigaction(SIGUSR2, &once, NULL);
		t = start(sends_to_process, NULL);
		SAY_ERRNO(sem_wait(&go));
		woken = 1;
		pthread_join(t, NULL);
		SAY(first == sent);
		sigaction(SIGUSR2, NULL, &sa);
		SAY(sa.sa_handler == SIG_DFL);
	}
	sigaction(SIGUSR2, &was, NULL);
}

/* ---- what is left of a sleep ---- */

/* Where it has just begun the kernel may say as much as there was: once more. */
static void *sleeps(void *arg)
{
	unsigned left;

	do
		left = sleep(100);
	while (left == 100);
	SAY(left < 100);
	sem_post(&up);
	return arg;
}

static void test_sleep(void)
{
	pthread_t t = start(sleeps, NULL);

	while (sem_trywait(&up)) {
		usleep(5000);
		pthread_kill(t, SIGUSR1);
	}
	pthread_join(t, NULL);
}

/* ---- signals that end the process ---- */

static sigset_t ends;

static void *lets_end(void *arg)
{
	pthread_sigmask(SIG_UNBLOCK, &ends, NULL);
	usleep(50000);
	return arg;
}

static void nothing(void)
{
}

static void unblocks_end(void)
{
	pthread_sigmask(SIG_UNBLOCK, &ends, NULL);
}

static void thread_unblocks_end(void)
{
	pthread_join(start(lets_end, NULL), NULL);
}

static void ignores_then_not(void)
{
	signal(SIGTERM, SIG_IGN);
	kill(getpid(), SIGTERM);
	unblocks_end();
	signal(SIGTERM, SIG_DFL);
	raise(SIGTERM);
}

static void handles_once(void)
{
	struct sigaction sa = { .sa_handler = handler,
				.sa_flags = SA_RESETHAND };

	sigaction(SIGTERM, &sa, NULL);
	unblocks_end();
	raise(SIGTERM);
}

/* What becomes of a child to which it is sent, all its threads blocking it. */
static int end_of(void (*fn)(void), int sig)
{
	const pid_t pid = fork();
	int status;

	if (!pid) {
		begin();
		pthread_sigmask(SIG_BLOCK, &ends, NULL);
		kill(getpid(), sig);
		is_pending(sig);
		fn();
		_exit(3);
	}
	IS(waitpid(pid, &status, 0), pid);
	return status;
}

static void test_ends(void)
{
	struct sigaction sa;
	int sig, i;

	sigemptyset(&ends);
	sigaddset(&ends, SIGTERM);
	sigaddset(&ends, SIGUSR2);
	pthread_sigmask(SIG_BLOCK, &ends, NULL);
	IS(sigaction(SIGTERM, NULL, &sa), 0);
	SAY(sa.sa_handler == SIG_DFL);
	for (i = 0; i < 3; i++) {
		kill(getpid(), SIGTERM);
		usleep(2000);
		SAY(sigwait(&ends, &sig));
		SAY(sig);
	}
	pthread_sigmask(SIG_UNBLOCK, &ends, NULL);
	for (i = 0; i < 2; i++) {
		SAY(end_of(nothing, SIGTERM));
		SAY(end_of(unblocks_end, SIGTERM));
		SAY(end_of(unblocks_end, SIGUSR2));
		SAY(end_of(thread_unblocks_end, SIGTERM));
		SAY(end_of(ignores_then_not, SIGTERM));
		SAY(end_of(handles_once, SIGTERM));
	}
}

static void *errors(void *arg)
{
	struct sigaction ignore = { .sa_handler = SIG_IGN };
	sigset_t set;

	sigemptyset(&set);
	SAY(pthread_sigmask(99, &set, NULL));
	SAY(pthread_sigmask(-1, &set, NULL));
	SAY(pthread_sigmask(99, NULL, &set));
	SAY_ERRNO(sigaddset(&set, 0));
	SAY_ERRNO(sigaddset(&set, 65));
	SAY_ERRNO(sigaddset(&set, 32));
	SAY_ERRNO(sigaction(SIGKILL, &ignore, NULL));
	SAY_ERRNO(sigaction(32, &ignore, NULL));
	SAY_ERRNO(sigaction(65, &ignore, NULL));
	SAY_ERRNO(raise(99));
	SAY_ERRNO(raise(0));
	SAY_ERRNO(kill(getpid(), 99));
	SAY_ERRNO(sigqueue(getpid(), 99, (union sigval){ 0 }));
	SAY_ERRNO(tgkill(getpid(), -1, 0));
	SAY_ERRNO(tgkill(getpid(), gettid(), 0));
	sigfillset(&set);
	SAY(pthread_sigmask(SIG_SETMASK, &set, NULL));
	SAY(pthread_sigmask(SIG_BLOCK, NULL, &set));
	SAY(sigismember(&set, SIGKILL));
	SAY(sigismember(&set, SIGSTOP));
	SAY(sigismember(&set, 32));
	SAY(sigismember(&set, SIGRTMAX));
	sigemptyset(&set);
	SAY(pthread_sigmask(SIG_SETMASK, &set, NULL));
	return arg;
}

int main(void)
{
	struct sigaction sa = { .sa_handler = handler };

	sem_init(&up, 0, 0);
	sem_init(&go, 0, 0);
	sigaction(SIGUSR1, &sa, NULL);
	sigaction(SIGRTMIN, &sa, NULL);
	sigemptyset(&both);
	sigaddset(&both, SIGUSR1);
	sigaddset(&both, SIGRTMIN);
	begin();
	test_to_process();
	test_numbers();
	test_number_elsewhere();
	test_in_handler();
	test_once();
	test_sleep();
	test_ends();
	errors(NULL);
	by_thread(errors, NULL);
	return 0;
}
