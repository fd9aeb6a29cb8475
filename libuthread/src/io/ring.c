/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ring.c - one io_uring, for all of the process.
 *
 * Two queues in memory that the kernel shares: requests that it takes when it is
 * told to (io_uring_enter()), and events that it puts there by itself.
 *
 *	requests	written by anybody under push_lock: the entry, then the tail.
 *			The kernel is told how many without a lock: it has one,
 *			and takes no more than there are
 *	events		taken by one at a time under take_lock: copied, then the head
 *
 * So no system call is made under a lock of ours, but where the queue is full.
 *
 * What a request needs done when its file is ready is done by the kernel thread that
 * told the kernel of it, on its way out of the kernel; if it computes it is
 * interrupted, and if it sleeps woken. So this goes on while a uthread computes
 * or sleeps in a call, but not while one waits in vfork() or for a disk. When that
 * kernel thread ends its requests are cancelled, and an event says so.
 *
 * If there is no room for events the kernel keeps them and says so in a flag.
 *
 * Rejected:
 *  - a ring for each worker. Events are for whoever runs out of work, whoever has
 *    asked (epoll.c); of the rings of workers that compute or sleep somebody else
 *    would have to be told, at each event or at each wait.
 *  - IORING_SETUP_DEFER_TASKRUN and SINGLE_ISSUER, cheaper per event: only one
 *    thread may ask, and while that computes nothing happens at all.
 *  - IORING_SETUP_COOP_TASKRUN: the same until its next system call.
 *  - IORING_SETUP_SQPOLL: a CPU that asks all the time.
 *  - liburing: its queues are one thread's, so of it there would be the three
 *    system calls left, and the mappings below; and libuthread.a, the probes for
 *    guests and the builds for other machines would all need it.
 */
#include <linux/time_types.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/spin.h"
#include "io/count.h"
#include "io/ring.h"

#define REQUESTS 1024
#define EVENTS 8192 /* more are kept by the kernel, which costs a call */
#define NS_PER_S 1000000000u
#define SHORT_NS 1000000u

/* 5.17 has this, and all that is used: requests that end quietly. */
#define FEATURES                                                              \
	(IORING_FEAT_SINGLE_MMAP | IORING_FEAT_NODROP | IORING_FEAT_EXT_ARG | \
	 IORING_FEAT_CQE_SKIP)

static struct {
	int fd;
	uint32_t push_lock, take_lock;
	/* Of requests. */
	uint32_t *head, *tail, *flags; /* atomic, the kernel's too */
	uint32_t mask;
	struct io_uring_sqe *requests;
	/* Of events. */
	uint32_t *event_head, *event_tail; /* the same */
	uint32_t event_mask;
	struct io_uring_cqe *events;
	char *map;
	size_t map_bytes, request_bytes;
} ring = { .fd = -1 };

/* ---- set-up ---- */

/* What uring.c asks for. */
static const uint8_t needed[] = {
	IORING_OP_NOP,	  IORING_OP_POLL_ADD, IORING_OP_READV,
	IORING_OP_WRITEV, IORING_OP_FSYNC,    IORING_OP_ASYNC_CANCEL,
};

/* A filter may refuse this one alone, and then nothing is ever told. */
static int probe_enter(int fd)
{
	return syscall(SYS_io_uring_enter, fd, 0, 0, IORING_ENTER_GETEVENTS,
		       NULL, 0) < 0 ?
		       errno :
		       0;
}

static int probe(int fd)
{
	struct {
		struct io_uring_probe head;
		struct io_uring_probe_op ops[IORING_OP_ASYNC_CANCEL + 1];
	} p;
	size_t i;

	memset(&p, 0, sizeof(p));
	if (syscall(SYS_io_uring_register, fd, IORING_REGISTER_PROBE, &p,
		    (int)(sizeof(p.ops) / sizeof(p.ops[0]))) < 0)
		return errno;
	for (i = 0; i < sizeof(needed); i++)
		if (needed[i] > p.head.last_op ||
		    !(p.head.ops[needed[i]].flags & IO_URING_OP_SUPPORTED))
			return ENOSYS;
	return probe_enter(fd);
}

static void *map(int fd, size_t bytes, uint64_t what)
{
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			MAP_SHARED | MAP_POPULATE, fd, (off_t)what);

	return at == MAP_FAILED ? NULL : at;
}

static int map_all(int fd, const struct io_uring_params *p)
{
	size_t bytes = p->sq_off.array + p->sq_entries * sizeof(uint32_t);
	uint32_t *order, i;

	ring.map_bytes =
		p->cq_off.cqes + p->cq_entries * sizeof(ring.events[0]);
	if (ring.map_bytes < bytes)
		ring.map_bytes = bytes;
	ring.request_bytes = p->sq_entries * sizeof(ring.requests[0]);
	ring.map = map(fd, ring.map_bytes, IORING_OFF_SQ_RING);
	ring.requests = map(fd, ring.request_bytes, IORING_OFF_SQES);
	if (!ring.map || !ring.requests)
		return errno;
	ring.head = (uint32_t *)(void *)(ring.map + p->sq_off.head);
	ring.tail = (uint32_t *)(void *)(ring.map + p->sq_off.tail);
	ring.flags = (uint32_t *)(void *)(ring.map + p->sq_off.flags);
	ring.mask = p->sq_entries - 1;
	ring.event_head = (uint32_t *)(void *)(ring.map + p->cq_off.head);
	ring.event_tail = (uint32_t *)(void *)(ring.map + p->cq_off.tail);
	ring.event_mask = p->cq_entries - 1;
	ring.events =
		(struct io_uring_cqe *)(void *)(ring.map + p->cq_off.cqes);
	/* The kernel allows another order than that in which they lie. */
	order = (uint32_t *)(void *)(ring.map + p->sq_off.array);
	for (i = 0; i < p->sq_entries; i++)
		order[i] = i;
	return 0;
}

void ring_drop(void)
{
	if (ring.map)
		munmap(ring.map, ring.map_bytes);
	if (ring.requests)
		munmap(ring.requests, ring.request_bytes);
	memset(&ring, 0, sizeof(ring));
	ring.fd = -1;
}

int ring_open(int *fd)
{
	struct io_uring_params p;
	int got, err;

	memset(&p, 0, sizeof(p));
	/* One that is wrong does not keep back those behind it. */
	p.flags = IORING_SETUP_CQSIZE | IORING_SETUP_SUBMIT_ALL;
	p.cq_entries = EVENTS;
	got = (int)syscall(SYS_io_uring_setup, REQUESTS, &p);
	if (got < 0)
		return errno;
	err = (p.features & FEATURES) == FEATURES ? probe(got) : ENOSYS;
	if (!err)
		err = map_all(got, &p);
	if (err) {
		ring_drop();
		syscall(SYS_close, got);
		return err;
	}
	*fd = got;
	return 0;
}

void ring_set_fd(int fd)
{
	ring.fd = fd;
}

/* ---- telling the kernel ---- */

static uint32_t pending(void)
{
	return load_acquire(ring.tail) - load_acquire(ring.head);
}

/* No system call any more, and nobody would be told of anything: that is the end. */
__attribute__((noinline, cold)) static void is_refused(int err)
{
	switch (err) {
	case EBADF:
	case ENXIO:
	case EOPNOTSUPP:
		ut_panic(
			"the io_uring that tells of events is gone: somebody closed descriptor %d",
			ring.fd);
	case EACCES:
	case ENOSYS:
	case EPERM:
		ut_panic(
			"io_uring_enter() is refused since the start (error %d): let the seccomp filter allow it, or set UTHREAD_IO=epoll",
			err);
	default:
		break;
	}
}

/* 0, or an error that may pass. In a region. */
static int enter(uint32_t n, uint32_t events, unsigned flags, const void *arg,
		 size_t bytes)
{
	int saved = errno, err = 0;
	const long got = syscall(SYS_io_uring_enter, ring.fd, n, events, flags,
				 arg, bytes);

	if (got < 0)
		err = errno;
	errno = saved;
	IO_COUNT(io_enters, 1);
	if (got > 0)
		IO_COUNT(io_requests, got);
	if (unlikely(err))
		is_refused(err);
	return err;
}

/* It lacks memory, or has events that nobody has taken: before it is asked again. */
static void pause_shortly(void)
{
	uint32_t word = 0;

	futex_wait(&word, 0, now_ns() + SHORT_NS);
}

bool ring_has_requests(void)
{
	return pending() != 0;
}

void ring_flush(void)
{
	uint32_t n = pending();

	/* What it does not take now is there for the next one. */
	if (n)
		enter(n, 0, 0, NULL, 0);
}

void ring_flush_for_poller(void)
{
	ring_flush();
	/* Events wake it, too, and may have to be taken first. */
	while (unlikely(pending()) && load_relaxed(&rt.poller) &&
	       !ring_has_events()) {
		pause_shortly();
		ring_flush();
	}
}

bool ring_push(const struct io_uring_sqe *s)
{
	uint32_t tail;

	spin_lock(&ring.push_lock);
	tail = load_relaxed(ring.tail);
	if (unlikely(tail - load_acquire(ring.head) > ring.mask)) {
		ring_flush();
		if (tail - load_acquire(ring.head) > ring.mask) {
			spin_unlock(&ring.push_lock);
			return false;
		}
	}
	ring.requests[tail & ring.mask] = *s;
	store_release(ring.tail, tail + 1); /* pairs: the kernel, pending() */
	spin_unlock(&ring.push_lock);
	return true;
}

/* ---- events ---- */

bool ring_has_events(void)
{
	return load_acquire(ring.event_tail) != load_relaxed(ring.event_head);
}

int ring_take(struct ring_event *events, int room)
{
	const struct io_uring_cqe *c;
	uint32_t head, n;
	int i;

	if (unlikely(load_relaxed(ring.flags) & IORING_SQ_CQ_OVERFLOW))
		enter(0, 0, IORING_ENTER_GETEVENTS, NULL, 0);
	if (!ring_has_events())
		return 0;
	spin_lock(&ring.take_lock);
	head = load_relaxed(ring.event_head);
	n = load_acquire(ring.event_tail) - head; /* pairs: the kernel */
	for (i = 0; i < room && (uint32_t)i < n; i++) {
		c = &ring.events[(head + (uint32_t)i) & ring.event_mask];
		events[i] =
			(struct ring_event){ c->user_data, c->res, c->flags };
	}
	store_release(ring.event_head, head + (uint32_t)i);
	spin_unlock(&ring.take_lock);
	return i;
}

void ring_wait(uint64_t ns)
{
	struct __kernel_timespec t = { .tv_sec = (int64_t)(ns / NS_PER_S),
				       .tv_nsec = (long long)(ns % NS_PER_S) };
	struct io_uring_getevents_arg a = {
		.sigmask_sz = _NSIG / 8,
		.ts = ns == UINT64_MAX ? 0 : (uint64_t)(uintptr_t)&t,
	};
	uint32_t n;
	int err;

	full_fence(); /* pairs: io_settle() */
	n = pending();
	if (ring_has_events()) {
		ring_flush();
		return;
	}
	err = enter(n, 1, IORING_ENTER_GETEVENTS | IORING_ENTER_EXT_ARG, &a,
		    sizeof(a));
	if (unlikely(err && err != EINTR && err != ETIME) && !ring_has_events())
		pause_shortly();
}
