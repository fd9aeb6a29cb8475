/* SPDX-License-Identifier: Apache-2.0 */
/*
 * channel.h - channels, select, wait groups, task scopes. Part of uthread.h.
 *
 * All of it may be called from uthreads and from plain pthreads, at the same
 * object; who has to wait does so in turn, first come, first served. Functions
 * return 0 or an error number and leave errno alone. Deadlines are absolute
 * CLOCK_MONOTONIC (or see uthread_deadline_realtime()); NULL is none. A malformed deadline is EINVAL, and as with
 * POSIX it matters only where the call would wait. All calls that may wait are
 * cancellation points (cancel.h).
 */
#ifndef UTHREAD_CHANNEL_H
#define UTHREAD_CHANNEL_H

#include <stddef.h>
#include <stdint.h>

#include "../uthread.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- channels ---------------------------------------------------------- */

/*
 * A queue of values of one size, between any number of senders and receivers.
 * With room for `capacity` of them a send waits while it is full; with none
 * (0) each send meets a receive: both return, or neither. Values are bytes,
 * copied in and out, straight from a sender's memory to a receiver's where one
 * waits. What a send did before is seen by who received its value.
 */
typedef struct uthread_chan *uthread_chan_t;

#define UTHREAD_CHAN_ITEM_MAX 65536u /* bytes of a value */

/* Item size 0 is a channel of signals. EINVAL: larger than
 * UTHREAD_CHAN_ITEM_MAX, or no such capacity can be. ENOMEM. The caller owns
 * the channel and destroys it. */
int uthread_chan_create(uthread_chan_t *chan, size_t item_size,
			size_t capacity);
/* EBUSY while somebody waits at it. What nobody received is dropped. Nobody
 * may begin a call on it any more; who has returned from waiting, or whose
 * value has come out, is done with it. NULL: nothing to do. */
int uthread_chan_destroy(uthread_chan_t chan);
/* No more sends: who waits to send gets EPIPE, and so does every later send.
 * Who receives gets what is left, then EPIPE. EPIPE: it is closed already. */
int uthread_chan_close(uthread_chan_t chan);

/* `item`: item_size bytes; may be NULL if that is 0, else EINVAL. EPIPE:
 * closed, and the value was not sent. */
int uthread_chan_send(uthread_chan_t chan, const void *item);
/* EAGAIN: it would have to wait. */
int uthread_chan_trysend(uthread_chan_t chan, const void *item);
/* ETIMEDOUT: the value was not sent. */
int uthread_chan_send_timed(uthread_chan_t chan, const void *item,
			    const struct timespec *deadline);
/* `item`: room for item_size bytes; NULL: the value is dropped. EPIPE: closed
 * and empty; *item is left alone. */
int uthread_chan_recv(uthread_chan_t chan, void *item);
int uthread_chan_tryrecv(uthread_chan_t chan, void *item);
int uthread_chan_recv_timed(uthread_chan_t chan, void *item,
			    const struct timespec *deadline);
/* Values in its buffer; may be another number already. */
size_t uthread_chan_count(uthread_chan_t chan);
size_t uthread_chan_capacity(uthread_chan_t chan);
size_t uthread_chan_item_size(uthread_chan_t chan);

/* ---- select -------------------------------------------------------------- */

enum uthread_case_kind {
	UTHREAD_CASE_RECV = 0,
	UTHREAD_CASE_SEND = 1,
	UTHREAD_CASE_FD = 2,
};

/*
 * What a select waits for. The memory is the caller's and stays where it is
 * until the select has returned; the same cases may be used again.
 */
struct uthread_case {
	uint32_t kind; /* enum uthread_case_kind */
	int fd; /* UTHREAD_CASE_FD: a descriptor, negative: never ready, */
	short events; /* POLLIN and the like, */
	short revents; /* and what of it is so, when it was chosen */
	uthread_chan_t chan; /* NULL: never ready */
	void *item; /* as of send or receive; not written by a send */
	uint64_t _u[8];
};

#define UTHREAD_RECV_FROM(chan, item) \
	{ UTHREAD_CASE_RECV, -1, 0, 0, (chan), (item), { 0 } }
#define UTHREAD_SEND_TO(chan, item) \
	{ UTHREAD_CASE_SEND, -1, 0, 0, (chan), (void *)(item), { 0 } }
#define UTHREAD_FD_READY(fd, events) \
	{ UTHREAD_CASE_FD, (fd), (events), 0, NULL, NULL, { 0 } }

/*
 * Do one of `n` things: the one that can be done, any of them with the same
 * chance if several can, or the first that can be while it waits. `*chosen`
 * (NULL: not wanted) is its index, and the result is that case's own: 0, or
 * EPIPE if its channel is closed, or EBADF if there is no such descriptor.
 * Otherwise nothing was done, and *chosen is n: ETIMEDOUT: the deadline passed
 * first. EINVAL: a case or the deadline makes no sense. EAGAIN, EMFILE, ENFILE,
 * ENOMEM, ENOSPC: what descriptors need cannot be had. A channel may stand in
 * several cases, for both directions too; a select never meets itself. With n == 0
 * it waits for the deadline alone.
 */
int uthread_select(struct uthread_case *cases, size_t n,
		   const struct timespec *deadline, size_t *chosen);
/* EAGAIN: at one moment, none of them could be done. */
int uthread_select_try(struct uthread_case *cases, size_t n, size_t *chosen);

/* ---- wait groups --------------------------------------------------------- */

/* A number of things to be done, and who waits until none is left. */
typedef struct uthread_waitgroup {
	uint32_t _lock;
	uint32_t _reserved0;
	uint64_t _count;
	void *_head;
	void *_tail;
	void *_reserved;
} uthread_waitgroup_t;

#define UTHREAD_WAITGROUP_INITIALIZER { 0, 0, 0, 0, 0, 0 }
#define UTHREAD_WAITGROUP_MAX 0x7fffffffu

/* EINVAL above UTHREAD_WAITGROUP_MAX. */
int uthread_waitgroup_init(uthread_waitgroup_t *group, unsigned count);
/* EBUSY while somebody waits. When the last wait has returned, or the last done
 * was seen, nobody touches the group any more. */
int uthread_waitgroup_destroy(uthread_waitgroup_t *group);
/* EINVAL: below 0; EOVERFLOW: above UTHREAD_WAITGROUP_MAX; nothing is changed.
 * From 0 upwards it is for who knows that nobody waits for the old number. */
int uthread_waitgroup_add(uthread_waitgroup_t *group, int n);
/* One less; at 0 all who wait go on. EINVAL: it is 0. */
int uthread_waitgroup_done(uthread_waitgroup_t *group);
int uthread_waitgroup_wait(uthread_waitgroup_t *group);
/* ETIMEDOUT. */
int uthread_waitgroup_wait_timed(uthread_waitgroup_t *group,
				 const struct timespec *deadline);
unsigned uthread_waitgroup_count(const uthread_waitgroup_t *group);

/* ---- task scopes ---------------------------------------------------------- */

/*
 * A stretch of a function that has children: uthreads that have all ended, and
 * are joined, when it is left. A child that fails cancels the others. A scope
 * belongs to who began it, which alone may leave it; it and the children may
 * create more children, and anybody may cancel it while it lasts. Children are
 * the scope's to join: nobody may detach or join one.
 *
 * Cancelled means: each child is asked to end (uthread_cancel()),
 * uthread_scope_cancelled() is true, the channel that uthread_scope_done() gives is
 * closed, no child can be created any more, and the same is so in the scopes begun
 * inside of it. Leaving waits all the same, for as long as a child takes. An owner
 * that is cancelled while it waits there cancels the scope, and ends when all
 * have; one that may be cancelled elsewhere leaves it in a cleanup handler.
 *
 * In the child of a fork scopes have no children. Those of the caller of fork() go
 * on, and one inside of another is cancelled with it when it is next used.
 */
typedef struct uthread_scope {
	uint32_t _lock;
	uint32_t _state;
	int _error;
	uint32_t _flags;
	void *_children;
	void *_nested;
	void *_next, *_prev;
	struct uthread_scope *_parent;
	uthread_chan_t _done;
	uint64_t _generation;
	void *_owner;
} uthread_scope_t;

enum {
	UTHREAD_SCOPE_KEEP_GOING = 1, /* an error does not cancel the others */
	UTHREAD_SCOPE_COOPERATIVE = 2, /* children see for themselves that it is
					* cancelled: no uthread_cancel() */
};

/* `parent` (or NULL): the scope it is cancelled with; that one is left later.
 * EINVAL: unknown flags, or it is its own parent. */
int uthread_scope_init(uthread_scope_t *scope, uthread_scope_t *parent,
		       unsigned flags);
/* Start fn(arg) as a child. What it returns is 0 or its error. The rest as
 * uthread_create(); EINVAL also for a detached one. ECANCELED: the scope is
 * cancelled. */
int uthread_scope_create(uthread_scope_t *scope, const uthread_attr_t *attr,
			 int (*fn)(void *arg), void *arg);
/* 0 also if it is cancelled already. */
int uthread_scope_cancel(uthread_scope_t *scope);
int uthread_scope_cancelled(const uthread_scope_t *scope);
/* A channel of nothing that is closed when the scope is cancelled, for a select.
 * The scope's own: it is gone when the scope is left. ENOMEM. */
int uthread_scope_done(uthread_scope_t *scope, uthread_chan_t *chan);
/*
 * Wait until all children have ended. 0, the first error of a child, or
 * ECANCELED if it was cancelled before any. The scope is over then, has no more
 * children (ECANCELED), and may be begun anew; leaving it once more, as in a cleanup
 * handler of an owner that was cancelled as it left, says the same. It lasts after
 * EDEADLK: by one of the children; and after EBUSY: a scope that the caller began
 * inside of it has not been left.
 */
int uthread_scope_leave(uthread_scope_t *scope);
/* At the deadline it is cancelled, and waits on: ETIMEDOUT, if there is no
 * error before. A malformed deadline is EINVAL at once, whoever has ended, and the
 * scope lasts. */
int uthread_scope_leave_timed(uthread_scope_t *scope,
			      const struct timespec *deadline);

#ifdef __cplusplus
}
#endif
#endif /* UTHREAD_CHANNEL_H */
