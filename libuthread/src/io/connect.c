/* SPDX-License-Identifier: Apache-2.0 */
/*
 * connect.c - uthread_connect(): begin it without waiting, wait for room to write, and ask
 * what has become of it. As the descriptor's flags belong to the program, and connect() has
 * no flag of its own, O_NONBLOCK is set for the moment of the call.
 */
#include <fcntl.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "io/backend.h"
#include "io/request.h"
#include "sched/cancel.h"

#define UNIX_RETRY_NS 200000
#define UNIX_RETRY_MAX_NS 20000000

static long connect_once(int fd, const struct sockaddr *to, socklen_t room)
{
	const int flags = fcntl(fd, F_GETFL);
	long got;

	if (flags < 0)
		return -errno;
	if (!(flags & O_NONBLOCK))
		fcntl(fd, F_SETFL, flags | O_NONBLOCK);
	/* libc's is a point of cancellation. */
	got = syscall(SYS_connect, fd, to, room) ? -errno : 0;
	if (!(flags & O_NONBLOCK))
		fcntl(fd, F_SETFL, flags);
	return got;
}

static long connected(int fd)
{
	socklen_t bytes = sizeof(int);
	int err = 0;

	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &bytes))
		return -errno;
	return -err;
}

/*
 * There is a result. Of TCP who waits in the kernel has it from what connect() does when
 * it wakes, which leaves the socket as others find it then: connected, or as it was
 * before, for another try. So it is asked once more; getsockopt() tells as much, but a
 * next connect() would say 0, or ECONNABORTED. -EINPROGRESS: not yet.
 */
static long connect_ended(const struct io_request *r, const struct sockaddr *to,
			  socklen_t room)
{
	long got = -EALREADY;

	if (io_kind_of(r->e, r->fd) == IO_TCP)
		got = connect_once(r->fd, to, room);
	switch (got) {
	case -EISCONN:
		return 0;
	case -EALREADY:
	case -EINTR:
	case -EAGAIN:
		return connected(r->fd);
	default:
		return got;
	}
}

/* A full queue of a local socket, or no port of the others' is free: nothing tells
 * when there is room. */
static long connect_again(int fd, const struct sockaddr *to, socklen_t room,
			  uint64_t deadline, int *how)
{
	uint64_t pause = UNIX_RETRY_NS, left;
	long got;

	do {
		left = deadline_left(deadline);
		if (!left)
			return -(*how = ETIMEDOUT);
		io_call_waits();
		if (waiter_sleep_cancellable(now_ns() +
					     (left < pause ? left : pause)))
			return -(*how = ECANCELED);
		pause = pause * 2 < UNIX_RETRY_MAX_NS ? pause * 2 :
							UNIX_RETRY_MAX_NS;
		got = connect_once(fd, to, room);
	} while (got == -EAGAIN);
	return got;
}

static long do_connect(int fd, const struct sockaddr *to, socklen_t room,
		       uint64_t deadline, int *how)
{
	struct io_request r = { .fd = fd, .way = IO_OUT, .deadline = deadline };
	bool told = false;
	uint32_t edges;
	long got;
	int err;

	r.e = io_fd_get(fd);
	if (!r.e)
		return io_no_entry(fd);
	r.gen = load_acquire(&r.e->gen);
	edges = io_edges(r.e, IO_OUT);
	got = connect_once(fd, to, room);
	if (got == -EAGAIN)
		got = connect_again(fd, to, room, deadline, how);
	/* EINTR: it goes on, as without waiting. */
	if (got != -EINPROGRESS && got != -EALREADY && got != -EINTR)
		return got;
	/* The edges of registering it and of a socket that is nowhere yet (it
	 * hangs up) are none of its. */
	for (;;) {
		struct pollfd p = { .fd = fd, .events = POLLOUT };

		if (io_look(&p, 1) > 0) {
			got = connect_ended(&r, to, room);
			if (got < 0 && told)
				got = io_or_closed(&r, got);
			if (got != -EINPROGRESS)
				break;
		}
		if (told)
			io_call_retries();
		err = io_wait_to_try(&r, edges);
		if (err) {
			got = -err;
			*how = err;
			break;
		}
		told = true;
		edges = io_edges(r.e, IO_OUT);
	}
	io_pass_on(r.e, fd, IO_OUT, false);
	return got;
}

int uthread_connect_timed(int fd, const struct sockaddr *to, socklen_t room,
			  const struct timespec *deadline)
{
	uint8_t outer;
	uint64_t ns;
	int how = 0;
	long got;

	cancel_point();
	if (!io_until(deadline, &ns))
		return (int)io_result(-EINVAL);
	outer = io_call_begin();
	got = do_connect(fd, to, room, ns, &how);
	io_call_end(outer, how);
	return (int)io_point_result(got);
}

int uthread_connect(int fd, const struct sockaddr *to, socklen_t room)
{
	return uthread_connect_timed(fd, to, room, NULL);
}
