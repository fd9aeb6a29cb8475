/* SPDX-License-Identifier: Apache-2.0 */
/*
 * backend.c - which back end there is, and the runtime's own descriptors.
 *
 * It is made when the first uthread has to wait; if one was asked for by name, at
 * the start, so that it can be said that it cannot be had. Who asks for none gets
 * the default, or the other one where the kernel refuses that.
 *
 * Once chosen it stays: descriptors that wait are known to it alone. The child of a
 * fork makes one of its own, of the same kind.
 */
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/san.h"
#include "io/backend.h"

const struct io_backend *io_backend; /* atomic */
static enum uthread_io wanted; /* 0: nobody has said */
static int ours[IO_OURS_MAX] = { -1, -1 }; /* in order; -1: none, at the end */
static pid_t process; /* whose they are */
static uint32_t setup_lock; /* 2: and somebody sleeps until it is free */

#define OURS_FROM \
	960 /* the kernel's table of descriptors has to reach as far */

int io_out_of_the_way(int fd)
{
	struct rlimit r;
	int high = -1;

	if (fd >= 0 && !getrlimit(RLIMIT_NOFILE, &r))
		high = fcntl(fd, F_DUPFD_CLOEXEC,
			     r.rlim_cur > OURS_FROM + 64 ?
				     OURS_FROM :
				     (int)r.rlim_cur / 4 * 3);
	if (high < 0)
		return fd;
	syscall(SYS_close, fd);
	return high;
}

int io_ours(int fds[IO_OURS_MAX])
{
	int i;

	if (!load_acquire(&io_backend))
		return 0;
	for (i = 0; i < IO_OURS_MAX && ours[i] >= 0; i++)
		fds[i] = ours[i];
	return i;
}

pid_t io_process(void)
{
	return process;
}

/* ---- making one ---- */

static int make(const struct io_backend *b)
{
	int fds[IO_OURS_MAX] = { -1, -1 }, err = b->start(fds);
	const bool swap = fds[1] >= 0 && fds[1] < fds[0];

	if (err)
		return err;
	process = getpid();
	ours[0] = fds[swap];
	ours[1] = fds[!swap];
	sched_io = b->hooks;
	store_release(&io_backend, b);
	return 0;
}

/* There is no room for it now, but there may be later. */
static bool is_short(int err)
{
	return err == EMFILE || err == ENFILE;
}

static int make_wanted(void)
{
	const bool ring = (wanted ? wanted : IO_DEFAULT) == UTHREAD_IO_URING;
	int err;

	if (ring) {
		err = make(&io_uring);
		if (!err || is_short(err))
			return err;
		wanted = UTHREAD_IO_EPOLL;
	}
	return make(&io_epoll);
}

/*
 * Its holder sleeps in the kernel: a descriptor that high makes the table grow, and
 * with several threads that waits for all CPUs. Who spins meanwhile keeps one of them
 * from those who wait, at a real-time priority for a second.
 */
static void lock_setup(void)
{
	uint32_t now = 0;

	if (__atomic_compare_exchange_n(&setup_lock, &now, 1, false,
					__ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
		return;
	while (__atomic_exchange_n(&setup_lock, 2, __ATOMIC_ACQUIRE))
		futex_wait(&setup_lock, 2, NO_DEADLINE);
}

static void unlock_setup(void)
{
	if (__atomic_exchange_n(&setup_lock, 0, __ATOMIC_RELEASE) == 2)
		futex_wake(&setup_lock, 1);
}

int io_start(void)
{
	int err = 0, saved;

	if (likely(load_acquire(&io_backend)))
		return 0;
	saved = errno; /* not before: it is in a line that may be far away */
	lock_setup();
	if (!io_backend)
		err = make_wanted();
	unlock_setup();
	errno = saved;
	/* Whatever else it is that cannot be had, who waits looks by itself. */
	return !err || is_short(err) ? err : ENOMEM;
}

const struct io_backend *io_takes_orders(void)
{
	const struct io_backend *b = load_acquire(&io_backend);

	if (!b && (wanted ? wanted : IO_DEFAULT) == UTHREAD_IO_URING &&
	    !io_start())
		b = load_acquire(&io_backend);
	return b && b->order ? b : NULL;
}

bool io_choose(enum uthread_io which)
{
	int err = 0;

	lock_setup();
	wanted = which;
	if (which == UTHREAD_IO_URING && !io_backend) {
		err = make(&io_uring);
		if (err && !is_short(err))
			wanted = UTHREAD_IO_EPOLL;
	}
	unlock_setup();
	errno = err;
	return !err || is_short(err); /* then who waits makes it */
}

enum uthread_io io_chosen(void)
{
	const struct io_backend *b = load_acquire(&io_backend);

	return b ? b->id : 0;
}

void io_backend_forked(void)
{
	int saved = errno, i;

	rt.io_sources = 0;
	rt.poller = NULL;
	setup_lock = 0;
	if (io_backend)
		io_backend->forked();
	/* The parent's: closing them here does nothing to it. */
	for (i = 0; i < IO_OURS_MAX; i++) {
		if (ours[i] >= 0)
			syscall(SYS_close, ours[i]);
		ours[i] = -1;
	}
	io_backend = NULL;
	errno = saved;
}
