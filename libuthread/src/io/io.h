/* SPDX-License-Identifier: Apache-2.0 */
/*
 * io.h - what the files of this room share, and what the rooms above may ask.
 *
 *	calls.c		the public calls on a descriptor
 *	run.c		what they do: try, and wait where the kernel says EAGAIN
 *	table.c		the table of descriptors
 *	ready.c		waiting until one is ready
 *	backend.c	who tells: epoll.c or uring.c, where the poller sleeps
 *
 * A call that waits is a struct io_request on the stack of its uthread.
 */
#ifndef UTHREAD_IO_IO_H
#define UTHREAD_IO_IO_H

#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "base/config.h"
#include "sched/sched.h"
#include "sched/waiter.h"
#include "uthread/io.h"

#pragma GCC visibility push(hidden)

/* ---- table.c, ready.c: descriptors ---- */

/* Also the lists of who waits there: to read, to write, or only to look. */
enum { IO_IN, IO_OUT, IO_WAYS, IO_LOOK = IO_WAYS, IO_LISTS };

enum io_kind {
	IO_UNKNOWN,
	IO_TCP, /* a short read means that it is drained */
	IO_SOCKET, /* any other */
	IO_STREAM, /* pipe, terminal, eventfd: what poll() is good for */
	IO_FILE, /* always ready, and slow */
};

/* The first one's `prev` is the last. */
struct io_list {
	struct io_watch *head;
};

/* Somebody who waits for a descriptor: on a uthread's stack. */
struct io_watch {
	/* Guarded by the lock of the descriptor. */
	struct io_watch *next, *prev;
	struct io_list *list; /* that it is in, or NULL */
	struct waiter *waiter;
	struct io_fd *e; /* NULL: none, and it is in no list */
	int fd;
	uint32_t events; /* of one who looks: EPOLL* */
	uint32_t gen; /* of the descriptor when the call began: io_fd_gen() */
	int result; /* 0: try again; EBADF: it was closed */
};

/*
 * One descriptor. Never freed: its number comes again. What a request touches fits in
 * the first line: a thousand descriptors whose turn comes one after another have none
 * of theirs in the cache.
 */
struct io_fd {
	uint32_t lock; /* object_lock(); guards what is not atomic, and writes */
	uint32_t seq[IO_WAYS]; /* atomic: edges so far */
	uint32_t empty[IO_WAYS]; /* atomic hint: nothing was there after that
				  * edge; by anybody, not under the lock */
	uint32_t gen; /* atomic: closes so far */
	uint8_t kind; /* atomic hint: enum io_kind */
	uint8_t ended; /* atomic hint: look each time (ready.c) */
	uint8_t plain; /* atomic hint: bits of ways that have no RWF_NOWAIT: an
			* eventfd's writing */
	uint8_t registered; /* epoll.c: known, for what; or it was, and the file
			     * is gone */
	uint8_t waited; /* atomic: for this file; may try again at any time */
	uint8_t made; /* blocks.c: a mark of what was made here, 0: it was not */
	uint16_t closing; /* closes in progress */
	uint32_t since; /* the sweep at which the last one began to wait */
	uint32_t blocks; /* blocks.c: reading waits, as of that change; 0: unknown */
	struct io_list waits[IO_WAYS], lookers; /* first in, first out */

	uint32_t asked[IO_LISTS]; /* uring.c: under what stamp; 0: not now */
	uint32_t stamp; /* uring.c: the last one */
	uint64_t owed[IO_LISTS]; /* uring.c: a request to be cancelled; 0: none */
	struct io_fd *owes; /* uring.c: the next that has such */
	uthread_mutex_t turn; /* of who looks first and then calls */
	uint8_t listens; /* atomic hint: accept4() waits there */
	uint32_t lost; /* lost.c: atomic: the error that the next call says; 0: none */
	uint64_t lost_file; /* and whose it is */
} __attribute__((aligned(CACHE_LINE)));

_Static_assert(offsetof(struct io_fd, lookers) + sizeof(struct io_list) <=
		       CACHE_LINE,
	       "one line");

/* NULL: its number is negative or too large, or no memory. */
struct io_fd *io_fd_get(int fd);
/* NULL, too, if nobody has had that one or its neighbours. */
struct io_fd *io_fd_find(int fd);

/* How often it was closed so far. Who sees another number behind what was done with
 * the descriptor cannot know whose file that was: EBADF. */
uint32_t io_fd_gen(int fd);

static inline uint32_t io_edges(const struct io_fd *e, int way)
{
	return load_acquire(&e->seq[way]); /* pairs: io_edge() */
}

/* Nothing was there after that edge, and nothing has come since. */
static inline bool io_is_empty(const struct io_fd *e, int way, uint32_t edges)
{
	return load_relaxed(&e->empty[way]) == edges &&
	       !load_relaxed(&e->ended);
}

static inline void io_set_empty(struct io_fd *e, int way, uint32_t edges)
{
	store_relaxed(&e->empty[way], edges);
}

/* Park until there is an edge behind `edges`. 0: so it is, or it may be: try
 * again. ETIMEDOUT, ECANCELED; EBADF: it was closed since it had `gen`; what
 * watch() says (backend.h). */
int io_wait_edge(struct io_fd *e, int fd, int way, uint32_t edges, uint32_t gen,
		 uint64_t deadline);

/* Who has waited, or tried, sees to the next one: if it has not emptied it, that one
 * tries; else somebody tells that one. */
void io_pass_on_slow(struct io_fd *e, int fd, int way, bool emptied);
static inline void io_pass_on(struct io_fd *e, int fd, int way, bool emptied)
{
	if (unlikely(load_relaxed(&e->waits[way].head)))
		io_pass_on_slow(e, fd, way, emptied);
}

/*
 * For who waits for several at once, in a region: waiter_init_on(), add() for
 * each, see that there is nothing yet (poll() that does not wait), wait(), remove()
 * each; look again. If there is something already: waiter_withdraw() instead of
 * wait(), or, if that says no, wait() all the same.
 * add(): 0, or what watch() says (backend.h), and then there is nothing to remove;
 * EBADF, too, if it was closed since it had x->gen, which the caller has set.
 */
int io_watch_add(struct io_watch *x, struct waiter *w, int fd, uint32_t events);
int io_watch_wait(struct waiter *w, uint64_t deadline);
void io_watch_remove(struct io_watch *x);

/* Something has happened there; who has to run goes to the list. In a region. */
void io_edge(int fd, uint32_t events, struct uthread_list *ready);
/* The same of one list there that was asked for under this stamp; result: EPOLL*, or
 * -error. */
void io_level(int fd, int which, uint32_t stamp, int result,
	      struct uthread_list *ready);

/* io_edge() will be called for it: its lines in the cache, then those of who waits
 * there. Hints, so they lock nothing. */
void io_fetch_entry(int fd);
void io_fetch_watch(int fd);

/* Around the call that closes it. Who waits for it gets EBADF, and runs when that is
 * true. */
struct io_closing {
	struct io_fd *e; /* NULL: nobody knows it */
	struct uthread_list told;
};

void io_close_begin(struct io_closing *c, int fd);
void io_close_end(struct io_closing *c);

/* It was shut down in that way (SHUT_*): who waits there tries again. */
void io_shut(int fd, int how);

/* The number is a new file's, of that kind. */
void io_fd_fresh(int fd, uint8_t kind);

/* Somebody waits for it, or has, and it is not closed. Racy. */
bool io_fd_in_use(const struct io_fd *e);
/* The next one behind fd, -1: none. */
int io_fd_next_in_use(int fd);
/* Look after `most` of those who have waited for long, from fd on. The descriptor
 * where to go on, or 0: that was all. In a region. */
int io_fd_some(int fd, int most, bool (*due)(uint32_t since),
	       struct uthread_list *ready);

/* ---- blocks.c ---- */

/* It has just been accepted. */
void io_blocks_made(struct io_fd *e);
/* This process has a child, which may have all descriptors. */
void io_shared(void);
/* Under the lock: true, and unknown: somebody may rely on it, and it is not so. */
bool io_blocks_no_more(struct io_fd *e, int fd);

/* ---- sweep.c ---- */

/* Somebody begins to wait: at which sweep. */
uint32_t io_sweep_wait(void);
/* When the next one is to begin, CLOCK_MONOTONIC. */
uint64_t io_sweep_next(void);
/* If it is time; `idle`: no event has come. True: somebody is to be made ready. In
 * a region. */
bool io_sweep(bool idle, struct uthread_list *ready);
void io_sweep_forked(void);

/* ---- backend.c ---- */

#define IO_OURS_MAX 2
#define IO_DEFAULT UTHREAD_IO_EPOLL

/* The runtime's own descriptors, in order; how many. */
int io_ours(int fds[IO_OURS_MAX]);
static inline bool io_is_ours(int fd)
{
	int fds[IO_OURS_MAX], i, n = io_ours(fds);

	for (i = 0; i < n; i++)
		if (fds[i] == fd)
			return true;
	return false;
}
/* Whose they are. */
pid_t io_process(void);
/* Which there is; 0: none yet. */
enum uthread_io io_chosen(void);
/* At the start of the runtime: which, 0: the default. False: it cannot be had, and
 * why is in errno; then it is the other. */
bool io_choose(enum uthread_io which);
void io_backend_forked(void);

/* ---- ready.c ---- */

/* In the child of a fork, in a region. */
void io_forked(const struct uthread *me);

/* Found before a fork, by a handler of a wait: its descriptor has another one here. */
static inline bool io_is_of_parent(const struct io_fd *e)
{
	return unlikely((load_relaxed(&e->lock) | 1) != (rt.generation | 1));
}

/* ---- process.c ---- */
void io_streams_forked(void);

#pragma GCC visibility pop

#endif
