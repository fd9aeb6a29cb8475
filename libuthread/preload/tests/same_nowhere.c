/* SPDX-License-Identifier: Apache-2.0 */
/*
 * same_nowhere.c - calls that are handed pointers which point nowhere, as suites do: the
 * kernel says EFAULT, or what is wrong besides.
 */
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <threads.h>

#include "same.h"

static int pipes[2], pair[2], polls;
static sigset_t usr2;
static bool
	is_null; /* what a compiler thinks that it knows better of a parameter */

static void messages(void *no)
{
	struct msghdr m = { .msg_controllen = 64, .msg_control = no };

	SAY_ERRNO(sendmsg(pair[0], no, 0));
	SAY_ERRNO(sendmsg(pair[0], no, MSG_DONTWAIT));
	SAY_ERRNO(sendmsg(-1, no, 0));
	SAY_ERRNO(recvmsg(pair[0], no, 0));
	SAY_ERRNO(recvmsg(pair[0], no, MSG_DONTWAIT));
	SAY_ERRNO(recvmsg(-1, no, 0));
	SAY_ERRNO(sendmmsg(pair[0], no, 1, 0));
	SAY_ERRNO(sendmmsg(pair[0], no, 0, 0));
	SAY_ERRNO(sendmmsg(-1, no, 1, 0));
	SAY_ERRNO(recvmmsg(pair[0], no, 1, 0, NULL));
	if (!is_null)
		SAY_ERRNO(sendmsg(pair[0], &m, 0));
	SAY_ERRNO(connect(pair[0], no, 16));
	SAY_ERRNO(connect(-1, no, 16));
	SAY_ERRNO(read(pipes[0], no, 1));
	SAY_ERRNO(write(pipes[1], no, 1));
	SAY_ERRNO(readv(pipes[0], no, 1));
	SAY_ERRNO(writev(pipes[1], no, 1));
	SAY_ERRNO(open(no, O_RDONLY));
}

/* NULL says nothing here. */
static void ready(void *no)
{
	struct timespec soon_ = { .tv_nsec = 1000 };
	struct timeval tv = { .tv_usec = 1000 };
	struct epoll_event event;

	SAY_ERRNO(poll(no, 1, 1));
	SAY_ERRNO(ppoll(no, 1, &soon_, NULL));
	SAY_ERRNO(epoll_wait(polls, no, 1, 0));
	if (is_null)
		return;
	SAY_ERRNO(ppoll(NULL, 0, &soon_, no));
	SAY_ERRNO(select(1, no, NULL, NULL, &tv));
	SAY_ERRNO(select(pipes[0] + 1, NULL, no, NULL, &tv));
	SAY_ERRNO(pselect(1, no, NULL, NULL, &soon_, NULL));
	SAY_ERRNO(pselect(0, NULL, NULL, NULL, &soon_, no));
	SAY_ERRNO(epoll_pwait(polls, &event, 1, 1, no));
	SAY_ERRNO(epoll_pwait2(polls, &event, 1, no, NULL));
}

static void times(void *no)
{
	SAY_ERRNO(nanosleep(no, NULL));
	SAY_ERRNO(nanosleep(no, no));
	SAY_ERRNO(clock_nanosleep(CLOCK_MONOTONIC, 0, no, NULL));
	SAY_ERRNO(clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, no, NULL));
	SAY_ERRNO(clock_nanosleep(99, 0, no, NULL));
	SAY_ERRNO(clock_nanosleep(CLOCK_THREAD_CPUTIME_ID, 0, no, NULL));
	SAY_ERRNO(thrd_sleep(no, NULL));
	SAY_ERRNO(syscall(SYS_nanosleep, no, NULL));
}

static void signals(void *no)
{
	struct timespec soon_ = { .tv_nsec = 1000 };
	sigset_t set;
	int sig;

	SAY_ERRNO(sigtimedwait(no, NULL, &soon_));
	SAY_ERRNO(sigwaitinfo(no, NULL));
	SAY_ERRNO(sigwait(no, &sig));
	SAY_ERRNO(sigsuspend(no));
	SAY_ERRNO(sigpending(no));
	if (is_null)
		return;
	SAY_ERRNO(sigtimedwait(&usr2, NULL, no));
	SAY_ERRNO(pthread_sigmask(SIG_BLOCK, NULL, no));
	SAY_ERRNO(sigprocmask(SIG_BLOCK, NULL, no));
	SAY_ERRNO(sigaltstack(no, NULL));
	SAY_ERRNO(sigaltstack(NULL, no));
	SAY(pthread_sigmask(SIG_BLOCK, NULL, &set));
}

static void ways_to_run(void *no)
{
	SAY_ERRNO(sched_setscheduler(0, SCHED_OTHER, no));
	SAY_ERRNO(sched_setparam(0, no));
	SAY_ERRNO(sched_getparam(0, no));
	SAY_ERRNO(sched_setaffinity(0, sizeof(cpu_set_t), no));
	SAY_ERRNO(sched_getaffinity(0, sizeof(cpu_set_t), no));
	SAY_ERRNO(
		pthread_setaffinity_np(pthread_self(), sizeof(cpu_set_t), no));
	SAY_ERRNO(
		pthread_getaffinity_np(pthread_self(), sizeof(cpu_set_t), no));
	SAY_ERRNO(syscall(SYS_sched_setattr, 0, no, 0));
	SAY_ERRNO(prctl(PR_SET_NAME, no));
	SAY_ERRNO(prctl(PR_GET_NAME, no));
}

static void *all(void *arg)
{
	void *const nowhere[] = { NULL, (void *)1, (void *)-1 };
	size_t i;

	for (i = 0; i < sizeof(nowhere) / sizeof(nowhere[0]); i++) {
		TITLE("%p", nowhere[i]);
		is_null = !nowhere[i];
		messages(nowhere[i]);
		ready(nowhere[i]);
		times(nowhere[i]);
		signals(nowhere[i]);
		ways_to_run(nowhere[i]);
	}
	return arg;
}

int main(void)
{
	sigemptyset(&usr2);
	sigaddset(&usr2, SIGUSR2);
	pthread_sigmask(SIG_BLOCK, &usr2, NULL);
	polls = epoll_create(1);
	IS(pipe(pipes), 0);
	IS(write(pipes[1], "abc", 3), 3);
	IS(socketpair(AF_UNIX, SOCK_DGRAM, 0, pair), 0);
	IS(send(pair[1], "abc", 3, 0), 3);
	all(NULL);
	by_thread(all, NULL);
	all(NULL);
	return 0;
}
