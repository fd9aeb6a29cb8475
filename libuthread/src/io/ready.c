/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ready.c - waiting until a descriptor is ready.
 *
 * epoll tells edges: something has come. Each descriptor counts those to
 * read and those to write (seq), and who finds nothing there remembers at which
 * count that was (empty). So a call is:
 *
 *	edges = seq			  [epoll] seq++, wake one who waits
 *	empty == edges? then wait
 *	try: EAGAIN
 *	empty = edges
 *	[lock] seq == edges? queue [unlock]
 *	park
 *
 * No edge is lost: one that comes before the queueing is seen under the lock,
 * and a later one finds the waiter. The words are hints for everybody else: one
 * that is out of date costs a try.
 *
 * A read from a TCP socket that returns less than was asked for has emptied it,
 * so the next one need not ask the kernel before it waits, and a request costs
 * one call to read and one to write, as in a hand-written loop. Not once the end,
 * an error or urgent data is on the way (ended): these make short reads, too.
 * What else makes one, a fault in the buffer or kernel TLS before a record of another
 * type, nobody tells of: who then waits for what is there already is told by the sweep,
 * which has epoll look again (sweep.c), after some 200 ms.
 *
 * An edge wakes one reader, and one that has left something wakes the next: a
 * thousand that accept from one socket do not all run for one connection. Who
 * only looks (poll) is woken by all edges that concern it.
 *
 * With epoll a descriptor is given to it when somebody first has to wait for it, for
 * reading, and for writing too when somebody first has to wait for that, and for good;
 * the kernel forgets it when the file goes. uthread_close() takes it back first, since the file may live on under
 * another number or in another process. While a close is in progress the number
 * may already be another file's, of which nobody has told us, so who has to
 * wait then waits for the end of the close, and tries again.
 *
 * io_uring is asked by each who begins to wait (backend.h: levels), and its answer
 * is what was there then, or has come; an edge, for those above. Nothing is asked of
 * it while nobody waits, for it holds the file: who closes it in a way that nobody
 * tells (fclose()) would leave the other side without an end. So who has been woken
 * and did not empty it wakes the next, and who did empty it asks again for the next.
 *
 * Rejected: one-shot registration (a system call for each wait); level triggered
 * (the kernel looks at each ready file twice); O_NONBLOCK (the flag belongs to
 * the file, which others may have open); a waiter that stays queued for good
 * beside its uthread (a descriptor has many readers).
 */
#include <string.h>

#include "io/backend.h"
#include "io/count.h"
#include "io/table.h"
#include "uthread/pthread.h"

/* ---- lists of watches; under the lock ---- */

static void push(struct io_list *l, struct io_watch *x)
{
	struct io_watch *first = l->head;

	x->list = l;
	x->next = NULL;
	if (unlikely(first)) {
		x->prev = first->prev;
		first->prev->next = x;
		first->prev = x;
		return;
	}
	x->prev = x;
	store_relaxed(&l->head, x);
}

static void take_out(struct io_watch *x)
{
	struct io_list *l = x->list;

	if (!l)
		return;
	x->list = NULL;
	if (l->head != x) {
		x->prev->next = x->next;
		(x->next ? x->next : l->head)->prev = x->prev;
		return;
	}
	if (unlikely(x->next))
		x->next->prev = x->prev;
	store_relaxed(&l->head, x->next);
}

/* Its uthread goes to `ready`; false: its deadline has won, or another event. */
static bool pick(struct io_watch *x, int result, struct uthread_list *ready)
{
	take_out(x);
	x->result = result;
	return waiter_pick(x->waiter, ready); /* then it may be gone */
}

static void pick_one(struct io_list *l, struct uthread_list *ready)
{
	while (l->head && !pick(l->head, 0, ready))
		;
}

static void pick_all(struct io_list *l, int result, struct uthread_list *ready)
{
	while (l->head)
		pick(l->head, result, ready);
}

static void pick_lookers(struct io_fd *e, uint32_t events,
			 struct uthread_list *ready)
{
	struct io_watch *x, *next;

	for (x = e->lookers.head; x; x = next) {
		next = x->next;
		if (x->events & events)
			pick(x, 0, ready);
	}
}

int uthread_io_is_empty(int fd)
{
	const struct io_fd *e = fd_find(fd);

	return e && (load_relaxed(&e->registered) || io_levels()) &&
	       io_is_empty(e, IO_IN, io_edges(e, IO_IN));
}

/* ---- edges ---- */

#define ENDS (EPOLLRDHUP | EPOLLHUP | EPOLLERR | EPOLLPRI)

void io_fetch_entry(int fd)
{
	const struct io_fd *e = fd_find(fd);

	if (!e)
		return;
	__builtin_prefetch(e, 1);
}

void io_fetch_watch(int fd)
{
	const struct io_fd *e = fd_find(fd);
	const struct io_watch *x = e ? load_relaxed(&e->waits[IO_IN].head) :
				       NULL;

	if (!x)
		return;
	/* On its uthread's stack, with the waiter. */
	__builtin_prefetch(x, 1);
	__builtin_prefetch(x + 1, 1);
}

void io_edge(int fd, uint32_t events, struct uthread_list *ready)
{
	struct io_fd *e = fd_find(fd);

	if (!e)
		return;
	fd_lock(e);
	if (events & ENDS)
		store_relaxed(&e->ended, 1);
	if (events & (EPOLLIN | ENDS)) {
		/* release: pairs with io_edges() */
		store_release(&e->seq[IO_IN], e->seq[IO_IN] + 1);
		pick_one(&e->waits[IO_IN], ready);
	}
	if (events & (EPOLLOUT | EPOLLHUP | EPOLLERR)) {
		store_release(&e->seq[IO_OUT], e->seq[IO_OUT] + 1);
		pick_one(&e->waits[IO_OUT], ready);
	}
	/* Those who look for another name of it, too: epoll says what it was asked. */
	if (e->lookers.head)
		pick_lookers(e,
			     events | (events & EPOLLIN ? IO_IN_NAMES : 0) |
				     (events & EPOLLOUT ? IO_OUT_NAMES : 0),
			     ready);
	fd_unlock(e);
}

void io_shut(int fd, int how)
{
	const uint32_t in = EPOLLIN | EPOLLRDHUP, out = EPOLLOUT;
	struct uthread_list ready = { 0 };
	const int saved = errno;

	region_enter();
	io_edge(fd,
		how == SHUT_RD ? in :
		how == SHUT_WR ? out :
				 in | out,
		&ready);
	sched_ready_all(&ready, UTHREAD_READY_WOKEN);
	region_leave();
	errno = saved;
}

/* ---- levels ---- */

/* Under the lock: what those who look there look for. */
static uint32_t looked_for(const struct io_fd *e)
{
	const struct io_watch *x;
	uint32_t events = 0;

	for (x = e->lookers.head; x; x = x->next)
		events |= x->events;
	return events;
}

/* Under the lock: somebody waits there still, and nobody is told. */
static void ask_again(struct io_fd *e, int fd, int which,
		      struct uthread_list *ready)
{
	struct io_list *l = which == IO_LOOK ? &e->lookers : &e->waits[which];
	int err;

	if (!l->head || e->closing)
		return;
	err = io_backend->watch(e, fd, which,
				which == IO_LOOK ? looked_for(e) : 0);
	if (unlikely(err))
		pick_all(l, err, ready);
}

static void tell_lookers(struct io_fd *e, int fd, int result,
			 struct uthread_list *ready)
{
	if (result > 0)
		pick_lookers(e, (uint32_t)result, ready);
	else
		pick_all(&e->lookers, 0, ready);
	ask_again(e, fd, IO_LOOK, ready);
}

/*
 * Who is woken takes what there is, or finds that there is nothing, and in both
 * cases sees to the next one (io_pass_on()): asking the kernel at once, what is
 * there would wake them all.
 */
static void tell_waiters(struct io_fd *e, int way, int result,
			 struct uthread_list *ready)
{
	if (result > 0 && result & ENDS)
		store_relaxed(&e->ended, 1);
	/* release: pairs with io_edges() */
	store_release(&e->seq[way], e->seq[way] + 1);
	if (likely(result > 0))
		pick_one(&e->waits[way], ready);
	else if (result == -ENOMEM)
		pick_all(&e->waits[way], ENOMEM, ready);
	else /* who was to tell is gone, or the file: they see for themselves */
		pick_all(&e->waits[way], 0, ready);
}

void io_level(int fd, int which, uint32_t stamp, int result,
	      struct uthread_list *ready)
{
	struct io_fd *e = fd_find(fd);

	if (!e)
		return;
	fd_lock(e);
	if (e->asked[which] == stamp) {
		e->asked[which] = 0;
		if (which == IO_LOOK)
			tell_lookers(e, fd, result, ready);
		else
			tell_waiters(e, which, result, ready);
	}
	fd_unlock(e);
}

void io_pass_on_slow(struct io_fd *e, int fd, int way, bool emptied)
{
	struct uthread_list ready = { 0 };

	if (emptied && !io_levels())
		return;
	region_enter();
	fd_lock(e);
	if (emptied)
		ask_again(e, fd, way, &ready);
	else
		pick_one(&e->waits[way], &ready);
	fd_unlock(e);
	sched_ready_all(&ready, UTHREAD_READY_WOKEN);
	io_settle();
	region_leave();
}

/* ---- waiting ---- */

/* Under the lock: the number is a file's that is not known. Who waits tries
 * again, or gets EBADF. */
static void was_replaced(struct io_fd *e, int result,
			 struct uthread_list *ready)
{
	io_fd_clear(e);
	pick_all(&e->waits[IO_IN], result, ready);
	pick_all(&e->waits[IO_OUT], result, ready);
	pick_all(&e->lookers, result, ready);
}

/* Under the lock: is the file known that has this number now? */
static int reassure(struct io_fd *e, int fd, struct uthread_list *ready)
{
	int err = io_backend->again(e, fd);

	if (likely(!err))
		return 0;
	was_replaced(e, err == EBADF ? EBADF : 0, ready);
	return err == ENOENT ? 0 : err;
}

/* Under the lock: somebody is about to wait, and is to be told. */
static int ask(struct io_fd *e, int fd, int which, uint32_t events,
	       struct uthread_list *ready)
{
	int err = io_backend->watch(e, fd, which, events);

	if (likely(err != ENOENT))
		return err;
	/* What it knew by that number is gone, unseen. */
	was_replaced(e, 0, ready);
	return io_backend->watch(e, fd, which, events);
}

static inline bool is_waited_for(const struct io_fd *e)
{
	return (load_relaxed(&e->registered) || io_levels()) &&
	       (load_relaxed(&e->waits[IO_IN].head) ||
		load_relaxed(&e->waits[IO_OUT].head) ||
		load_relaxed(&e->lookers.head));
}

int io_fd_some(int fd, int most, bool (*due)(uint32_t since),
	       struct uthread_list *ready)
{
	/* acquire: what is in it; pairs: make_chunk() */
	struct io_fd *c = load_acquire(&fd_chunks[fd / FD_CHUNK]), *e;
	int i, asked = 0;

	for (i = fd % FD_CHUNK; c && i < FD_CHUNK; i++) {
		e = c + i;
		if (!is_waited_for(e) || !due(load_relaxed(&e->since)))
			continue;
		if (asked++ == most)
			return fd / FD_CHUNK * FD_CHUNK + i;
		fd_lock(e);
		if ((e->registered || io_levels()) && !e->closing &&
		    !reassure(e, fd / FD_CHUNK * FD_CHUNK + i, ready) &&
		    unlikely(
			    io_blocks_no_more(e, fd / FD_CHUNK * FD_CHUNK + i)))
			pick_all(&e->waits[IO_IN], EAGAIN, ready);
		fd_unlock(e);
	}
	for (i = fd / FD_CHUNK + 1; i < FD_CHUNKS; i++)
		if (load_relaxed(&fd_chunks[i]))
			return i * FD_CHUNK;
	return 0;
}

/* Under the lock. After the first push a waker may have it at once. */
static void become_waiting(struct io_fd *e, const struct waiter *w)
{
	store_relaxed(&e->since, io_sweep_wait());
	store_relaxed(&e->waited, 1);
	if (load_relaxed(&w->ut->state) == UT_RUNNING)
		uthread_become(w->ut, UT_WAITING);
}

/* Somebody polls now, or will: about to park. */
static void be_told(void)
{
	io_settle();
	if (io_lost())
		sched_wake_for_io(worker_current());
}

/* Under the lock. */
static void leave(struct io_fd *e, int fd, struct io_watch *x)
{
	take_out(x);
	if (io_levels())
		io_backend->unwatch(e, fd);
}

int io_wait_edge(struct io_fd *e, int fd, int way, uint32_t edges, uint32_t gen,
		 uint64_t deadline)
{
	REGION;
	struct io_watch x = { .e = e };
	struct uthread_list ready = { 0 };
	struct waiter w;
	int err;

	err = io_start(); /* it may sleep: not under the lock */
	if (unlikely(err))
		return err;
	waiter_init_on(&w, WAITS_IO, (void *)(uintptr_t)fd);
	waiter_leavable(&w);
	x.waiter = &w;
	fd_lock(e);
	err = e->gen != gen			 ? EBADF :
	      e->closing || e->seq[way] != edges ? 0 :
						   ask(e, fd, way, 0, &ready);
	if (err || (!e->closing && e->seq[way] != edges)) {
		fd_unlock(e);
		if (unlikely(ready.head))
			sched_ready_all(&ready, UTHREAD_READY_WOKEN);
		return err;
	}
	become_waiting(e, &w);
	push(&e->waits[way], &x);
	fd_unlock(e);
	io_call_waits();
	be_told();
	err = waiter_wait(&w, deadline);
	if (likely(!err))
		return x.result;
	if (io_is_of_parent(e))
		return err;
	fd_lock(e);
	leave(e, fd, &x);
	fd_unlock(e);
	io_settle();
	return err;
}

int io_watch_add(struct io_watch *x, struct waiter *w, int fd, uint32_t events)
{
	struct io_fd *e = io_fd_get(fd);
	struct uthread_list ready = { 0 };
	int err = 0;

	x->list = NULL;
	x->e = e;
	x->fd = fd;
	x->waiter = w;
	x->events = events | EPOLLERR | EPOLLHUP;
	x->result = 0;
	if (!e)
		return fd < 0 ? EBADF : ENOMEM;
	err = io_start(); /* it may sleep: not under the lock */
	if (unlikely(err))
		return err;
	fd_lock(e);
	if (unlikely(e->gen != x->gen))
		err = EBADF;
	/* It costs no more than the poll() that comes with it. */
	else if (e->registered && !e->closing)
		err = reassure(e, fd, &ready);
	if (!err && !e->closing)
		err = ask(e, fd, IO_LOOK, x->events | looked_for(e), &ready);
	if (!err) {
		become_waiting(e, w);
		push(&e->lookers, x);
	}
	fd_unlock(e);
	if (unlikely(ready.head))
		sched_ready_all(&ready, UTHREAD_READY_WOKEN);
	return err;
}

void io_watch_remove(struct io_watch *x)
{
	/* Whoever takes it out does not touch it any more once it has unlocked,
	 * so it is looked at under the lock. */
	if (!x->e || io_is_of_parent(x->e))
		return;
	fd_lock(x->e);
	leave(x->e, x->fd, x);
	fd_unlock(x->e);
	io_settle();
}

int io_watch_wait(struct waiter *w, uint64_t deadline)
{
	be_told();
	return waiter_wait(w, deadline);
}

/* ---- closing ---- */

/*
 * Those who wait are taken here, and run when the file is gone: one that is told so
 * before, by a tick or on another worker, would find it open, and could write to it
 * once more or close what has the number then.
 */
void io_close_begin(struct io_closing *c, int fd)
{
	struct io_fd *e = fd_find(fd);

	memset(c, 0, sizeof(*c));
	c->e = e;
	if (!e)
		return;
	fd_lock(e);
	e->closing++;
	store_release(&e->gen, e->gen + 1);
	if (load_acquire(&io_backend))
		io_backend->remove(e, fd);
	io_fd_clear(e);
	pick_all(&e->waits[IO_IN], EBADF, &c->told);
	pick_all(&e->waits[IO_OUT], EBADF, &c->told);
	pick_all(&e->lookers, EBADF, &c->told);
	fd_unlock(e);
	if (!io_levels())
		return;
	/* Or the kernel would keep the file. */
	region_enter();
	io_backend->flush();
	region_leave();
}

void io_close_end(struct io_closing *c)
{
	struct io_fd *e = c->e;

	if (!e)
		return;
	fd_lock(e);
	if (!--e->closing) {
		pick_all(&e->waits[IO_IN], 0, &c->told);
		pick_all(&e->waits[IO_OUT], 0, &c->told);
		pick_all(&e->lookers, 0, &c->told);
	}
	fd_unlock(e);
	region_enter();
	sched_ready_all(&c->told, UTHREAD_READY_WOKEN);
	region_leave();
}

void io_fd_fresh(int fd, uint8_t kind)
{
	struct io_fd *e = fd_find(fd);
	struct io_closing c;

	if (!e)
		return;
	/* Closed without our knowledge: what epoll knew went with the file. */
	if (unlikely(load_relaxed(&e->registered) ||
		     (io_levels() && io_fd_in_use(e)))) {
		io_close_begin(&c, fd);
		io_close_end(&c);
	}
	store_relaxed(&e->kind, kind);
	store_relaxed(&e->made, 0);
	store_relaxed(&e->blocks, 0);
}
