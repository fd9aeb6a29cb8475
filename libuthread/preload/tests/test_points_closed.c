/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_points_closed.c - a thread is cancelled, and then what it waits for is closed. It
 * is cancelled, and does not go on with EBADF: wherever it was in the call, and asleep.
 */
#include <dlfcn.h>
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "check.h"

static int fd;
static char byte;
static struct iovec part = { &byte, 1 };
static struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };
static int *state; /* points_slow.c */
static pthread_t *slow;
static int about_to;

static void in_read(void)
{
	read(fd, &byte, 1);
}

static void in_readv(void)
{
	readv(fd, &part, 1);
}

static void in_pread(void)
{
	pread(fd, &byte, 1, 0); /* which fails */
}

static void in_write(void)
{
	write(fd, &byte, 1);
}

static void in_writev(void)
{
	writev(fd, &part, 1);
}

static void in_recv(void)
{
	recv(fd, &byte, 1, 0);
}

static void in_recvmsg(void)
{
	recvmsg(fd, &message, 0);
}

static void in_send(void)
{
	send(fd, &byte, 1, 0);
}

static void in_sendmsg(void)
{
	sendmsg(fd, &message, 0);
}

static void in_poll(void)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	poll(&p, 1, -1);
}

static void in_ppoll(void)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	ppoll(&p, 1, NULL, NULL);
}

static void in_select(void)
{
	fd_set set;

	FD_ZERO(&set);
	FD_SET(fd, &set);
	select(fd + 1, &set, NULL, NULL, NULL);
}

static void in_epoll_wait(void)
{
	struct epoll_event event;

	epoll_wait(fd, &event, 1, -1);
}

static const struct row {
	const char *name;
	void (*call)(void);
} rows[] = {
#define R(call) { #call, in_##call }
	R(read),    R(readv),  R(pread),      R(write), R(writev),
	R(recv),    R(send),   R(recvmsg),    R(poll),	R(ppoll),
	R(sendmsg), R(select), R(epoll_wait),
};

static void *calls(void *arg)
{
	const struct row *row = arg;

	if (slow)
		*slow = pthread_self();
	__atomic_store_n(&about_to, 1, __ATOMIC_SEQ_CST);
	row->call();
	return NULL;
}

/* So full that who writes waits, too. */
static void open_one(const struct row *row, int *other)
{
	int two[2];

	if (row->call == in_epoll_wait) {
		fd = epoll_create(1);
		*other = -1;
		return;
	}
	IS(socketpair(AF_UNIX, SOCK_STREAM, 0, two), 0);
	fd = two[0];
	*other = two[1];
	while (send(fd, &byte, 1, MSG_DONTWAIT) == 1)
		;
}

/* `looks`: it is about to look at the descriptor; else it sleeps, probably. */
static void run(const struct row *row, int looks)
{
	void *value;
	pthread_t t;
	int other;

	open_one(row, &other);
	__atomic_store_n(&about_to, 0, __ATOMIC_SEQ_CST);
	if (looks)
		__atomic_store_n(state, 1, __ATOMIC_SEQ_CST);
	t = start(calls, (void *)row);
	if (looks)
		while (__atomic_load_n(state, __ATOMIC_SEQ_CST) != 2)
			usleep(100);
	while (!__atomic_load_n(&about_to, __ATOMIC_SEQ_CST))
		usleep(100);
	if (!looks)
		usleep(5000);
	IS(pthread_cancel(t), 0);
	close(fd);
	if (looks)
		__atomic_store_n(state, 0, __ATOMIC_SEQ_CST);
	close(other);
	IS(pthread_join(t, &value), 0);
	if (value != PTHREAD_CANCELED) {
		fprintf(stderr, "%s is not cancelled%s\n", row->name,
			looks ? " before it has looked" : "");
		exit(1);
	}
}

int main(void)
{
	size_t i;
	int again;

	signal(SIGPIPE, SIG_IGN);
	state = dlsym(RTLD_DEFAULT, "slow_state");
	slow = dlsym(RTLD_DEFAULT, "slow_thread");
	for (again = 0; again < 3; again++)
		for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
			if (state)
				run(&rows[i], 1);
			else if (rows[i].call != in_pread)
				run(&rows[i], 0);
		}
	return 0;
}
