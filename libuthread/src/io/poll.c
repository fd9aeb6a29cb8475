/* SPDX-License-Identifier: Apache-2.0 */
/*
 * poll.c - waiting until one of many descriptors is ready, as poll() does: ask
 * it, and if nothing is, be woken by the next edge of any, and ask again.
 *
 * It is asked once more after the watches are there, or an edge between would be
 * nobody's. The kernel looks at all descriptors each time, as poll() does, which
 * is fine for few.
 */
#include <stdlib.h>
#include <unistd.h>

#include "base/tcp.h"
#include "io/request.h"
#include "sched/cancel.h"
#include "uthread/pthread.h"

#define WATCHES_HERE 8 /* on the stack; more are malloced */

_Static_assert(POLLIN == EPOLLIN && POLLOUT == EPOLLOUT &&
		       POLLPRI == EPOLLPRI && POLLRDHUP == EPOLLRDHUP,
	       "events have the same names in both");

/* How many are ready. One whose number was closed since the call began says POLLNVAL: it
 * may be another file's by now. */
static int look(const struct io_watch *x, struct pollfd *fds, nfds_t n)
{
	int got = (int)io_look(fds, n);
	nfds_t i;

	for (i = 0; i < n && got >= 0; i++) {
		if (fds[i].fd < 0 || likely(io_fd_gen(fds[i].fd) == x[i].gen))
			continue;
		got += !fds[i].revents;
		fds[i].revents = POLLNVAL;
	}
	return got;
}

static bool is_over(uint64_t deadline)
{
	return !deadline_left(deadline);
}

/* In the kernel, as anybody may. */
static int block(struct pollfd *fds, nfds_t n, uint64_t deadline)
{
	struct timespec t;
	uint64_t left;
	int got;

	do {
		left = deadline_left(deadline);
		t = (struct timespec){ .tv_sec = (time_t)(left / 1000000000u),
				       .tv_nsec = (long)(left % 1000000000u) };
		got = (int)io_kernel(ppoll(
			fds, n, deadline == NO_DEADLINE ? NULL : &t, NULL));
		/* A handler's signal does not end it. */
	} while (got == -EINTR || (!got && !is_over(deadline)));
	return got;
}

/* One round: 0 when something may be there, or an error; *got: what is. */
static int round_of(struct io_watch *x, struct pollfd *fds, nfds_t n,
		    uint64_t deadline, int *got)
{
	REGION;
	bool closed = false;
	struct waiter w;
	bool again = false;
	int err = 0;
	nfds_t i;

	waiter_init_on(&w, WAITS_IO, (void *)(uintptr_t)fds[0].fd);
	waiter_leavable(&w);
	for (i = 0; i < n; i++) {
		x[i].e = NULL;
		if (fds[i].fd < 0)
			continue;
		err = io_watch_add(&x[i], &w, fds[i].fd,
				   (uint32_t)(unsigned short)fds[i].events);
		/* poll() says of these that they are ready, or nonsense; if not,
		 * the number was closed and is in use again. */
		if (err && err != EPERM && err != EBADF)
			break;
		again |= err == EBADF;
		err = 0;
	}
	if (!err)
		*got = look(x, fds, n);
	/* Else it is woken already. */
	if ((!err && !*got && !again) || !waiter_withdraw(&w)) {
		int waited;

		io_call_waits();
		waited = io_watch_wait(&w, deadline);

		err = err ? err : waited;
	}
	while (i--) {
		io_watch_remove(&x[i]);
		closed |= x[i].e && x[i].result == EBADF;
	}
	if (unlikely(closed))
		io_call_closed();
	return err;
}

static void know_files(struct io_watch *x, const struct pollfd *fds, nfds_t n)
{
	nfds_t i;

	for (i = 0; i < n; i++)
		x[i].gen = io_fd_gen(fds[i].fd);
}

static int wait_many(struct io_watch *x, struct pollfd *fds, nfds_t n,
		     uint64_t deadline)
{
	uint32_t generation = rt.generation;
	unsigned naps = 0;
	int err, got = 0;

	know_files(x, fds, n);
	for (;;) {
		err = round_of(x, fds, n, deadline, &got);
		if (unlikely(generation != rt.generation)) {
			/* By a handler, in whose child we are. */
			generation = rt.generation;
			know_files(x, fds, n);
		}
		if (got)
			return got;
		/* The back end takes no more, or none of these. */
		if (err && err != ETIMEDOUT && err != ECANCELED && err != EINTR)
			err = io_nap(&naps, deadline);
		/* Not what was closed after that, or whatever is there: nothing is lost. */
		if (err == ECANCELED)
			return -err;
		got = look(x, fds, n);
		if (got || is_over(deadline))
			return got;
		if (err == EINTR)
			return -err;
		if (!err)
			io_call_retries();
	}
}

/* How many are ready, 0 at the deadline, or -error. */
static int poll_until(struct pollfd *fds, nfds_t n, uint64_t deadline)
{
	struct io_watch here[WATCHES_HERE], *x = here;
	int got = (int)io_look(fds, n);

	if (got || is_over(deadline))
		return got;
	if (!uthread_current())
		return block(fds, n, deadline);
	if (!n) {
		io_call_waits();
		return -waiter_sleep_cancellable(deadline);
	}
	/* Handlers come in the wait alone: malloc() is nothing to jump out of. */
	region_enter();
	if (n > WATCHES_HERE)
		x = malloc(n * sizeof(*x));
	got = x ? wait_many(x, fds, n, deadline) : -ENOMEM;
	if (x != here)
		free(x);
	region_leave();
	return got;
}

int io_poll_one(int fd, short events, uint64_t deadline)
{
	struct pollfd p = { .fd = fd, .events = events };
	int got = poll_until(&p, 1, deadline);

	if (got <= 0)
		return got ? -got : ETIMEDOUT;
	return p.revents & POLLNVAL ? EBADF : 0;
}

int uthread_io_goes_on(int fd, const struct timespec *deadline, int *tcp)
{
	const int saved = errno;
	uint64_t ns;
	int on = 0;

	*tcp = tcp_is(fd);
	if (*tcp && io_until(deadline, &ns))
		on = !io_poll_one(fd, POLLOUT, ns) &&
		     !tcp_has_failed(fd, false);
	errno = saved;
	return on;
}

/* poll_until() as a public call. */
static int poll_call(struct pollfd *fds, nfds_t n, uint64_t deadline)
{
	const uint8_t outer = io_call_begin();
	int got = poll_until(fds, n, deadline);

	io_call_end(outer, got > 0 ? 0 : got ? -got : ETIMEDOUT);
	return got;
}

/* Whatever was found: what is ready stays so, and who was cancelled before a descriptor was
 * closed is not to go by POLLNVAL. */
static int poll_result(long got)
{
	cancel_point();
	return (int)io_result(got);
}

int uthread_poll(struct pollfd *fds, nfds_t n, int timeout)
{
	uint64_t deadline = NO_DEADLINE;
	uint8_t outer;
	int got;

	cancel_point();
	if (!timeout) {
		outer = io_call_begin();
		got = (int)io_look(fds, n);
		io_call_end(outer, 0);
		return poll_result(got);
	}
	if (timeout > 0)
		deadline = now_ns() + (uint64_t)timeout * 1000000u;
	return poll_result(poll_call(fds, n, deadline));
}

int uthread_poll_timed(struct pollfd *fds, nfds_t n,
		       const struct timespec *deadline)
{
	uint64_t ns = NO_DEADLINE;
	int got;

	cancel_point();
	if (deadline && deadline_ns(deadline, &ns))
		return (int)io_result(-EINVAL);
	got = poll_call(fds, n, ns);
	return poll_result(got ? got : -ETIMEDOUT);
}

int uthread_io_wait(int fd, short events, const struct timespec *deadline)
{
	struct pollfd p = { .fd = fd, .events = events };
	int got;

	if (fd < 0)
		return (int)io_result(-EBADF);
	got = uthread_poll_timed(&p, 1, deadline);
	if (got <= 0)
		return got;
	return p.revents & POLLNVAL ? (int)io_result(-EBADF) : p.revents;
}
