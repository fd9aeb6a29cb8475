/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run.c - a call on one descriptor: try, wait, try again.
 *
 * What is the same for all that are a struct io_request: whether a try is worth it,
 * waiting, what is left after a part, and the result.
 *
 * Where nobody can tell (no descriptor is left for a back end, or it takes no more) who
 * waits naps, tries, and asks the back end again. Rejected: to wait in the kernel while
 * a spare stands in. Spares are limited, and without ticks there are none, so two that
 * wait for each other did so for ever; and who waits in the kernel does not see that
 * the number was closed, or that there is room again.
 */
#include <fcntl.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "io/backend.h"
#include "io/request.h"
#include "sched/cancel.h"
#include "sched/waiter.h"

#define NS_PER_S 1000000000u

int io_block(int fd, short events, uint64_t deadline)
{
	struct pollfd p = { .fd = fd, .events = events };
	const uint64_t left = deadline_left(deadline);
	struct timespec t = { .tv_sec = (time_t)(left / NS_PER_S),
			      .tv_nsec = (long)(left % NS_PER_S) };
	int n;

	n = ppoll(&p, 1, deadline == NO_DEADLINE ? NULL : &t, NULL);
	if (n < 0)
		return errno == EINTR ? 0 : errno;
	if (p.revents & POLLNVAL)
		return EBADF;
	return n || deadline_left(deadline) ? 0 : ETIMEDOUT;
}

#define NAP_NS 200000u
#define NAP_MAX_NS 20000000u

int io_nap(unsigned *naps, uint64_t deadline)
{
	uint64_t until = now_ns(), ns = NAP_NS << *naps;

	if (ns < NAP_MAX_NS)
		(*naps)++;
	else
		ns = NAP_MAX_NS;
	until += ns;
	if (!deadline_left(deadline))
		return ETIMEDOUT;
	io_call_waits();
	return waiter_sleep_cancellable(until < deadline ? until : deadline);
}

long io_no_entry(int fd)
{
	return fd < 0 || fcntl(fd, F_GETFD) < 0 ? -EBADF : -ENOMEM;
}

#define LOOK_NS 20000000u
#define LOOK_MAX_NS 1000000000u

/*
 * A try to write to a local socket whose other side hears no more (SHUT_RD) is told
 * EPIPE, and who waits in the kernel wakes for it, but poll() knows nothing of it, nor do
 * the back ends. So who waits for room there tries now and then, by itself.
 */
static uint64_t next_look(struct io_request *r)
{
	uint64_t ns = LOOK_MAX_NS, at;

	if (likely(r->way == IO_IN || io_kind_of(r->e, r->fd) != IO_SOCKET))
		return r->deadline;
	if (LOOK_NS << r->looks < LOOK_MAX_NS)
		ns = LOOK_NS << r->looks++;
	at = now_ns() + ns;
	return at < r->deadline ? at : r->deadline;
}

static inline int wait_for(struct io_request *r, uint32_t edges)
{
	const short events = r->way == IO_IN ? POLLIN : POLLOUT;
	uint64_t until = r->deadline;
	int err;

	if (!uthread_current()) {
		until = next_look(r);
		err = io_block(r->fd, events, until);
		return err == ETIMEDOUT && until != r->deadline ? 0 : err;
	}
	/* Data that nobody reads here would be an answer each time. */
	if (unlikely(r->flags & MSG_OOB && io_levels()))
		return io_poll_one(r->fd, POLLPRI, r->deadline);
	until = next_look(r);
	err = io_wait_edge(r->e, r->fd, r->way, edges, r->gen, until);
	r->looked = err == ETIMEDOUT && until != r->deadline;
	r->untold = r->looked;
	if (unlikely(r->looked))
		err = 0;
	switch (err) {
	case ELOOP:
	case EMFILE:
	case ENFILE:
	case ENOMEM:
	case ENOSPC:
		/* It takes no more now, so no edge is counted: a try will say. */
		r->untold = true;
		err = io_nap(&r->naps, r->deadline);
		break;
	}
	if (io_is_of_parent(r->e)) {
		struct io_fd *e = io_fd_get(r->fd);

		if (!e)
			return ENOMEM;
		r->e = e;
		r->gen = load_acquire(&e->gen);
		r->untold = true;
	}
	/* It was closed after an edge had woken us: what has the number now is
	 * none of ours. */
	if (unlikely(load_acquire(&r->e->gen) != r->gen) &&
	    (!err || err == ETIMEDOUT))
		err = EBADF;
	if (unlikely(err == EBADF))
		io_call_closed();
	return err;
}

int io_wait_to_try(struct io_request *r, uint32_t edges)
{
	return wait_for(r, edges);
}

long io_or_closed(const struct io_request *r, long err)
{
	if (likely(load_acquire(&r->e->gen) == r->gen))
		return err;
	io_call_closed();
	return -EBADF;
}

/* A part is through, and is told then as the kernel does: any handler ends it that the
 * caller hears of. */
static int wait_for_rest(struct io_request *r, uint32_t edges)
{
	struct uthread *me = uthread_current();
	int err;

	if (likely(!me || me->intr != INTR_PLAIN))
		return wait_for(r, edges);
	me->intr = INTR_ANY;
	err = wait_for(r, edges);
	me->intr = INTR_PLAIN;
	return err;
}

#define WASTED 16 /* in a row, before it pauses */
#define PAUSE_NS 200000
#define PAUSE_MAX_NS 20000000

/*
 * Woken again and again for nothing: by level at once, each time, by a socket with an
 * error, for who asks for that (MSG_ERRQUEUE) alone; and by edges, too, by its own try
 * to send: a datagram for a queue that others have filled, of a socket that has no
 * connection, is made and thrown away, and there is room again. 0, ETIMEDOUT or
 * ECANCELED.
 */
static int pause_if_wasted(struct io_request *r, unsigned wasted)
{
	uint64_t ns = PAUSE_NS, until;

	if (wasted < WASTED || (r->way == IO_IN && !io_levels()) ||
	    !uthread_current())
		return 0;
	for (; wasted > WASTED && ns < PAUSE_MAX_NS; wasted--)
		ns *= 2;
	until = now_ns() + (ns < PAUSE_MAX_NS ? ns : PAUSE_MAX_NS);
	return waiter_sleep_cancellable(
		       until < r->deadline ? until : r->deadline) == ECANCELED ?
		       ECANCELED :
		       0;
}

/* Of what there is to do, so much is done. */
static void shrink(struct io_request *r, size_t done)
{
	r->bytes -= done;
	r->flags |= MSG_NOSIGNAL; /* SIGPIPE is for who has sent nothing */
	r->msg = NULL;
	r->name = NULL; /* it is known by the first part */
	r->name_bytes = 0;
	if (r->part.iov_len) {
		r->part.iov_base = (char *)r->part.iov_base + done;
		r->part.iov_len -= done;
		return;
	}
	for (; r->n && done >= r->iov->iov_len; r->n--)
		done -= r->iov++->iov_len;
	if (!done)
		return;
	r->part.iov_base = (char *)r->iov->iov_base + done;
	r->part.iov_len = r->iov->iov_len - done;
	r->iov++;
	r->n--;
}

static int socket_type(int fd)
{
	socklen_t bytes = sizeof(int);
	int type = SOCK_STREAM;

	getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &bytes);
	return type;
}

/* A part was read of what is to be read whole: does more of it come? A datagram is
 * all there is, whatever was asked for. */
static bool goes_on(const struct io_request *r)
{
	return r->way == IO_OUT || socket_type(r->fd) == SOCK_STREAM;
}

/*
 * Nothing was there to read, and nothing will be: shutdown() was called. Who waits in
 * the kernel then reads an end, and programs wake the reader of a UDP socket so; who
 * does not wait is told by datagrams to try again. (Others say the end themselves, and
 * behind what there is to read.)
 */
static bool is_shut(const struct io_request *r)
{
	int type;

	if (r->way != IO_IN || !load_relaxed(&r->e->ended) ||
	    r->flags & (MSG_OOB | MSG_ERRQUEUE | MSG_DONTWAIT) ||
	    io_kind_of(r->e, r->fd) != IO_SOCKET)
		return false;
	type = socket_type(r->fd);
	return type != SOCK_STREAM && type != SOCK_SEQPACKET &&
	       io_no_more(r->fd);
}

/* A part of the bytes was read: is it all there was? */
static bool has_emptied(struct io_request *r, size_t got)
{
	return r->way == IO_IN && got && got < r->bytes &&
	       !(r->flags & IO_BESIDE) && io_kind_of(r->e, r->fd) == IO_TCP;
}

#define EVENT_BYTES sizeof(struct signalfd_siginfo) /* the largest */

/* What tells events says no at once to who has no room for one (EINVAL), though it has
 * none. */
static inline bool may_be_too_little(const struct io_request *r)
{
	return unlikely(r->bytes < EVENT_BYTES) &&
	       unlikely(load_relaxed(&r->e->kind) == IO_STREAM);
}

/* Nothing is there, and who tells of edges would have told. If nobody has waited yet the
 * number may be another file's since that was found, unseen (close.c), of which no edge
 * ever comes; and what has no RWF_NOWAIT may be a terminal that waits no more. */
static inline bool has_nothing(const struct io_request *r, uint32_t edges)
{
	return io_is_empty(r->e, r->way, edges) && !may_be_too_little(r) &&
	       likely(load_relaxed(&r->e->waited)) &&
	       likely(!(load_relaxed(&r->e->plain) & 1u << r->way));
}

/* An error, or nothing, of this call's own. */
static long last_word(struct io_request *r, size_t done, long got)
{
	long lost;

	if (done && got < 0)
		io_lost_keep(r, -got);
	/* What came before the error is read before it. */
	if (done || got || r->way != IO_IN || !r->bytes ||
	    likely(!load_relaxed(&r->e->ended)))
		return got;
	lost = io_lost_take(r);
	return lost ? lost : got;
}

long io_run(struct io_request *r)
{
	/* Only who is told of edges may go by them, and only for what they tell:
	 * not whether there is anything urgent, or an error. */
	bool must_try = r->flags & (MSG_DONTWAIT | MSG_OOB | MSG_ERRQUEUE) ||
			!uthread_current();
	size_t done = 0;
	uint32_t edges;
	unsigned wasted = 0;
	bool emptied, shut = false;
	long got;
	int err;

	r->e = io_fd_get(r->fd);
	if (unlikely(!r->e))
		return io_no_entry(r->fd);
	r->gen = load_acquire(&r->e->gen);
	for (err = 0;;) {
		edges = io_edges(r->e, r->way);
		if (must_try || r->untold || !has_nothing(r, edges)) {
			if (unlikely(done) && io_has_failed(r)) {
				emptied = false;
				break;
			}
			if (unlikely(load_relaxed(&r->e->ended)) && !done &&
			    r->way == IO_OUT && (got = io_lost_take(r))) {
				emptied = false;
				break;
			}
			got = r->attempt(r);
			emptied = got == -EAGAIN ||
				  (got > 0 && has_emptied(r, (size_t)got));
			if (emptied && !(r->flags & IO_BESIDE))
				io_set_empty(r->e, r->way, edges);
			if (likely(got >= 0)) {
				done += (size_t)got;
				wasted = 0;
				if (!r->whole || !got ||
				    (size_t)got >= r->bytes || !goes_on(r))
					break;
				shrink(r, (size_t)got);
				continue;
			}
			if (unlikely(got == -EINTR))
				continue;
			if (got != -EAGAIN) {
				got = wasted ? io_or_closed(r, got) : got;
				break;
			}
			if (unlikely(is_shut(r))) {
				got = 0;
				emptied = false; /* an end for all */
				if (shut)
					break;
				shut = true; /* something may have come before */
				continue;
			}
		}
		emptied = true;
		got = err ? -err : -EAGAIN;
		if (err || r->flags & (MSG_DONTWAIT | MSG_ERRQUEUE))
			break;
		if (wasted && !r->looked)
			io_call_retries();
		err = r->looked ? 0 : pause_if_wasted(r, wasted++);
		if (!err)
			err = unlikely(done) ? wait_for_rest(r, edges) :
					       wait_for(r, edges);
		if (unlikely(err == EPERM)) {
			/* It is not of a kind that waits. */
			store_relaxed(&r->e->kind, IO_FILE);
			r->unpolled = true;
			err = 0;
		} else if (unlikely(err == ETIMEDOUT)) {
			/* It may be that nobody has polled. */
			must_try = true;
		} else if (unlikely(err)) {
			got = -err;
			/* Who left by a jump may have been woken. */
			emptied = err != ECANCELED;
			break;
		}
	}
	if (unlikely(r->peeked && got < 0 && got != -ECANCELED)) {
		got = r->peeked;
		emptied = false;
	}
	/* What it was woken for, if it was, may be there still. */
	io_pass_on(r->e, r->fd, r->way, emptied);
	/* The kernel says these of its own, too: a deadline's is that of a wait. */
	if (unlikely(got == -ECANCELED || (err && got == -err)))
		r->how = (int)-got;
	else if (unlikely(got <= 0))
		got = last_word(r, done, got);
	return done ? (long)done : got;
}
