/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lock.c - a channel's lock, which has a home.
 *
 * Most channels are locked by the uthreads of one worker for long. One that this
 * worker has locked HOME_AFTER times on end has its home there: from then on that
 * worker takes it without an atomic read-modify-write, which costs as much as a
 * quarter of a switch. It is Dekker's algorithm with the fence on one side only, as
 * struct bias (spin.h), but for a lock that changes hands:
 *
 *	at home				anybody else
 *	worker->at_home = lock		take `lock`, as any object's (waiter.h)
 *	(compiler barrier)		home = NOWHERE
 *	home is still mine? have it	membarrier(2)
 *	worker->at_home = NULL		wait while worker->at_home == lock
 *
 * So the word `lock` alone decides among all who are not at home, and who has it
 * has sent the home away before it looks at anything. What says "held" is the
 * worker's own word, not the lock's: nobody but that worker writes it, so a store of
 * a former home that comes late harms nobody. A worker has one such word: who holds
 * a second lock meanwhile (a select) takes that by its word `lock`.
 *
 * A membarrier costs some microseconds, so each time the home was lost the next one
 * takes HOME_DEARER times as many locks on end. Homes have names that do not come
 * again, in the child of a fork neither: there nobody is at home, and the word
 * `lock` says that it is of another process. Where the kernel has no membarrier no
 * lock has a home.
 *
 * Rejected: one worker at a time as in struct bias for good (a channel that moves
 * elsewhere would cost a membarrier each time); a home from the start (so would a
 * channel that is made for one answer by somebody else).
 */
#include "chan/chan.h"

#define HOME_AFTER 64
#define HOME_DEARER 8
#define HOME_NEVER (1u << 30)

static void leave_home(struct uthread_chan *c)
{
	struct worker *w = c->home_worker;
	unsigned n = 0;

	store_relaxed(&c->home, NOWHERE);
	bias_heavy_fence(); /* pairs: chan_lock() */
	while (load_acquire(&w->at_home) == c) /* pairs: chan_unlock() */
		spin_pause(&n);
	c->times = 0;
	if (c->home_after < HOME_NEVER)
		c->home_after *= HOME_DEARER;
}

void chan_lock_away(struct uthread_chan *c)
{
	if (unlikely(object_lock(&c->lock))) {
		c->receivers.head = c->receivers.tail = NULL;
		c->senders.head = c->senders.tail = NULL;
		c->home = NOWHERE; /* a worker's that is not in this process */
		c->times = 0;
	} else if (unlikely(c->home != NOWHERE)) {
		leave_home(c);
	}
}

void chan_unlock_away(struct uthread_chan *c)
{
	struct worker *w = worker_current();

	if (likely(c->last != w)) {
		c->last = w;
		c->times = 0;
	} else if (unlikely(++c->times >= c->home_after) && w &&
		   load_relaxed(&bias_membarrier)) {
		c->times = 0;
		c->home_worker = w;
		store_release(&c->home, w->home); /* pairs: chan_lock() */
	}
	object_unlock(&c->lock);
}

void chan_lock_init(struct uthread_chan *c)
{
	c->lock = rt.generation;
	c->home = NOWHERE;
	c->home_after = HOME_AFTER;
}
