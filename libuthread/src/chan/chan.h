/* SPDX-License-Identifier: Apache-2.0 */
/*
 * chan.h - channels from the inside, and waiting at several of them at once.
 *
 * Who waits is one struct party, with one waiter in it and a link for each
 * place where somebody may meet it: one for a send or a receive, one for each
 * case of a select. All of it is the waiting side's memory.
 *
 *	waiting side				active side
 *	lock its channels			lock the channel
 *	nothing can be done: queue the links	first link whose waiter can be
 *	unlock					chosen: out of the queue
 *	waiter_wait()				copy the value
 *						party->chosen = link
 *						waiter_wake_chosen()
 *	take out the links not chosen		unlock
 *
 * One compare-and-swap of the waiter's state decides between all who would
 * choose a party and its deadline. It is enough for two selects that meet: the
 * active one holds the locks and is in no queue before it has found that there
 * is nothing to be done, so only one of the two can be chosen. (Two that are
 * both to be found in queues would need a choice of two words at once.)
 *
 * A link whose party was chosen elsewhere, or whose time was up, is stale. Its
 * owner takes it out when it runs, which may be late; so whoever meets it takes
 * it out instead, and one compare-and-swap of the link's own word decides
 * which: an owner that finds LINK_REMOVED does not touch the channel any more,
 * and one that has said LINK_LEAVING is on its way to the lock. So a channel may
 * be destroyed as soon as nobody waits (the same as in waiter.h, for links).
 */
#ifndef UTHREAD_CHAN_CHAN_H
#define UTHREAD_CHAN_CHAN_H

#include <string.h>

#include "sched/waiter.h"

#pragma GCC visibility push(hidden)

enum link_state {
	LINK_QUEUED = 0,
	LINK_LEAVING = 1, /* its owner takes it out */
	LINK_REMOVED = 2, /* it is out, and its owner stays away */
};

struct link {
	/* Guarded by the lock of the channel. */
	struct link *next, *prev;
	bool queued;

	uint32_t state; /* atomic, enum link_state */
	struct party *party;
	void *item; /* of the waiting side */
};

struct party {
	struct waiter waiter;
	/* Written by who chose it, before the wake. */
	struct link *chosen;
	int err;
};

struct linkq {
	struct link *head, *tail;
};

struct uthread_chan {
	/* lock.c */
	uint32_t lock; /* object_lock() */
	uint32_t times, home_after; /* guarded by `lock` */
	uint64_t home; /* atomic: worker.home, or NOWHERE */
	struct worker *last, *home_worker; /* guarded by `lock` */

	/* Guarded by both. */
	bool closed;
	struct linkq receivers, senders;
	/*
	 * Values put and taken so far, modulo twice the capacity: each is one
	 * store when its value is complete, so that the child of a fork finds
	 * a whole buffer whatever others were doing.
	 */
	size_t in, out;

	/* Immutable. */
	size_t item_size, capacity;
	unsigned char buffer[] __attribute__((aligned(16)));
};

/* ---- lock.c ---- */

#define NOWHERE 0u

void chan_lock_init(struct uthread_chan *c);
/* Whoever's home it is; several may be held so. */
void chan_lock_away(struct uthread_chan *c);
void chan_unlock_away(struct uthread_chan *c);

static inline bool chan_lock_at_home(struct uthread_chan *c)
{
	struct worker *w = worker_current();

	if (!w || load_relaxed(&c->home) != w->home || w->at_home)
		return false;
	store_relaxed(&w->at_home, c);
	bias_light_fence(); /* pairs: leave_home() */
	if (likely(load_acquire(&c->home) == w->home))
		return true;
	store_release(&w->at_home, NULL);
	return false;
}

static inline void chan_lock(struct uthread_chan *c)
{
	region_enter();
	if (likely(chan_lock_at_home(c)))
		return;
	chan_lock_away(c);
	region_leave(); /* not the last: that one has entered, too */
}

static inline void chan_unlock(struct uthread_chan *c)
{
	struct worker *w = worker_current();

	if (likely(w && w->at_home == c)) {
		store_release(&w->at_home, NULL);
		region_leave();
	} else {
		chan_unlock_away(c);
	}
}

/* Under the lock: do it, if it can be done without waiting. EAGAIN: it cannot;
 * EPIPE. */
int chan_put(struct uthread_chan *c, const void *item);
int chan_get(struct uthread_chan *c, void *item);

/* Under the lock, in a region that began before: to be met there. */
void link_queue(struct linkq *q, struct link *l, struct party *p, void *item);
/* It was not chosen, or not this link of it: out with it, whoever does it. */
void link_leave(struct uthread_chan *c, struct linkq *q, struct link *l);

#pragma GCC visibility pop

#endif
