/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_ready.c [many] - select, poll and epoll in all their forms: what they say, what
 * ends them, and that a thread in one keeps no kernel thread.
 */
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "check.h"

enum how { SELECT, PSELECT, POLL, PPOLL, EPOLL, PWAIT, PWAIT2, HOWS };

static bool no_pwait2; /* the kernel's, or the libc's */

static int epoll_of(int fd)
{
	struct epoll_event e = { .events = EPOLLIN };
	int ep = epoll_create1(EPOLL_CLOEXEC);

	CHECK(ep >= 0);
	IS(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &e), 0);
	return ep;
}

/* Until `fd` can be read from; ms < 0: for ever. `ep`: epoll_of() it. */
static int wait_for(enum how how, int fd, int ep, int ms, const sigset_t *mask)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	struct timeval tv = { .tv_sec = ms / 1000,
			      .tv_usec = ms % 1000 * 1000 };
	struct timespec ts = { .tv_sec = ms / 1000,
			       .tv_nsec = ms % 1000 * 1000000 };
	struct epoll_event e;
	fd_set set;
	int got = -1;

	FD_ZERO(&set);
	FD_SET(fd, &set);
	switch (how) {
	case SELECT:
		got = select(fd + 1, &set, NULL, NULL, ms < 0 ? NULL : &tv);
		break;
	case PSELECT:
		got = pselect(fd + 1, &set, NULL, NULL, ms < 0 ? NULL : &ts,
			      mask);
		break;
	case POLL:
		got = poll(&p, 1, ms);
		break;
	case PPOLL:
		got = ppoll(&p, 1, ms < 0 ? NULL : &ts, mask);
		break;
	case EPOLL:
		got = epoll_wait(ep, &e, 1, ms);
		break;
	case PWAIT:
		got = epoll_pwait(ep, &e, 1, ms, mask);
		break;
	case PWAIT2:
		got = epoll_pwait2(ep, &e, 1, ms < 0 ? NULL : &ts, mask);
		break;
	case HOWS:
		break;
	}
	if (got >= 0 && how <= PSELECT)
		IS(FD_ISSET(fd, &set), got);
	return got;
}

static enum how next_of(enum how how)
{
	how++;
	return how == PWAIT2 && no_pwait2 ? HOWS : how;
}

/* ---- results ---- */

static long us_of(const struct timeval *tv)
{
	return tv->tv_sec * 1000000 + tv->tv_usec;
}

static void test_select_says(void)
{
	struct timeval tv;
	fd_set in, out, except;
	int fds[2];

	IS(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
	FD_ZERO(&in);
	FD_ZERO(&out);
	FD_ZERO(&except);
	FD_SET(fds[0], &in);
	FD_SET(fds[1], &in);
	FD_SET(fds[0], &except);
	/* Nothing: the sets are empty then, and so is the time. */
	tv = (struct timeval){ .tv_usec = 2000 };
	IS(select(fds[1] + 1, &in, &out, &except, &tv), 0);
	CHECK(!FD_ISSET(fds[0], &in) && !FD_ISSET(fds[1], &in));
	CHECK(!FD_ISSET(fds[0], &except));
	IS(us_of(&tv), 0);
	/* One is counted for each set that it is in. */
	IS(write(fds[1], "x", 1), 1);
	FD_SET(fds[0], &in);
	FD_SET(fds[1], &in);
	FD_SET(fds[0], &out);
	errno = 77;
	tv = (struct timeval){ .tv_sec = 100, .tv_usec = 5000000 };
	IS(select(fds[1] + 1, &in, &out, NULL, &tv), 2);
	IS(errno, 77);
	CHECK(FD_ISSET(fds[0], &in) && !FD_ISSET(fds[1], &in));
	CHECK(FD_ISSET(fds[0], &out));
	CHECK(us_of(&tv) > 0 && us_of(&tv) <= 105000000);
	CHECK(tv.tv_usec >= 0 && tv.tv_usec < 1000000);
	/* What of nothing is asked is time only. */
	tv = (struct timeval){ .tv_usec = 2000 };
	IS(select(0, NULL, NULL, NULL, &tv), 0);
	IS(us_of(&tv), 0);
	/* A hang-up is to be read, and no exception. */
	close(fds[1]);
	FD_ZERO(&in);
	FD_SET(fds[0], &in);
	FD_SET(fds[0], &except);
	IS(select(fds[0] + 1, &in, NULL, &except, NULL), 1);
	CHECK(FD_ISSET(fds[0], &in) && !FD_ISSET(fds[0], &except));
	FD_SET(fds[0], &except);
	tv = (struct timeval){ .tv_usec = 2000 };
	IS(select(fds[0] + 1, NULL, NULL, &except, &tv), 0);
	close(fds[0]);
}

static void test_errors(void)
{
	struct timespec bad = { .tv_nsec = 1000000000 };
	struct timeval tv = { .tv_usec = -1 };
	struct epoll_event e;
	fd_set set;
	int fds[2], ep;

	IS(pipe(fds), 0);
	ep = epoll_of(fds[0]);
	FD_ZERO(&set);
	FD_SET(fds[0], &set);
	IS(select(-1, &set, NULL, NULL, NULL), -1);
	IS(errno, EINVAL);
	IS(select(fds[0] + 1, &set, NULL, NULL, &tv), -1);
	IS(errno, EINVAL);
	IS(pselect(fds[0] + 1, &set, NULL, NULL, &bad, NULL), -1);
	IS(errno, EINVAL);
	IS(ppoll(NULL, 0, &bad, NULL), -1);
	IS(errno, EINVAL);
	IS(epoll_pwait(ep, &e, 0, -1, NULL), -1);
	IS(errno, EINVAL);
	IS(epoll_pwait(fds[0], &e, 1, -1, NULL), -1);
	IS(errno, EINVAL);
	close(fds[0]);
	close(fds[1]);
	tv = (struct timeval){ .tv_sec = 86400 };
	IS(select(fds[0] + 1, &set, NULL, NULL, &tv), -1);
	IS(errno, EBADF);
	CHECK(FD_ISSET(fds[0], &set)); /* as it was */
	IS(tv.tv_sec < 86400 ? 86399 : tv.tv_sec, 86399);
	IS(pselect(fds[0] + 1, NULL, &set, NULL, NULL, NULL), -1);
	IS(errno, EBADF);
	close(ep);
	IS(epoll_pwait(ep, &e, 1, -1, NULL), -1);
	IS(errno, EBADF);
}

static void *writes_one(void *arg)
{
	usleep(1000);
	IS(write(*(int *)arg, "x", 1), 1);
	return NULL;
}

static void test_comes(void)
{
	sigset_t own;
	enum how how;
	int fds[2], ep;
	pthread_t t;
	char c;

	IS(pipe(fds), 0);
	ep = epoll_of(fds[0]);
	pthread_sigmask(SIG_BLOCK, NULL, &own);
	for (how = 0; how < HOWS; how = next_of(how)) {
		IS(wait_for(how, fds[0], ep, 2, NULL), 0);
		IS(wait_for(how, fds[0], ep, 0, &own), 0);
		IS(wait_for(how, fds[0], ep, 2, &own), 0);
		t = start(writes_one, &fds[1]);
		IS(wait_for(how, fds[0], ep, -1, &own), 1);
		IS(wait_for(how, fds[0], ep, -1, NULL), 1);
		pthread_join(t, NULL);
		IS(read(fds[0], &c, 1), 1);
		t = start(writes_one, &fds[1]);
		IS(wait_for(how, fds[0], ep, INT_MAX, NULL), 1);
		pthread_join(t, NULL);
		IS(read(fds[0], &c, 1), 1);
	}
	close(ep);
	close(fds[0]);
	close(fds[1]);
}

static void *says(void *arg)
{
	test_select_says();
	test_errors();
	test_comes();
	return arg;
}

/* ---- handlers ---- */

static volatile int handled, over;

static void on_signal(int sig)
{
	(void)sig;
	handled++;
}

struct waits {
	enum how how;
	bool masked; /* blocks it, but for the call */
	int fd, ep;
};

static void *is_interrupted(void *arg)
{
	const struct waits *w = arg;
	sigset_t one, open;

	sigemptyset(&one);
	sigaddset(&one, SIGUSR1);
	pthread_sigmask(w->masked ? SIG_BLOCK : SIG_UNBLOCK, &one, &open);
	pthread_sigmask(SIG_BLOCK, NULL, &open);
	sigdelset(&open, SIGUSR1);
	IS(wait_for(w->how, w->fd, w->ep, -1, w->masked ? &open : NULL), -1);
	IS(errno, EINTR);
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

/* Main and all others block it but one thread: it is for that. Before anything else,
 * for a thread that is made later, or a helper of it, may not. */
static void test_one_lets_in(void)
{
	struct sigaction sa = { .sa_handler = on_signal,
				.sa_flags = SA_RESTART };
	struct waits w = { 0 };
	pthread_t t, other;
	sigset_t one, was;
	int fds[2];

	IS(pipe(fds), 0);
	w.fd = fds[0];
	w.ep = epoll_of(fds[0]);
	sigaction(SIGUSR1, &sa, NULL);
	sigemptyset(&one);
	sigaddset(&one, SIGUSR1);
	pthread_sigmask(SIG_BLOCK, &one, &was);
	for (w.how = 0; w.how < HOWS; w.how = next_of(w.how)) {
		handled = over = 0;
		t = start(is_interrupted, &w);
		other = start(kills_process, NULL);
		pthread_join(t, NULL);
		pthread_join(other, NULL);
		CHECK(handled > 0);
	}
	pthread_sigmask(SIG_SETMASK, &was, NULL);
	close(w.ep);
	close(fds[0]);
	close(fds[1]);
}

static void test_handlers(void)
{
	struct sigaction sa = { .sa_handler = on_signal,
				.sa_flags = SA_RESTART };
	const struct timespec day = { .tv_sec = 86400 };
	struct waits w = { 0 };
	sigset_t one, was;
	int fds[2], times;
	pthread_t t;

	IS(pipe(fds), 0);
	w.fd = fds[0];
	w.ep = epoll_of(fds[0]);
	sigaction(SIGUSR1, &sa, NULL);
	sigemptyset(&one);
	sigaddset(&one, SIGUSR1);
	for (times = 0; times < 2; times++, w.masked = true)
		for (w.how = 0; w.how < HOWS; w.how = next_of(w.how)) {
			if (w.masked && (w.how == SELECT || w.how == POLL ||
					 w.how == EPOLL))
				continue;
			handled = over = 0;
			t = start(is_interrupted, &w);
			while (!over) { /* it may not be there yet */
				IS(pthread_kill(t, SIGUSR1), 0);
				usleep(500);
			}
			pthread_join(t, NULL);
			CHECK(handled > 0);
		}
	/* What is for the process, and nobody else lets in, is for main. */
	handled = over = 0;
	pthread_sigmask(SIG_BLOCK, &one, &was);
	t = start(kills_process, NULL);
	pthread_sigmask(SIG_UNBLOCK, &one, NULL);
	IS(nanosleep(&day, NULL), -1);
	IS(errno, EINTR);
	over = 1;
	pthread_join(t, NULL);
	pthread_sigmask(SIG_SETMASK, &was, NULL);
	CHECK(handled > 0);
	w.masked = false;
	for (w.how = 0; w.how < HOWS; w.how = next_of(w.how)) {
		handled = over = 0;
		pthread_sigmask(SIG_BLOCK, &one, &was);
		t = start(kills_process, NULL);
		is_interrupted(&w);
		pthread_join(t, NULL);
		pthread_sigmask(SIG_SETMASK, &was, NULL);
		CHECK(handled > 0);
	}
	close(w.ep);
	close(fds[0]);
	close(fds[1]);
}

/* ---- cancellation, closing ---- */

static volatile int cleaned;

static void cleans(void *arg)
{
	(void)arg;
	cleaned++;
}

static void *is_cancelled(void *arg)
{
	const struct waits *w = arg;

	pthread_cleanup_push(cleans, NULL);
	over = 1;
	for (;;)
		wait_for(w->how, w->fd, w->ep, -1, NULL);
	pthread_cleanup_pop(1);
	return NULL;
}

static void test_cancel(void)
{
	struct waits w = { 0 };
	int fds[2], late;
	pthread_t t;
	void *value;

	IS(pipe(fds), 0);
	w.fd = fds[0];
	w.ep = epoll_of(fds[0]);
	for (w.how = 0; w.how < HOWS; w.how = next_of(w.how))
		for (late = 0; late < 2; late++) {
			cleaned = over = 0;
			t = start(is_cancelled, &w);
			while (late && !over)
				usleep(500);
			usleep(late ? 2000 : 0);
			IS(pthread_cancel(t), 0);
			IS(pthread_join(t, &value), 0);
			CHECK(value == PTHREAD_CANCELED);
			IS(cleaned, over);
		}
	close(w.ep);
	close(fds[0]);
	close(fds[1]);
}

/* What of the one that is closed comes is not said; the other one ends it. */
static void *selects_two(void *arg)
{
	const int *fds = arg;
	const int top = fds[0] > fds[2] ? fds[0] : fds[2];
	fd_set set;
	int got;

	FD_ZERO(&set);
	FD_SET(fds[0], &set);
	FD_SET(fds[2], &set);
	got = select(top + 1, &set, NULL, NULL, NULL);
	if (got < 0)
		IS(errno, EBADF);
	else
		CHECK(FD_ISSET(fds[2], &set));
	return NULL;
}

static void test_close(void)
{
	int fds[4];
	pthread_t t;

	IS(pipe(fds), 0);
	IS(pipe(fds + 2), 0);
	t = start(selects_two, fds);
	usleep(2000);
	close(fds[0]);
	usleep(2000);
	IS(write(fds[3], "x", 1), 1);
	pthread_join(t, NULL);
	close(fds[1]);
	close(fds[2]);
	close(fds[3]);
}

/* ---- the child of a fork ---- */

static void *forks(void *arg)
{
	int status;
	pid_t pid;

	pid = fork();
	if (!pid) {
		test_select_says();
		test_comes();
		_exit(0);
	}
	CHECK(pid > 0);
	IS(waitpid(pid, &status, 0), pid);
	IS(status, 0);
	return arg;
}

/* ---- many ---- */

#define MANY 200

static struct link {
	enum how how;
	int fds[2], ep;
} links[MANY];

/* Who comes last is woken first: with a worker for each of the first nobody would
 * be there to wake them. */
static void *is_a_link(void *arg)
{
	struct link *l = arg;
	char c;

	IS(wait_for(l->how, l->fds[0], l->ep, -1, NULL), 1);
	IS(read(l->fds[0], &c, 1), 1);
	if (l > links)
		IS(write(l[-1].fds[1], "x", 1), 1);
	return NULL;
}

static void test_many(void)
{
	pthread_t t[MANY];
	enum how how = 0;
	int i;

	for (i = 0; i < MANY; i++) {
		links[i].how = how;
		how = next_of(how);
		how = how == HOWS ? 0 : how;
		IS(pipe(links[i].fds), 0);
		links[i].ep = epoll_of(links[i].fds[0]);
	}
	for (i = 0; i < MANY; i++)
		t[i] = start(is_a_link, &links[i]);
	usleep(2000);
	IS(write(links[MANY - 1].fds[1], "x", 1), 1);
	for (i = 0; i < MANY; i++)
		pthread_join(t[i], NULL);
	for (i = 0; i < MANY; i++) {
		close(links[i].ep);
		close(links[i].fds[0]);
		close(links[i].fds[1]);
	}
}

int main(int argc, char *argv[])
{
	struct timespec now = { 0 };
	struct epoll_event e;
	int ep = epoll_create1(0);

	no_pwait2 = epoll_pwait2(ep, &e, 1, &now, NULL) && errno == ENOSYS;
	close(ep);
	if (argc > 1 && !strcmp(argv[1], "many")) {
		test_many();
		return 0;
	}
	test_one_lets_in();
	says(NULL);
	pthread_join(start(says, NULL), NULL);
	says(NULL);
	test_handlers();
	test_cancel();
	test_close();
	pthread_join(start(forks, NULL), NULL);
	test_many();
	return 0;
}
