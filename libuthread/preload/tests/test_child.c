/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_child.c [many] - waiting for children: what is said of them, what ends the wait,
 * and that a thread in one keeps no kernel thread.
 */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/wait.h>

#include "check.h"

/* A child that ends with that when it reads something, or the end: of its parent. */
static pid_t child(int status, int *end)
{
	int fds[2];
	pid_t pid;
	char c;

	IS(pipe2(fds, O_CLOEXEC), 0);
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		close(fds[1]);
		while (read(fds[0], &c, 1) < 0)
			IS(errno, EINTR);
		_exit(status);
	}
	close(fds[0]);
	*end = fds[1];
	return pid;
}

static void let_go(int end)
{
	IS(write(end, "x", 1), 1);
	close(end);
}

static void *lets_go(void *arg)
{
	usleep(1000);
	let_go(*(int *)arg);
	return NULL;
}

/* ---- results ---- */

static void test_each(void)
{
	struct rusage usage;
	int end, status, way;
	siginfo_t si;
	pthread_t t;
	pid_t pid;

	for (way = 0; way < 5; way++) {
		status = -1;
		pid = child(way, &end);
		IS(waitpid(pid, &status, WNOHANG), 0);
		memset(&si, 7, sizeof(si));
		IS(waitid(P_PID, (id_t)pid, &si, WEXITED | WNOHANG), 0);
		IS(si.si_pid, 0);
		t = start(lets_go, &end);
		errno = 77;
		memset(&usage, 0xff, sizeof(usage));
		switch (way) {
		case 0:
			IS(waitpid(pid, &status, 0), pid);
			break;
		case 1:
			IS(wait(&status), pid);
			break;
		case 2:
			IS(wait3(&status, 0, &usage), pid);
			CHECK(usage.ru_utime.tv_sec == 0);
			break;
		case 3:
			IS(wait4(pid, &status, 0, &usage), pid);
			CHECK(usage.ru_utime.tv_sec == 0);
			break;
		case 4:
			IS(waitid(P_ALL, 0, &si, WEXITED | WNOWAIT), 0);
			IS(si.si_pid, pid);
			IS(si.si_signo, SIGCHLD);
			IS(si.si_code, CLD_EXITED);
			IS(si.si_status, 4);
			IS(waitid(P_PID, (id_t)pid, NULL, WEXITED), 0);
			status = 4 << 8;
			break;
		}
		IS(errno, 77);
		CHECK(WIFEXITED(status));
		IS(WEXITSTATUS(status), way);
		pthread_join(t, NULL);
		IS(waitpid(pid, &status, 0), -1);
		IS(errno, ECHILD);
	}
}

static void test_errors(void)
{
	siginfo_t si;
	int status;

	IS(waitpid(-1, &status, 0), -1);
	IS(errno, ECHILD);
	IS(wait(NULL), -1);
	IS(errno, ECHILD);
	IS(waitpid(getpid(), &status, 0), -1);
	IS(errno, ECHILD);
	IS(waitpid(-1, &status, 0x100), -1);
	IS(errno, EINVAL);
	IS(waitid(P_ALL, 0, &si, WEXITED), -1);
	IS(errno, ECHILD);
	IS(waitid(P_ALL, 0, &si, 0), -1);
	IS(errno, EINVAL);
	IS(waitid((idtype_t)99, 0, &si, WEXITED), -1);
	IS(errno, EINVAL);
}

static void *stops_it(void *arg)
{
	usleep(1000);
	IS(kill(*(pid_t *)arg, SIGSTOP), 0);
	return NULL;
}

static void *continues_it(void *arg)
{
	usleep(1000);
	IS(kill(*(pid_t *)arg, SIGCONT), 0);
	return NULL;
}

static void test_stops(void)
{
	int end, status;
	siginfo_t si;
	pthread_t t;
	pid_t pid = child(3, &end);

	t = start(stops_it, &pid);
	IS(waitpid(pid, &status, WUNTRACED), pid);
	CHECK(WIFSTOPPED(status));
	IS(WSTOPSIG(status), SIGSTOP);
	pthread_join(t, NULL);
	t = start(continues_it, &pid);
	IS(waitid(P_PID, (id_t)pid, &si, WCONTINUED), 0);
	IS(si.si_code, CLD_CONTINUED);
	pthread_join(t, NULL);
	t = start(lets_go, &end);
	IS(waitpid(0, &status, WUNTRACED | WCONTINUED), pid);
	IS(status, 3 << 8);
	pthread_join(t, NULL);
	/* Of a group of its own. */
	pid = child(5, &end);
	IS(setpgid(pid, pid), 0);
	IS(waitpid(-pid, &status, WNOHANG), 0);
	t = start(lets_go, &end);
	IS(waitpid(-pid, &status, 0), pid);
	IS(status, 5 << 8);
	pthread_join(t, NULL);
	pid = child(0, &end);
	IS(kill(pid, SIGKILL), 0);
	IS(waitpid(pid, &status, 0), pid);
	CHECK(WIFSIGNALED(status));
	IS(WTERMSIG(status), SIGKILL);
	close(end);
}

static void *says(void *arg)
{
	test_each();
	test_errors();
	test_stops();
	return arg;
}

/* ---- what ends a wait ---- */

static volatile int handled, over;

static void on_signal(int sig)
{
	(void)sig;
	handled++;
}

struct waits {
	pid_t pid; /* -1: any */
	bool restarts;
};

static void *is_interrupted(void *arg)
{
	const struct waits *w = arg;
	int status;

	if (w->restarts) {
		CHECK(waitpid(w->pid, &status, 0) > 0);
	} else {
		IS(waitpid(w->pid, &status, 0), -1);
		IS(errno, EINTR);
	}
	over = 1;
	return NULL;
}

static void *kills_process(void *arg)
{
	while (!over) {
		kill(getpid(), SIGUSR1);
		usleep(500);
	}
	return arg;
}

static void test_handlers(void)
{
	struct sigaction sa = { .sa_handler = on_signal };
	struct waits w;
	sigset_t one;
	pthread_t t;
	int end, i;
	pid_t pid;

	sigemptyset(&one);
	sigaddset(&one, SIGUSR1);
	for (i = 0; i < 4; i++) {
		pid = child(0, &end);
		w.pid = i & 1 ? -1 : pid;
		w.restarts = i & 2;
		sa.sa_flags = w.restarts ? SA_RESTART : 0;
		sigaction(SIGUSR1, &sa, NULL);
		handled = over = 0;
		t = start(is_interrupted, &w);
		while (!over && !(w.restarts && handled > 3)) {
			IS(pthread_kill(t, SIGUSR1), 0);
			usleep(500);
		}
		IS(over, !w.restarts);
		let_go(end);
		pthread_join(t, NULL);
		if (!w.restarts)
			IS(waitpid(pid, NULL, 0), pid);
	}
	/* For the process, and main alone lets it in. */
	sa.sa_flags = 0;
	sigaction(SIGUSR1, &sa, NULL);
	w = (struct waits){ .pid = child(0, &end) };
	over = 0;
	pthread_sigmask(SIG_BLOCK, &one, NULL);
	t = start(kills_process, NULL);
	pthread_sigmask(SIG_UNBLOCK, &one, NULL);
	is_interrupted(&w);
	pthread_join(t, NULL);
	let_go(end);
	while (waitpid(w.pid, NULL, 0) < 0)
		IS(errno, EINTR);
}

static void *is_cancelled(void *arg)
{
	waitpid(*(pid_t *)arg, NULL, 0);
	CHECK(!"reached");
	return NULL;
}

static void test_cancel(void)
{
	int end, late, any;
	pid_t pid, which;
	pthread_t t;
	void *value;

	for (any = 0; any < 2; any++)
		for (late = 0; late < 2; late++) {
			pid = child(0, &end);
			which = any ? -1 : pid;
			t = start(is_cancelled, &which);
			usleep(late ? 3000 : 0);
			IS(pthread_cancel(t), 0);
			IS(pthread_join(t, &value), 0);
			CHECK(value == PTHREAD_CANCELED);
			let_go(end);
			IS(waitpid(pid, NULL, 0), pid);
		}
}

/* ---- a loop of events, as asyncio's: select(), SIGCHLD, a socket that wakes ---- */

static int wakes[2];
static volatile int ended;

static void on_child(int sig)
{
	const int saved = errno;

	(void)sig;
	if (write(wakes[1], "c", 1) < 0)
		CHECK(errno == EAGAIN);
	errno = saved;
}

static void *spawns(void *arg)
{
	int end, i, status;
	pid_t pid;

	for (i = 0; i < 20; i++) {
		pid = child(i, &end);
		let_go(end);
		IS(waitpid(pid, &status, 0), pid);
		IS(status, i << 8);
		__atomic_fetch_add(&ended, 1, __ATOMIC_SEQ_CST);
	}
	IS(write(wakes[1], "e", 1), 1);
	return arg;
}

static void *loops(void *arg)
{
	struct timeval day;
	int leave = 0, got;
	char c[64];
	fd_set set;
	ssize_t n;

	while (leave < 3) {
		FD_ZERO(&set);
		FD_SET(wakes[0], &set);
		day = (struct timeval){ .tv_sec = 86400 };
		got = select(wakes[0] + 1, &set, NULL, NULL, &day);
		if (got < 0) {
			IS(errno, EINTR);
			continue;
		}
		IS(got, 1);
		n = read(wakes[0], c, sizeof(c));
		while (n-- > 0)
			leave += c[n] == 'e';
	}
	return arg;
}

static void test_loop(void)
{
	struct sigaction sa = { .sa_handler = on_child }, was;
	pthread_t t[3];
	int i, in_main;

	IS(pipe2(wakes, O_NONBLOCK | O_CLOEXEC), 0);
	sigaction(SIGCHLD, &sa, &was);
	for (in_main = 0; in_main < 2; in_main++) {
		pthread_t loop = 0;

		ended = 0;
		sa.sa_flags = SA_RESTART; /* spawns() expects no EINTR */
		sigaction(SIGCHLD, &sa, NULL);
		for (i = 0; i < 3; i++)
			t[i] = start(spawns, NULL);
		if (in_main)
			loops(NULL);
		else
			loop = start(loops, NULL);
		for (i = 0; i < 3; i++)
			pthread_join(t[i], NULL);
		if (!in_main)
			pthread_join(loop, NULL);
		IS(ended, 60);
	}
	/* The pipe stays: a handler may be late. */
	sigaction(SIGCHLD, &was, NULL);
}

/* ---- the child of a fork has its own ---- */

static void *forks(void *arg)
{
	int status;
	pid_t pid = fork();

	if (!pid) {
		says(NULL);
		pthread_join(start(says, NULL), NULL);
		_exit(9);
	}
	CHECK(pid > 0);
	IS(waitpid(pid, &status, 0), pid);
	IS(status, 9 << 8);
	return arg;
}

/* ---- many ---- */

#define MANY 100

static struct link {
	pid_t pid;
	int end;
} links[MANY];

/* Who comes last goes on first: with a worker for each of the first nobody would let
 * their children go. */
static void *is_a_link(void *arg)
{
	struct link *l = arg;
	int status;

	IS(waitpid(l->pid, &status, 0), l->pid);
	IS(status, 0);
	if (l > links)
		let_go(l[-1].end);
	return NULL;
}

static void *waits_for_any(void *arg)
{
	int status;

	CHECK(wait(&status) > 0);
	IS(status, 0);
	return arg;
}

static void test_many(void)
{
	pthread_t t[MANY];
	int i, end;

	for (i = 0; i < MANY; i++)
		links[i].pid = child(0, &links[i].end);
	for (i = 0; i < MANY; i++)
		t[i] = start(is_a_link, &links[i]);
	usleep(2000);
	let_go(links[MANY - 1].end);
	for (i = 0; i < MANY; i++)
		pthread_join(t[i], NULL);
	/* One each, whoever's it is. */
	for (i = 0; i < 20; i++)
		links[i].pid = child(0, &links[i].end);
	for (i = 0; i < 20; i++)
		t[i] = start(waits_for_any, NULL);
	pthread_join(start(lets_go, &links[0].end), NULL);
	for (i = 1; i < 20; i++) {
		end = links[i].end;
		let_go(end);
	}
	for (i = 0; i < 20; i++)
		pthread_join(t[i], NULL);
}

/* ---- a child of _Fork() is alone ---- */

static int others[2], told[2];

static void *is_the_parents(void *arg)
{
	char c;

	IS(read(others[0], &c, 1), 1);
	IS(write(told[1], &c, 1), 1);
	return arg;
}

/* The child sleeps by itself: it neither wakes the parent's threads nor has any. */
static void *forks_bare(void *arg)
{
	int go[2], status, round;
	pthread_t t;
	pid_t pid;
	char c;

	IS(pipe2(others, O_CLOEXEC), 0);
	IS(pipe2(told, O_CLOEXEC | O_NONBLOCK), 0);
	for (round = 0; round < 50; round++) {
		IS(pipe2(go, O_CLOEXEC), 0);
		t = start(is_the_parents, NULL);
		usleep(1000);
		pid = _Fork();
		CHECK(pid >= 0);
		if (!pid)
			_exit(read(go[0], &c, 1) == 1 ? 7 : 1);
		usleep(1000);
		IS(write(others[1], "x", 1), 1);
		IS(pthread_join(t, NULL), 0);
		IS(write(go[1], "x", 1), 1);
		IS(waitpid(pid, &status, 0), pid);
		CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7);
		IS(read(told[0], &c, 1), 1);
		IS(read(told[0], &c, 1), -1);
		close(go[0]);
		close(go[1]);
	}
	close(others[0]);
	close(others[1]);
	close(told[0]);
	close(told[1]);
	return arg;
}

int main(int argc, char *argv[])
{
	if (argc > 1 && !strcmp(argv[1], "many")) {
		test_many();
		return 0;
	}
	says(NULL);
	pthread_join(start(says, NULL), NULL);
	says(NULL);
	test_handlers();
	test_cancel();
	test_loop();
	pthread_join(start(forks, NULL), NULL);
	pthread_join(start(forks_bare, NULL), NULL);
	forks_bare(NULL);
	test_many();
	return 0;
}
