/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scope.c - task scopes: children that have ended when the scope is left.
 *
 * Each child is a joinable uthread and a record in the scope's ring. Leaving
 * joins whoever is in it until nobody is; children may add to it meanwhile. So
 * a child counts until it has really ended, destructors included. What it fails
 * with it says itself, by return or on its way out (uthread_exit(), cancelled), as
 * who joins may wait for another one, for ever. Rejected: detached children and a count that each
 * lowers as the last thing it does (it is not the last thing).
 *
 * A record goes in two steps: its child has ended and can be joined by nobody
 * else (thread_await()), then, under the lock, the record leaves the ring, and
 * only then the child's memory may be used again. So who cancels, and holds the
 * lock, finds only uthreads that are still what they were.
 *
 * A scope that lasts and creates children again and again would keep all their
 * stacks: each create looks at two of the ring and joins those that have ended,
 * so at most about as many wait for that as are alive.
 *
 * Cancelling goes down: a scope with its lock held takes those of the scopes
 * begun inside of it. Nobody takes a parent's lock while holding its own.
 *
 * In the child of a fork a scope has forgotten its children and the scopes inside
 * of it, as their owners are not there. One that the caller of fork() began inside
 * of one of its own is, with both ends: it links itself again when it is next used
 * (remember()), and is cancelled then if the outer one is. No other touches its
 * parent there: who owned that is gone, and its stack may be somebody's.
 */
#include <stdlib.h>

#include "chan/chan.h"
#include "sched/cancel.h"
#include "thread/thread.h"

#define REAP_LOOKS 2
#define SCOPE_FLAGS \
	(unsigned)(UTHREAD_SCOPE_KEEP_GOING | UTHREAD_SCOPE_COOPERATIVE)

#define SAME_OWNER 0x80000000u /* in _flags: as its parent's */

enum {
	STATE_CANCELLED = 1,
	STATE_ASKED = 2, /* before there was an error */
	STATE_LEFT = 4,
	STATE_LATE = 8, /* the deadline of leaving had passed */
};

struct child {
	struct child *next, *prev; /* a ring, guarded by the scope's lock */
	bool taken; /* who creates it, or waits for its end, has it */
	uthread_t thread; /* NULL: not yet known */

	uint32_t generation; /* of the process that the scope has it in */
	uthread_scope_t *scope;
	int (*fn)(void *arg);
	void *arg;
};

static inline struct child *first_of(const uthread_scope_t *s)
{
	return s->_children;
}

/* Children and scopes of the process that this one was forked of are not here. */
static void lock(uthread_scope_t *s)
{
	if (unlikely(object_lock(&s->_lock))) {
		s->_children = NULL;
		s->_nested = NULL;
	}
}

static void unlock(uthread_scope_t *s)
{
	object_unlock(&s->_lock);
}

/* ---- the ring ---- */

static void ring_add(uthread_scope_t *s, struct child *c)
{
	struct child *at = first_of(s);

	if (!at) {
		s->_children = c->next = c->prev = c;
		return;
	}
	c->next = at;
	c->prev = at->prev;
	at->prev->next = c;
	at->prev = c;
}

static void ring_remove(uthread_scope_t *s, struct child *c)
{
	if (c->next == c)
		s->_children = NULL;
	else if (s->_children == c)
		s->_children = c->next;
	c->next->prev = c->prev;
	c->prev->next = c->next;
}

/* ---- cancelling ---- */

static void link_to_parent(uthread_scope_t *s);

/* In the child of a fork: see the essay. */
static inline void remember(const uthread_scope_t *scope)
{
	uthread_scope_t *s = (uthread_scope_t *)(uintptr_t)scope;
	uint64_t seen = load_relaxed(&s->_generation);

	if (likely(seen == rt.generation) || !(s->_flags & SAME_OWNER))
		return;
	if (!__atomic_compare_exchange_n(&s->_generation, &seen, rt.generation,
					 false, __ATOMIC_RELAXED,
					 __ATOMIC_RELAXED))
		return;
	remember(s->_parent); /* what ends that one ends this */
	link_to_parent(s);
}

/* Under its lock. */
static void cancel_locked(uthread_scope_t *s)
{
	struct child *c = first_of(s);
	uthread_scope_t *n;

	if (s->_state & STATE_CANCELLED)
		return;
	store_release(&s->_state, s->_state | STATE_CANCELLED |
					  (s->_error ? 0 : STATE_ASKED));
	if (s->_done)
		uthread_chan_close(s->_done);
	for (n = s->_nested; n; n = n->_next) {
		lock(n);
		cancel_locked(n);
		unlock(n);
	}
	if (!c || s->_flags & UTHREAD_SCOPE_COOPERATIVE)
		return;
	do {
		if (c->thread)
			thread_ask_to_end(c->thread);
		c = c->next;
	} while (c != first_of(s));
}

int uthread_scope_cancel(uthread_scope_t *scope)
{
	remember(scope);
	lock(scope);
	cancel_locked(scope);
	unlock(scope);
	thread_end_if_async(); /* the caller may be a child */
	return 0;
}

int uthread_scope_cancelled(const uthread_scope_t *scope)
{
	remember(scope);
	/* acquire: what who cancelled did before */
	return (load_acquire(&scope->_state) & STATE_CANCELLED) != 0;
}

static void failed(uthread_scope_t *s, int err)
{
	lock(s);
	if (!s->_error && !(s->_state & STATE_ASKED))
		s->_error = err;
	if (!(s->_flags & UTHREAD_SCOPE_KEEP_GOING))
		cancel_locked(s);
	unlock(s);
}

int uthread_scope_done(uthread_scope_t *scope, uthread_chan_t *chan)
{
	uthread_chan_t mine;
	int err = uthread_chan_create(&mine, 0, 0);

	if (err)
		return err;
	remember(scope);
	lock(scope);
	if (!scope->_done) {
		scope->_done = mine;
		mine = NULL;
		if (scope->_state & STATE_CANCELLED)
			uthread_chan_close(scope->_done);
	}
	*chan = scope->_done;
	unlock(scope);
	return uthread_chan_destroy(mine);
}

/* ---- begin, create ---- */

static void link_to_parent(uthread_scope_t *s)
{
	uthread_scope_t *parent = s->_parent, *other;

	lock(parent);
	lock(s);
	other = parent->_nested;
	s->_next = other;
	s->_prev = NULL;
	if (other)
		other->_prev = s;
	parent->_nested = s;
	if (parent->_state & STATE_CANCELLED)
		cancel_locked(s);
	unlock(s);
	unlock(parent);
}

int uthread_scope_init(uthread_scope_t *scope, uthread_scope_t *parent,
		       unsigned flags)
{
	if (flags & ~SCOPE_FLAGS || parent == scope)
		return EINVAL;
	memset(scope, 0, sizeof(*scope));
	scope->_lock = rt.generation;
	scope->_flags = flags;
	scope->_owner = self_id();
	scope->_parent = parent;
	scope->_generation = rt.generation;
	if (!parent)
		return 0;
	if (parent->_owner == scope->_owner)
		scope->_flags |= SAME_OWNER;
	link_to_parent(scope);
	return 0;
}

/* By what it ended with, other than by return. */
static void ended_with(uthread_scope_t *s, void *value)
{
	int err = (int)(intptr_t)value;

	if (value == UTHREAD_CANCELED)
		err = uthread_scope_cancelled(s) ? 0 : ECANCELED;
	if (unlikely(err))
		failed(s, err);
}

/* It has ended, and is out of the ring. */
static void bury(uthread_scope_t *s, struct child *c)
{
	void *value;

	thread_reap(c->thread, &value);
	free(c);
	/* It may have ended once more, in a destructor. */
	ended_with(s, value);
}

static void bury_some(uthread_scope_t *s)
{
	struct child *c = NULL;
	int looks;

	for (looks = 0; looks < REAP_LOOKS; looks++) {
		lock(s);
		c = first_of(s);
		if (c)
			s->_children = c->next;
		if (c && !c->taken && thread_try_end(c->thread))
			ring_remove(s, c);
		else
			c = NULL;
		unlock(s);
		if (c)
			bury(s, c);
	}
}

/* The scope forgot it at a fork, and lies in memory of who is not there. */
static inline bool is_forgotten(const struct child *c)
{
	return c->generation != rt.generation;
}

/* It does not return: whom the others would wait for in vain, they are told now,
 * and not when it is joined, which may be behind them. */
static void does_not_return(void *arg)
{
	const struct child *c = arg;

	if (!is_forgotten(c))
		ended_with(c->scope, uthread_current()->value);
}

static void *child_main(void *arg)
{
	struct child *c = arg;
	struct uthread_cleanup cleanup;
	int err;

	lock(c->scope);
	if (!c->thread) /* not yet told by who creates it */
		c->thread = uthread_self();
	unlock(c->scope);
	uthread_cleanup_list(&cleanup, does_not_return, c,
			     __builtin_frame_address(0));
	err = c->fn(c->arg);
	uthread_cleanup_unlist(&cleanup, 0);

	if (unlikely(err) && !is_forgotten(c))
		failed(c->scope, err);
	return (void *)(intptr_t)err;
}

int uthread_scope_create(uthread_scope_t *scope, const uthread_attr_t *attr,
			 int (*fn)(void *arg), void *arg)
{
	int state = UTHREAD_CREATE_JOINABLE, err;
	uthread_t thread = NULL;
	struct child *c;

	if (!fn)
		return EINVAL;
	if (attr) {
		err = uthread_attr_getdetachstate(attr, &state);
		if (err)
			return err;
	}
	if (state != UTHREAD_CREATE_JOINABLE)
		return EINVAL;
	if (uthread_scope_cancelled(scope) ||
	    load_relaxed(&scope->_state) & STATE_LEFT)
		return ECANCELED;
	bury_some(scope);
	c = malloc(sizeof(*c));
	if (!c)
		return EAGAIN;
	c->scope = scope;
	c->generation = rt.generation;
	c->fn = fn;
	c->arg = arg;
	c->thread = NULL;
	c->taken = true;
	lock(scope);
	ring_add(scope, c);
	unlock(scope);
	err = uthread_create(&thread, attr, child_main, c);
	/* It may be running, and even have ended. Nobody leaves meanwhile, as
	 * who creates is the owner, or a child that is still there. */
	lock(scope);
	c->thread = thread;
	c->taken = false;
	if (err)
		ring_remove(scope, c);
	else if (unlikely(scope->_state & STATE_CANCELLED) &&
		 !(scope->_flags & UTHREAD_SCOPE_COOPERATIVE))
		thread_ask_to_end(thread);
	unlock(scope);
	if (err)
		free(c);
	return err;
}

/* ---- leaving ---- */

static bool is_child(uthread_scope_t *s, uthread_t me)
{
	struct child *c;
	bool found = false;

	lock(s);
	c = first_of(s);
	if (c && me) {
		do {
			found = c->thread == me;
			c = c->next;
		} while (!found && c != first_of(s));
	}
	unlock(s);
	return found;
}

/* NULL: none is left. Who creates one is in the ring itself. */
static struct child *take_any(uthread_scope_t *s)
{
	struct child *c, *first;

	lock(s);
	c = first = first_of(s);
	while (c && c->taken) {
		c = c->next;
		ut_assert(c != first);
	}
	if (c)
		c->taken = true;
	unlock(s);
	return c;
}

struct leaving {
	uint64_t deadline;
	bool cancelled; /* the owner was */
};

/* Its end. EDEADLK: it waits for ours. */
static int await(uthread_scope_t *s, struct child *c, struct leaving *l)
{
	bool late;
	int err;

	for (;;) {
		err = thread_await(c->thread, l->deadline, !l->cancelled);
		late = err == ETIMEDOUT;
		if (late) {
			l->deadline = NO_DEADLINE;
		} else if (err == ECANCELED) {
			l->cancelled = true;
		} else {
			break;
		}
		lock(s);
		if (late)
			store_release(&s->_state, s->_state | STATE_LATE);
		cancel_locked(s);
		unlock(s);
	}
	if (err && err != EDEADLK)
		ut_panic("a child of scope %p was detached or joined by others",
			 (void *)s);
	return err;
}

/* All children, to the last. */
static int join_all(uthread_scope_t *s, struct leaving *l)
{
	struct child *c;
	int err;

	while ((c = take_any(s))) {
		err = await(s, c, l);
		lock(s);
		if (err)
			c->taken = false;
		else
			ring_remove(s, c);
		unlock(s);
		if (err)
			return err;
		bury(s, c);
	}
	return 0;
}

static void unlink_from_parent(uthread_scope_t *s)
{
	uthread_scope_t *parent = s->_parent, *next, *prev;

	/* Of the process that we were forked of: its neighbours are not there,
	 * and the parent may not be either. */
	if (!parent || s->_generation != rt.generation)
		return;
	lock(parent);
	next = s->_next;
	prev = s->_prev;
	if (next)
		next->_prev = prev;
	if (prev)
		prev->_next = next;
	else
		parent->_nested = next;
	unlock(parent);
}

/* What leaving it says. Nobody else knows it any more. */
static int result_of(const uthread_scope_t *s)
{
	if (s->_error)
		return s->_error;
	if (s->_state & STATE_LATE)
		return ETIMEDOUT;
	return s->_state & STATE_ASKED ? ECANCELED : 0;
}

/* An owner that was cancelled as it left may do so once more, in a handler. */
static int leave(uthread_scope_t *s, struct leaving *l)
{
	uthread_chan_t done;
	bool nested;
	int err;

	/* acquire: what it ended with. Children may be at it now. */
	if (load_acquire(&s->_state) & STATE_LEFT)
		return result_of(s);
	remember(s);
	if (is_child(s, uthread_current()))
		return EDEADLK;
	err = join_all(s, l);
	if (err)
		return err;
	/* Its children's are over, so it is one of the owner's own. */
	lock(s);
	nested = s->_nested != NULL;
	unlock(s);
	if (nested)
		return EBUSY;
	unlink_from_parent(s);
	/* From here nobody knows it: the lock waits for who just did. */
	lock(s);
	done = s->_done;
	s->_done = NULL;
	s->_flags &= ~SAME_OWNER; /* no parent's any more */
	store_release(&s->_state, s->_state | STATE_LEFT);
	unlock(s);
	if (done) {
		uthread_chan_close(done);
		if (uthread_chan_destroy(done))
			ut_panic("a scope is left, and somebody waits for it");
	}
	return result_of(s);
}

/* The owner's own cancellation cancels the scope, and ends the owner when it is
 * left: no child is ever left behind. */
static int leave_until(uthread_scope_t *s, uint64_t deadline)
{
	struct leaving l = { .deadline = deadline };
	int err = leave(s, &l);

	if (l.cancelled)
		cancel_act();
	cancel_point(); /* or the others ended before it saw */
	return err;
}

int uthread_scope_leave(uthread_scope_t *scope)
{
	return leave_until(scope, NO_DEADLINE);
}

int uthread_scope_leave_timed(uthread_scope_t *scope,
			      const struct timespec *deadline)
{
	uint64_t ns = NO_DEADLINE;
	int err = deadline ? deadline_ns(deadline, &ns) : 0;

	return err ? err : leave_until(scope, ns);
}
