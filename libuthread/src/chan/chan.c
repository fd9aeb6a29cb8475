/* SPDX-License-Identifier: Apache-2.0 */
/*
 * chan.c - channels: send, receive, close.
 *
 * A channel is a ring of values and two queues of links (chan.h), under one
 * lock. Never does a receiver wait while there is a value, nor a sender while
 * there is room, so at most one of the queues has somebody in it that still
 * waits, but for selects that stand in both. Who meets a waiting partner moves
 * the value to or from its memory and wakes it; a receive from a full buffer
 * moves the first waiting sender's value in. So values come out in the order in
 * which their sends began to wait or returned, and nobody overtakes.
 *
 * Who was chosen is woken into the queue of the waker's own worker, and a
 * waker that then waits for the answer finds it there: on an idle worker a
 * round trip is two switches. Rejected: to let it run at once, before all who
 * are ready (Go's runnext): a pair that answers each other would starve the
 * others of its worker where there are no ticks, and run for a whole tick where
 * there are. Rejected: a lock-free ring with a lock for the waiting alone (the
 * order of those who wait and those who do not is lost, or each side has to
 * look twice; the lock is one compare-and-swap, and a switch costs more).
 */
#include <stdlib.h>

#include "chan/chan.h"
#include "sched/cancel.h"

#define CAPACITY_MAX (SIZE_MAX / 4)

/* ---- queues ---- */

static void linkq_remove(struct linkq *q, struct link *l)
{
	if (!l->queued)
		return;
	if (l->prev)
		l->prev->next = l->next;
	else
		q->head = l->next;
	if (l->next)
		l->next->prev = l->prev;
	else
		q->tail = l->prev;
	l->queued = false;
}

static void linkq_push(struct linkq *q, struct link *l)
{
	l->next = NULL;
	l->prev = q->tail;
	if (q->tail)
		q->tail->next = l;
	else
		q->head = l;
	q->tail = l;
	l->queued = true;
}

void link_queue(struct linkq *q, struct link *l, struct party *p, void *item)
{
	l->party = p;
	l->item = item;
	store_relaxed(&l->state, LINK_QUEUED);
	linkq_push(q, l);
}

static bool link_becomes(struct link *l, uint32_t to, int order)
{
	uint32_t expected = LINK_QUEUED;

	return __atomic_compare_exchange_n(&l->state, &expected, to, false,
					   order, __ATOMIC_ACQUIRE);
}

void link_leave(struct uthread_chan *c, struct linkq *q, struct link *l)
{
	/* acquire: whoever took us out has done so */
	if (!link_becomes(l, LINK_LEAVING, __ATOMIC_ACQUIRE))
		return;
	chan_lock(c);
	linkq_remove(q, l);
	chan_unlock(c);
}

/* A stale one. False: it stays, as its owner is on the way to the lock. */
static bool link_dismiss(struct linkq *q, struct link *l)
{
	struct link *next = l->next, *prev = l->prev;

	if (load_relaxed(&l->state) == LINK_LEAVING)
		return false;
	linkq_remove(q, l); /* before: it may be gone after */
	if (link_becomes(l, LINK_REMOVED, __ATOMIC_RELEASE))
		return true;
	l->queued = true;
	l->next = next;
	l->prev = prev;
	if (prev)
		prev->next = l;
	else
		q->head = l;
	if (next)
		next->prev = l;
	else
		q->tail = l;
	return false;
}

/* The first party that still waits; it is the caller's to wake. NULL: nobody. */
static struct party *linkq_choose(struct linkq *q)
{
	struct link *l, *next;
	struct party *p;

	for (l = q->head; l; l = next) {
		next = l->next;
		p = l->party;
		if (likely(waiter_choose_queued(&p->waiter))) {
			linkq_remove(q, l);
			store_relaxed(&l->state, LINK_REMOVED);
			p->chosen = l;
			return p;
		}
		link_dismiss(q, l);
	}
	return NULL;
}

static inline void party_wake(struct party *p, int err)
{
	p->err = err;
	waiter_wake_chosen(&p->waiter);
}

/* ---- values ---- */

static inline void copy(const struct uthread_chan *c, void *to,
			const void *from)
{
	if (likely(c->item_size == sizeof(uint64_t)))
		memcpy(to, from, sizeof(uint64_t));
	else if (c->item_size)
		memcpy(to, from, c->item_size);
}

/* To a receiver, who may not want it. */
static inline void deliver(const struct uthread_chan *c, void *to,
			   const void *from)
{
	if (likely(to))
		copy(c, to, from);
}

static inline size_t count(const struct uthread_chan *c)
{
	const size_t in = load_relaxed(&c->in), out = load_relaxed(&c->out);

	return in >= out ? in - out : in + 2 * c->capacity - out;
}

static inline void *slot(struct uthread_chan *c, size_t at)
{
	return c->buffer +
	       (at < c->capacity ? at : at - c->capacity) * c->item_size;
}

static inline void advance(const struct uthread_chan *c, size_t *at)
{
	const size_t next = *at + 1;

	/* The value first: a signal handler or a fork may look. */
	barrier();
	store_relaxed(at, next == 2 * c->capacity ? 0 : next);
}

static inline int put(struct uthread_chan *c, const void *item)
{
	struct party *p;

	if (unlikely(c->closed))
		return EPIPE;
	if (c->receivers.head && (p = linkq_choose(&c->receivers))) {
		deliver(c, p->chosen->item, item);
		party_wake(p, 0);
		return 0;
	}
	if (count(c) == c->capacity)
		return EAGAIN;
	copy(c, slot(c, c->in), item);
	advance(c, &c->in);
	return 0;
}

static inline int get(struct uthread_chan *c, void *item)
{
	struct party *p = NULL;

	if (c->in != c->out) {
		deliver(c, item, slot(c, c->out));
		advance(c, &c->out);
		if (c->senders.head && (p = linkq_choose(&c->senders))) {
			copy(c, slot(c, c->in), p->chosen->item);
			advance(c, &c->in);
			party_wake(p, 0);
		}
		return 0;
	}
	if (c->senders.head && (p = linkq_choose(&c->senders))) {
		deliver(c, item, p->chosen->item);
		party_wake(p, 0);
		return 0;
	}
	return c->closed ? EPIPE : EAGAIN;
}

int chan_put(struct uthread_chan *c, const void *item)
{
	return put(c, item);
}

int chan_get(struct uthread_chan *c, void *item)
{
	return get(c, item);
}

/* ---- send and receive ---- */

/* Under the lock, which it gives back: wait to be met in that queue. The last
 * thing that a call does: after a switch each return is one that the processor
 * has not foreseen. */
static __attribute__((noinline)) int
wait_at(struct uthread_chan *c, struct linkq *q, void *item, uint64_t deadline)
{
	struct party p;
	struct link l;
	int err;

	region_enter();
	waiter_init_on(&p.waiter, WAITS_CHAN, c);
	waiter_cancellable(&p.waiter);
	if (p.waiter.ut)
		uthread_become(p.waiter.ut, UT_WAITING);
	if (deadline == NO_DEADLINE)
		waiter_lone(&p.waiter);
	link_queue(q, &l, &p, item);
	chan_unlock(c);
	err = waiter_wait(&p.waiter, deadline);
	if (unlikely(err))
		link_leave(c, q, &l);
	else
		err = p.err;
	region_leave();
	return cancel_result(err);
}

/* The same, with the deadline as the caller gave it. */
static int wait_timed(struct uthread_chan *c, struct linkq *q, void *item,
		      const struct timespec *deadline)
{
	uint64_t ns = NO_DEADLINE;
	int err = deadline ? deadline_ns(deadline, &ns) : 0;

	if (likely(!err))
		return wait_at(c, q, item, ns);
	chan_unlock(c);
	return err;
}

static inline int send_check(const struct uthread_chan *c, const void *item)
{
	return unlikely(!item) && c->item_size ? EINVAL : 0;
}

int uthread_chan_send(uthread_chan_t chan, const void *item)
{
	int err = send_check(chan, item);

	if (unlikely(err))
		return err;
	cancel_point();
	chan_lock(chan);
	err = put(chan, item);
	if (err == EAGAIN)
		return wait_at(chan, &chan->senders, (void *)item, NO_DEADLINE);
	chan_unlock(chan);
	return err;
}

int uthread_chan_send_timed(uthread_chan_t chan, const void *item,
			    const struct timespec *deadline)
{
	int err = send_check(chan, item);

	if (unlikely(err))
		return err;
	cancel_point();
	chan_lock(chan);
	err = put(chan, item);
	if (err == EAGAIN)
		return wait_timed(chan, &chan->senders, (void *)item, deadline);
	chan_unlock(chan);
	return err;
}

int uthread_chan_trysend(uthread_chan_t chan, const void *item)
{
	int err = send_check(chan, item);

	if (unlikely(err))
		return err;
	chan_lock(chan);
	err = put(chan, item);
	chan_unlock(chan);
	return err;
}

int uthread_chan_recv(uthread_chan_t chan, void *item)
{
	int err;

	cancel_point();
	chan_lock(chan);
	err = get(chan, item);
	if (err == EAGAIN)
		return wait_at(chan, &chan->receivers, item, NO_DEADLINE);
	chan_unlock(chan);
	return err;
}

int uthread_chan_recv_timed(uthread_chan_t chan, void *item,
			    const struct timespec *deadline)
{
	int err;

	cancel_point();
	chan_lock(chan);
	err = get(chan, item);
	if (err == EAGAIN)
		return wait_timed(chan, &chan->receivers, item, deadline);
	chan_unlock(chan);
	return err;
}

int uthread_chan_tryrecv(uthread_chan_t chan, void *item)
{
	int err;

	chan_lock(chan);
	err = get(chan, item);
	chan_unlock(chan);
	return err;
}

/* ---- life ---- */

int uthread_chan_create(uthread_chan_t *chan, size_t item_size, size_t capacity)
{
	struct uthread_chan *c;
	size_t bytes;

	if (item_size > UTHREAD_CHAN_ITEM_MAX || capacity > CAPACITY_MAX)
		return EINVAL;
	if (__builtin_mul_overflow(item_size, capacity, &bytes) ||
	    __builtin_add_overflow(bytes, sizeof(*c), &bytes) ||
	    bytes > SIZE_MAX / 2)
		return EINVAL;
	/* A line of its own: others' stores shall not slow it down. */
	if (posix_memalign((void **)&c, CACHE_LINE, bytes))
		return ENOMEM;
	memset(c, 0, sizeof(*c));
	chan_lock_init(c);
	c->item_size = item_size;
	c->capacity = capacity;
	*chan = c;
	return 0;
}

int uthread_chan_close(uthread_chan_t chan)
{
	struct party *p;

	chan_lock(chan);
	if (chan->closed) {
		chan_unlock(chan);
		return EPIPE;
	}
	chan->closed = true;
	while ((p = linkq_choose(&chan->receivers)))
		party_wake(p, EPIPE);
	while ((p = linkq_choose(&chan->senders)))
		party_wake(p, EPIPE);
	chan_unlock(chan);
	return 0;
}

/* Tell those whose links are stale to stay away. */
static int linkq_dismiss(struct linkq *q)
{
	struct link *l, *next;
	int err = 0;

	for (l = q->head; l; l = next) {
		next = l->next;
		if (waiter_waits(&l->party->waiter))
			return EBUSY;
		if (!link_dismiss(q, l))
			err = EAGAIN;
	}
	return err;
}

int uthread_chan_destroy(uthread_chan_t chan)
{
	unsigned n = 0;
	int err;

	if (!chan)
		return 0;
	for (;;) {
		/* Also waits for who has woken others and still holds it. */
		chan_lock(chan);
		err = linkq_dismiss(&chan->receivers);
		if (!err)
			err = linkq_dismiss(&chan->senders);
		chan_unlock(chan);
		if (err != EAGAIN)
			break;
		spin_pause(&n);
	}
	if (!err)
		free(chan);
	return err;
}

size_t uthread_chan_count(uthread_chan_t chan)
{
	size_t n;

	chan_lock(chan);
	n = count(chan);
	chan_unlock(chan);
	return n;
}

size_t uthread_chan_capacity(uthread_chan_t chan)
{
	return chan->capacity;
}

size_t uthread_chan_item_size(uthread_chan_t chan)
{
	return chan->item_size;
}
