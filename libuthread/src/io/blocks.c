/* SPDX-License-Identifier: Apache-2.0 */
/*
 * blocks.c - that reading from a connection waits, known without asking.
 *
 * A call of libc's that found nothing has to know whether O_NONBLOCK is set, and the
 * socket's SO_RCVTIMEO, before it may park: two system calls for each request of a
 * server with a thread for each connection, which has two besides. What was asked once
 * holds until somebody changes it. So the answer is kept with the descriptor, under the
 * count of changes (by anybody, to any descriptor: they are rare) that was there before
 * it was asked.
 *
 * Only of what others cannot change: a connection that was accepted here, and that no
 * child has got since (io_shared()) and nobody was sent (uthread_io_given()). Children
 * are counted in a byte; a process that has had too many asks each time.
 *
 * What goes past, a number that somebody closed so that nobody tells us (sweep.c) or
 * flags that were set by a system call of one's own, is found by the sweep: who waits
 * there then gets EAGAIN, and asks. Not once others may have changed it, or somebody has
 * told that it is changed: who waited before that goes on waiting, as in the kernel.
 *
 * Rejected: to look after each wait that relied on it, after a while, and do without
 * all that: who began to wait before a child set O_NONBLOCK would get EAGAIN, which the
 * kernel does not do.
 */
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "io/backend.h"
#include "uthread/pthread.h"

#define SHARES_MAX 254

static uint32_t changes = 1; /* atomic; so far, never 0 */
static uint32_t shares; /* atomic; the same, up to SHARES_MAX */

uint32_t uthread_io_changes(void)
{
	return load_acquire(&changes); /* pairs: uthread_io_changed() */
}

void uthread_io_changed(int fd)
{
	struct io_fd *e = io_fd_find(fd);

	/* Who waits there already began before: nothing to look after. */
	if (e)
		store_relaxed(&e->blocks, 0);
	if (unlikely(!__atomic_add_fetch(&changes, 1, __ATOMIC_RELEASE)))
		__atomic_add_fetch(&changes, 1, __ATOMIC_RELEASE);
}

/* The mark of what is made now. 0: of nothing. */
static uint8_t mark(void)
{
	const uint32_t n = load_relaxed(&shares);

	return n < SHARES_MAX ? (uint8_t)(n + 1) : 0;
}

void io_shared(void)
{
	if (load_relaxed(&shares) < SHARES_MAX)
		__atomic_add_fetch(&shares, 1, __ATOMIC_RELAXED);
}

void io_blocks_made(struct io_fd *e)
{
	store_relaxed(&e->blocks, 0);
	/* Until somebody has had to wait its close is nobody's business (close.c). */
	if (load_acquire(&io_backend))
		store_relaxed(&e->made, mark());
}

void uthread_io_given(int fd)
{
	struct io_fd *e = io_fd_find(fd);

	if (e)
		store_relaxed(&e->made, 0);
}

static bool is_ours_alone(const struct io_fd *e)
{
	const uint8_t made = load_relaxed(&e->made);

	return made && made == mark();
}

int uthread_io_blocks(int fd)
{
	const struct io_fd *e = io_fd_find(fd);

	return e && load_relaxed(&e->blocks) == load_acquire(&changes) &&
	       is_ours_alone(e);
}

void uthread_io_set_blocks(int fd, uint32_t seen)
{
	struct io_fd *e = io_fd_find(fd);

	if (e && is_ours_alone(e))
		store_relaxed(&e->blocks, seen);
}

bool io_blocks_no_more(struct io_fd *e, int fd)
{
	struct timeval tv = { 0 };
	socklen_t bytes = sizeof(tv);
	const int saved = errno;
	bool blocks;
	int flags;

	if (likely(!load_relaxed(&e->blocks)) || !is_ours_alone(e))
		return false;
	flags = fcntl(fd, F_GETFL);
	blocks = flags >= 0 && !(flags & O_NONBLOCK) &&
		 !getsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, &bytes) &&
		 !tv.tv_sec && !tv.tv_usec;
	errno = saved;
	if (!blocks)
		store_relaxed(&e->blocks, 0);
	return !blocks;
}
