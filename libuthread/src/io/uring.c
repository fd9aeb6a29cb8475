/* SPDX-License-Identifier: Apache-2.0 */
/*
 * uring.c - the back end that asks io_uring (ring.c): of descriptors, and for what
 * is done with files.
 *
 * A request lives as long as somebody waits for it. What says whose it is, its
 * user_data:
 *
 *	a list of a descriptor	its number, which list, and a stamp: one that is out
 *				of date is nobody's (struct io_fd: asked)
 *	an order		its address, on the stack of the uthread that waits
 *				for the event, whatever else happens to it
 *	a wake-up		nothing: the poller goes to look
 *	none			a cancellation's own end
 *
 * Requests are batched: who is about to park leaves them in the queue, and the
 * kernel is told by who polls next, which is who runs out of work, who has made
 * FAIR_TURNS switches, or a tick; at once only if somebody sleeps in the ring
 * (io_settle()). Looking for events is no system call.
 *
 * The poller sleeps in the ring and is woken by a request that does nothing. One
 * who polled meanwhile may have taken its event, and then makes it again, as long as
 * there is a poller.
 *
 * What is asked no more is cancelled by IORING_OP_ASYNC_CANCEL. IORING_OP_POLL_REMOVE
 * is refused (EALREADY) while an event is on its way; where somebody else has taken
 * what came by the time the kernel looks, the request stays, and holds its file: one
 * that was closed meanwhile was never the end for its peer.
 *
 * A cancellation for which the queue has no room, since the kernel is short of memory
 * and takes nothing, is owed: its request holds its file until then. So it is noted
 * where the request was, one for each list of a descriptor, and given before anything
 * else is asked for: by who asks next, who polls, or who is about to sleep in the ring.
 * Rejected: to wait for room there and then, with the lock of a descriptor, on which
 * those wait who take the events for which there is no room either.
 *
 * Orders: the kernel writes to memory of who gave them, so that one waits for the
 * end, cancelled or late or not; it says so to the kernel, which breaks off what
 * can be. One that the kernel breaks off by itself (its thread has ended) was not
 * done, and is given again.
 *
 * Opening is no order: the kernel has few threads for that (four a CPU), and those
 * who open one end of a pipe would keep them from who opens the other.
 *
 * rt.io_sources counts the requests of the first two kinds, until their events are
 * taken: one that was cancelled is looked after until the kernel has given its file
 * back. So it is 0 while nobody waits, and then nobody polls.
 */
#include <fcntl.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/san.h"
#include "base/valgrind.h"
#include "io/backend.h"
#include "io/count.h"

#if defined(__has_include) && __has_include(<linux/io_uring.h>)
#include "io/ring.h"
#endif

#ifdef IORING_FEAT_CQE_SKIP

#define SLEEP_EVENTS 128
#define SWEEP_ONLY (-1) /* no event, but time to sweep */
#define POLL_EVENTS 64 /* on a uthread's stack */
#define TRIES 8 /* of an order that is broken off */

_Static_assert(SLEEP_EVENTS * sizeof(struct ring_event) <=
		       sizeof(struct io_slept),
	       "so many fit");

/* ---- whose ---- */

/* An order's address has none of these bits. */
enum { TAG_ORDER, TAG_IN, TAG_OUT, TAG_LOOK, TAG_WAKE, TAG_NONE };
#define TAG_BITS 3
#define TAG_MASK 7u
#define FD_BITS 29
#define STAMP_SHIFT 32

_Static_assert(TAG_LOOK - TAG_IN == IO_LOOK && TAG_OUT - TAG_IN == IO_OUT,
	       "tags of lists are in their order");

static uint64_t list_data(int fd, int which, uint32_t stamp)
{
	return (uint64_t)stamp << STAMP_SHIFT | (uint64_t)fd << TAG_BITS |
	       (uint64_t)(TAG_IN + which);
}

/* Its event is counted on. */
static bool give(const struct io_uring_sqe *s)
{
	/* First: its event may be taken at once. Sequential: pairs with go_idle();
	 * who saw none has no poller. */
	__atomic_fetch_add(&rt.io_sources, 1, __ATOMIC_SEQ_CST);
	if (likely(ring_push(s)))
		return true;
	__atomic_fetch_sub(&rt.io_sources, 1, __ATOMIC_RELAXED);
	return false;
}

/* ---- descriptors ---- */

static bool cancel(uint64_t data)
{
	struct io_uring_sqe s;

	memset(&s, 0, sizeof(s));
	s.opcode = IORING_OP_ASYNC_CANCEL;
	s.flags = IOSQE_CQE_SKIP_SUCCESS;
	s.fd = -1;
	s.addr = data;
	s.user_data = TAG_NONE;
	return ring_push(&s);
}

static struct io_fd *owing; /* atomic to look at; those who owe */
static uint32_t owing_lock; /* guards their list, and what they owe */

static void owe(struct io_fd *e, int which, uint64_t data)
{
	int i, had = 0;

	spin_lock(&owing_lock);
	for (i = 0; i < IO_LISTS; i++)
		had |= e->owed[i] != 0;
	ut_assert(!e->owed[which]); /* watch() */
	e->owed[which] = data;
	if (!had) {
		e->owes = owing;
		store_relaxed(&owing, e);
	}
	spin_unlock(&owing_lock);
}

static bool owes_nothing(struct io_fd *e)
{
	int i;

	for (i = 0; i < IO_LISTS; i++) {
		if (e->owed[i] && !cancel(e->owed[i]))
			return false;
		e->owed[i] = 0;
	}
	return true;
}

/* Nothing is owed any more. In a region. */
static bool pay(void)
{
	if (likely(!load_relaxed(&owing)))
		return true;
	spin_lock(&owing_lock);
	while (owing && owes_nothing(owing))
		store_relaxed(&owing, owing->owes);
	spin_unlock(&owing_lock);
	return !load_relaxed(&owing);
}

static void ask_no_more(struct io_fd *e, int fd, int which)
{
	const uint64_t data = list_data(fd, which, e->asked[which]);

	if (!e->asked[which])
		return;
	e->asked[which] = 0;
	if (unlikely(!cancel(data)))
		owe(e, which, data);
}

static int watch(struct io_fd *e, int fd, int which, uint32_t events)
{
	struct io_uring_sqe s;

	if (which == IO_LOOK)
		ask_no_more(e, fd, which); /* for what may be less, or a file
					    * that is gone */
	else if (e->asked[which])
		return 0;
	else
		events = which == IO_IN ? EPOLLIN | EPOLLRDHUP : EPOLLOUT;
	/* There would be no room, nor where to note that it is owed. */
	if (!pay())
		return ENOSPC;
	if (!++e->stamp)
		e->stamp++;
	memset(&s, 0, sizeof(s));
	s.opcode = IORING_OP_POLL_ADD;
	s.fd = fd;
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
	events = events << 16 | events >> 16;
#endif
	s.poll32_events = events;
	s.user_data = list_data(fd, which, e->stamp);
	if (!give(&s))
		return ENOSPC;
	e->asked[which] = e->stamp;
	return 0;
}

static void unwatch(struct io_fd *e, int fd)
{
	if (!e->waits[IO_IN].head)
		ask_no_more(e, fd, IO_IN);
	if (!e->waits[IO_OUT].head)
		ask_no_more(e, fd, IO_OUT);
	if (!e->lookers.head)
		ask_no_more(e, fd, IO_LOOK);
}

static void take_back(struct io_fd *e, int fd)
{
	int which;

	for (which = 0; which < IO_LISTS; which++)
		ask_no_more(e, fd, which);
}

static int again(struct io_fd *e, int fd)
{
	const struct io_watch *x;
	uint32_t events = 0;
	int err = 0;

	for (x = e->lookers.head; x; x = x->next)
		events |= x->events;
	take_back(e, fd);
	if (e->waits[IO_IN].head)
		err = watch(e, fd, IO_IN, 0);
	if (!err && e->waits[IO_OUT].head)
		err = watch(e, fd, IO_OUT, 0);
	if (!err && events)
		err = watch(e, fd, IO_LOOK, events);
	return err ? ENOENT : 0; /* they try again */
}

/* ---- orders ---- */

struct order {
	struct waiter *waiter; /* NULL: nobody is to be woken */
	int32_t result;
	bool done;
};

static uint32_t orders_lock; /* guards all of them */

static void end_order(const struct ring_event *v, struct uthread_list *ready)
{
	struct order *o = (struct order *)(uintptr_t)v->data;

	spin_lock(&orders_lock);
	o->result = v->result;
	o->done = true;
	/* Under the lock: who waits looks there before it goes. */
	if (o->waiter)
		waiter_pick(o->waiter, ready);
	spin_unlock(&orders_lock);
}

static void fill(struct io_uring_sqe *s, const struct io_order *o)
{
	memset(s, 0, sizeof(*s));
	s->fd = o->fd;
	s->addr = (uint64_t)(uintptr_t)o->at;
	s->len = o->n;
	switch (o->what) {
	case ORDER_READ:
	case ORDER_WRITE:
		s->opcode = o->what == ORDER_READ ? IORING_OP_READV :
						    IORING_OP_WRITEV;
		s->off = (uint64_t)o->offset;
		break;
	case ORDER_FSYNC:
	case ORDER_FDATASYNC:
		s->opcode = IORING_OP_FSYNC;
		s->fsync_flags =
			o->what == ORDER_FDATASYNC ? IORING_FSYNC_DATASYNC : 0;
		break;
	}
}

/* One wait for its end; with `s` it is given first. ENOSPC: it was not. */
static int wait_once(struct order *o, const struct io_uring_sqe *s)
{
	REGION;
	struct waiter w;
	bool given;

	waiter_init_on(&w, WAITS_HELPER, NULL);
	if (s)
		waiter_cancellable(&w);
	spin_lock(&orders_lock);
	given = o->done || !s || give(s);
	if (o->done || !given) {
		spin_unlock(&orders_lock);
		return given ? 0 : ENOSPC;
	}
	uthread_become(w.ut, UT_WAITING);
	o->waiter = &w;
	spin_unlock(&orders_lock);
	io_call_waits();
	io_settle();
	if (io_lost())
		sched_wake_for_io(worker_current());
	return waiter_wait(&w, NO_DEADLINE);
}

#define RESTART_FIRST 512 /* -ERESTARTSYS and so on, which some calls let out */
#define RESTART_LAST 516

static bool is_broken_off(int32_t result)
{
	return result == -ECANCELED || result == -EINTR ||
	       (result <= -RESTART_FIRST && result >= -RESTART_LAST);
}

/* It was cancelled. False: it is done all the same. */
static bool break_off(struct order *o)
{
	bool done;

	for (;;) {
		REGION;

		spin_lock(&orders_lock);
		o->waiter = NULL;
		done = o->done || cancel((uint64_t)(uintptr_t)o);
		spin_unlock(&orders_lock);
		if (done)
			break;
		ring_flush();
	}
	region_enter();
	ring_flush();
	region_leave();
	wait_once(o, NULL);
	return is_broken_off(o->result);
}

static long order(const struct io_order *what)
{
	struct io_uring_sqe s;
	struct order o;
	int tries, err;

	fill(&s, what);
	s.user_data = (uint64_t)(uintptr_t)&o;
	for (tries = 0; tries < TRIES; tries++) {
		memset(&o, 0, sizeof(o));
		err = wait_once(&o, &s);
		if (err == ENOSPC)
			break;
		if (err)
			return break_off(&o) ? -err : o.result;
		if (!is_broken_off(o.result))
			return o.result == -EAGAIN ? -ENOSYS : o.result;
	}
	return -ENOSYS;
}

/* ---- events ---- */

/* Who sleeps in the ring sees to nothing. */
static void flush(void)
{
	pay();
	ring_flush_for_poller();
	while (unlikely(load_relaxed(&owing)) && load_relaxed(&rt.poller) &&
	       !ring_has_events()) {
		pay();
		ring_flush_for_poller();
	}
}

static void wake(void)
{
	struct io_uring_sqe s;

	memset(&s, 0, sizeof(s));
	s.opcode = IORING_OP_NOP;
	s.fd = -1;
	s.user_data = TAG_WAKE;
	region_enter();
	/* If there are events it does not sleep. */
	while (!ring_push(&s) && !ring_has_events())
		arch_pause();
	ring_flush_for_poller();
	region_leave();
}

/* True: somebody was made ready. */
static bool deliver(const struct ring_event *v, int n, bool by_poller)
{
	struct uthread_list ready = { 0 };
	bool takes_wake = false;
	uint32_t ended = 0;
	int i;

	io_sweep(!n, &ready);
	for (i = 0; i < n; i++, v++) {
		switch (v->data & TAG_MASK) {
		case TAG_ORDER:
			end_order(v, &ready);
			ended++;
			break;
		case TAG_IN:
		case TAG_OUT:
		case TAG_LOOK:
			io_level((int)((uint32_t)v->data >> TAG_BITS),
				 (int)(v->data & TAG_MASK) - TAG_IN,
				 (uint32_t)(v->data >> STAMP_SHIFT), v->result,
				 &ready);
			ended++;
			break;
		case TAG_WAKE:
			takes_wake = true;
			break;
		default:
			break;
		}
	}
	IO_COUNT(io_events, ended);
	if (ended)
		__atomic_fetch_sub(&rt.io_sources, ended, __ATOMIC_RELAXED);
	io_settle();
	if (unlikely(takes_wake && !by_poller && load_relaxed(&rt.poller)))
		wake();
	if (!ready.head)
		return false;
	sched_ready_all(&ready, UTHREAD_READY_WOKEN);
	return true;
}

static bool pending(void)
{
	return ring_has_events() || ring_has_requests() || load_relaxed(&owing);
}

static bool poll_now(void)
{
	struct ring_event events[POLL_EVENTS];

	IO_COUNT(io_polls, 1);
	pay();
	ring_flush();
	return deliver(events, ring_take(events, POLL_EVENTS), false);
}

static int poller_sleep(uint64_t deadline, struct io_slept *slept)
{
	struct ring_event *events = (void *)slept->words;
	const uint64_t sweep = io_sweep_next();
	uint64_t until = sweep < deadline ? sweep : deadline, now;
	int n;

	IO_COUNT(io_polls, 1);
	full_fence(); /* pairs: io_settle() */
	if (unlikely(!pay()))
		until = 0; /* look again */
	now = until == NO_DEADLINE ? 0 : now_ns();
	ring_wait(until == NO_DEADLINE ? until : until > now ? until - now : 0);
	n = ring_take(events, SLEEP_EVENTS);
	if (n == 1 && events[0].data == TAG_WAKE)
		return 0;
	/* Then it is for deliver(), too. */
	return n ? n : now_ns() >= io_sweep_next() ? SWEEP_ONLY : 0;
}

static void poller_deliver(const struct io_slept *slept, int n)
{
	deliver((const void *)slept->words, n > 0 ? n : 0, true);
}

/* ---- set-up ---- */

static int start(int fds[IO_OURS_MAX])
{
	int fd, err;

	/* It does not know what the kernel writes. */
	if (valgrind_running())
		return ENOSYS;
	err = ring_open(&fd);
	if (err)
		return err;
	fds[0] = io_out_of_the_way(fd);
	ring_set_fd(fds[0]);
	return 0;
}

static void forked(void)
{
	ring_drop();
	orders_lock = owing_lock = 0;
	owing = NULL;
}

const struct io_backend io_uring = {
	.name = "io_uring",
	.id = UTHREAD_IO_URING,
	.levels = true,
	.hooks = { .poll = poll_now,
		   .pending = pending,
		   .due = io_sweep_next,
		   .sleep = poller_sleep,
		   .deliver = poller_deliver,
		   .wake = wake },
	.start = start,
	.forked = forked,
	.watch = watch,
	.unwatch = unwatch,
	.again = again,
	.remove = take_back,
	.flush = flush,
	.order = order,
};

#else /* the kernel's headers are too old */

static int start(int fds[IO_OURS_MAX])
{
	(void)fds;
	return ENOSYS;
}

const struct io_backend io_uring = { .name = "io_uring", .start = start };

#endif
