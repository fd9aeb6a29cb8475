/* SPDX-License-Identifier: Apache-2.0 */
/*
 * io_ring.c - what the requests of an io_uring are answered, if that is the fault.
 *
 * The answer to a request is in memory, and no call says it. So one that is to fail is
 * made one that does nothing but say that (a NOP with its result in it), and one that
 * is to do less is made shorter, before the kernel is told of it. Who tells it holds a
 * lock meanwhile, so that nobody else's call takes a request that is half changed; and
 * who waits, too, does so in a call behind that.
 *
 * The kernel lets a NOP say something since 6.10; before, answers are as they are.
 */
#include "io_calls.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/utsname.h>
#include <unistd.h>

/* Every wrapper is called by name from the renamed library only. */
#pragma GCC diagnostic ignored "-Wmissing-prototypes"

#if defined(__has_include) && __has_include(<linux/io_uring.h>)
#include <linux/io_uring.h>
#endif

__thread uint32_t io_ring_enters_here;

bool io_ring_answers(void)
{
	int major = 0, minor = 0;
	struct utsname u;

	return !uname(&u) && sscanf(u.release, "%d.%d", &major, &minor) == 2 &&
	       (major > 6 || (major == 6 && minor >= 10));
}

#ifdef IORING_FEAT_CQE_SKIP

#define NOP_SAYS 1u /* IORING_NOP_INJECT_RESULT */

static struct {
	int fd; /* until it moves */
	struct io_uring_params p;
	char *queue;
	struct io_uring_sqe *requests;
	bool lock;
} ring = { .fd = -1 };

void *fault_mmap64(void *at, size_t bytes, int prot, int flags, int fd,
		   off_t off)
{
	const bool ours = fd >= 0 && fd == ring.fd;
	const int f = ours ? io_fault_now(CALL_RING_MAP) : 0;
	void *p;

	if (f > 0) {
		errno = f;
		return MAP_FAILED;
	}
	p = mmap(at, bytes, prot, flags, fd, off);
	if (ours && p != MAP_FAILED && off == (off_t)IORING_OFF_SQES)
		ring.requests = p;
	else if (ours && p != MAP_FAILED)
		ring.queue = p;
	return p;
}

long io_ring_setup(const long a[6])
{
	const int f = io_fault_now(CALL_RING_SETUP);
	long got;

	if (f > 0) {
		errno = f;
		return -1;
	}
	got = syscall(SYS_io_uring_setup, a[0], a[1]);
	if (got >= 0) {
		ring.fd = (int)got;
		memcpy(&ring.p, (void *)a[1], sizeof(ring.p));
	}
	return got;
}

/* ---- answers ---- */

static void say(struct io_uring_sqe *s, int error)
{
	s->opcode = IORING_OP_NOP;
	s->fd = -1;
	s->rw_flags = (int)NOP_SAYS;
	s->len = (uint32_t)-error;
}

/* Its first byte. */
static void shorten(struct io_uring_sqe *s)
{
	const struct iovec *v = (const struct iovec *)(uintptr_t)s->addr;
	uint32_t n = s->len;

	if (s->opcode != IORING_OP_READV && s->opcode != IORING_OP_WRITEV)
		return;
	for (; n && !v->iov_len; n--)
		v++;
	if (!n)
		return;
	s->opcode = s->opcode == IORING_OP_READV ? IORING_OP_READ :
						   IORING_OP_WRITE;
	s->addr = (uint64_t)(uintptr_t)v->iov_base;
	s->len = 1;
}

static void change(struct io_uring_sqe *s)
{
	int f;

	switch (s->opcode) {
	case IORING_OP_READV:
	case IORING_OP_WRITEV:
	case IORING_OP_FSYNC:
		f = io_fault_now(CALL_RING_ORDER);
		break;
	case IORING_OP_POLL_ADD:
		f = io_fault_now(CALL_RING_WATCH);
		break;
	default:
		return;
	}
	if (f > 0)
		say(s, f);
	else if (f == SHORT)
		shorten(s);
}

/* Of so many the kernel is told; how many it has taken. */
static long submit(long fd, uint32_t n)
{
	const uint64_t all = ~0ull;
	uint32_t head, there, i;
	uint64_t mask;
	long got;
	int error;

	/* A handler may have something to tell it, too. */
	syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, &mask, sizeof(mask));
	while (__atomic_test_and_set(&ring.lock, __ATOMIC_ACQUIRE))
		sched_yield();
	head = __atomic_load_n(
		(uint32_t *)(void *)(ring.queue + ring.p.sq_off.head),
		__ATOMIC_ACQUIRE);
	/* Somebody else may have told it of some. */
	there = __atomic_load_n(
			(uint32_t *)(void *)(ring.queue + ring.p.sq_off.tail),
			__ATOMIC_ACQUIRE) -
		head;
	for (i = 0; io_ring_answers() && i < n && i < there; i++)
		change(&ring.requests[(head + i) & (ring.p.sq_entries - 1)]);
	got = syscall(SYS_io_uring_enter, fd, (long)n, 0L, 0L, NULL, 0L);
	error = errno;
	__atomic_clear(&ring.lock, __ATOMIC_RELEASE);
	syscall(SYS_rt_sigprocmask, SIG_SETMASK, &mask, NULL, sizeof(mask));
	errno = error;
	return got;
}

long io_ring_enter(const long a[6])
{
	const int f = io_fault_now(CALL_RING_ENTER);
	uint32_t n = (uint32_t)a[1];
	long done = 0, got;

	io_ring_enters_here++;
	if (f > 0) {
		errno = f;
		return -1;
	}
	if (f == SHORT && n) /* and then it does not wait */
		return n > 1 ? submit(a[0], n - 1) : 0;
	if (n)
		done = submit(a[0], n);
	if (done < (long)n || !(a[3] & (long)IORING_ENTER_GETEVENTS))
		return done;
	got = syscall(SYS_io_uring_enter, a[0], 0L, a[2], a[3], a[4], a[5]);
	return got < 0 && done ? done : got;
}

#else /* the kernel's headers are too old: there is none */

void *fault_mmap64(void *at, size_t bytes, int prot, int flags, int fd,
		   off_t off)
{
	return mmap(at, bytes, prot, flags, fd, off);
}

long io_ring_setup(const long a[6])
{
	(void)a;
	errno = ENOSYS;
	return -1;
}

long io_ring_enter(const long a[6])
{
	(void)a;
	errno = ENOSYS;
	return -1;
}

#endif
