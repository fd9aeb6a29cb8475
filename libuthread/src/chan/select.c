/* SPDX-License-Identifier: Apache-2.0 */
/*
 * select.c - one of several sends, receives and descriptors.
 *
 * First every case is tried once, in a random order, under its own channel's
 * lock alone: whatever can be done at once needs no more, and among several
 * that can each has the same chance. Only who has to wait, or wants to know
 * that there is nothing (uthread_select_try()), locks all its channels, in the
 * order of their addresses, tries again, and is queued at all of them before
 * any is unlocked. So nothing can come to one while the others are looked at,
 * and two selects that lock the same channels do not wait for each other.
 *
 * Go locks all channels in both cases; a select that finds something then waits
 * for the locks of channels that it does not use. Rejected: publishing the party
 * channel by channel without the others' locks; two selects that meet are then
 * both in queues, and to choose both at once takes a third state, in which
 * everybody else has to wait for a stranger.
 *
 * Descriptors are asked one by one. Who waits has a watch at each (io/io.h), set
 * after the channels are unlocked, asks once more, and is woken by the next edge
 * of any; then, as nothing says that it may have what is there, it begins anew.
 * The others' watches and links wake the same waiter, so here too one wins.
 *
 * What is to be remembered of a case is in the caller's array, so a select
 * neither allocates nor has a limit, and its order is sorted in place.
 */
#include "chan/chan.h"
#include "io/io.h"
#include "sched/cancel.h"

/* What lies over struct uthread_case._u. */
struct own {
	union {
		struct link link;
		struct io_watch watch;
	};
	uint32_t turn; /* of the n-th: which case is tried as n-th */
	uint32_t order; /* the same, by the address of its channel */
};

_Static_assert(sizeof(struct own) <= sizeof(((struct uthread_case *)NULL)->_u),
	       "struct own lies over _u");

#define CASES_MAX UINT32_MAX

static inline struct own *own(struct uthread_case *c)
{
	return (struct own *)(void *)c->_u;
}

static inline struct linkq *queue_of(struct uthread_case *c)
{
	return c->kind == UTHREAD_CASE_SEND ? &c->chan->senders :
					      &c->chan->receivers;
}

static inline bool has_chan(const struct uthread_case *c)
{
	return c->kind != UTHREAD_CASE_FD && c->chan;
}

/* ---- chance ---- */

static __thread uint64_t random_here __attribute__((tls_model("initial-exec")));

static uint64_t next_random(uint64_t *x)
{
	*x ^= *x >> 12;
	*x ^= *x << 25;
	*x ^= *x >> 27;
	return *x * 0x2545f4914f6cdd1dull >> 32;
}

static void shuffle(struct uthread_case *cases, uint32_t n)
{
	uint64_t x;
	uint32_t i, j;

	region_enter(); /* shared TLS: no other worker's meanwhile */
	x = random_here;
	if (!x)
		x = now_ns() ^ (uintptr_t)&random_here ^ 0x9e3779b97f4a7c15ull;
	next_random(&x);
	random_here = x;
	region_leave();
	/* From the inside out: the i-th changes places with one before it. */
	for (i = 0; i < n; i++) {
		j = (uint32_t)(next_random(&x) * (i + 1ull) >> 32);
		own(&cases[i])->turn = own(&cases[j])->turn;
		own(&cases[j])->turn = i;
	}
}

/* ---- order ---- */

static inline uintptr_t key(struct uthread_case *cases, uint32_t i)
{
	const struct uthread_case *c = &cases[own(&cases[i])->order];

	return has_chan(c) ? (uintptr_t)c->chan : 0;
}

static inline void swap(struct uthread_case *cases, uint32_t i, uint32_t j)
{
	const uint32_t t = own(&cases[i])->order;

	own(&cases[i])->order = own(&cases[j])->order;
	own(&cases[j])->order = t;
}

static void sift(struct uthread_case *cases, uint32_t at, uint32_t n)
{
	uint64_t child;

	while ((child = 2ull * at + 1) < n) {
		if (child + 1 < n && key(cases, (uint32_t)child) <
					     key(cases, (uint32_t)child + 1))
			child++;
		if (key(cases, at) >= key(cases, (uint32_t)child))
			return;
		swap(cases, at, (uint32_t)child);
		at = (uint32_t)child;
	}
}

/* Heap sort: no memory, and no order is slow. */
static void sort(struct uthread_case *cases, uint32_t n)
{
	uint32_t i;

	for (i = 0; i < n; i++)
		own(&cases[i])->order = i;
	for (i = n / 2; i-- > 0;)
		sift(cases, i, n);
	for (i = n; i > 1;) {
		swap(cases, 0, --i);
		sift(cases, 0, i);
	}
}

/* Each channel once; it may stand in several cases. */
static void each_chan(struct uthread_case *cases, uint32_t n,
		      void (*fn)(struct uthread_chan *c))
{
	uintptr_t last = 0, at;
	uint32_t i;

	for (i = 0; i < n; i++) {
		at = key(cases, i);
		if (at != last)
			fn((struct uthread_chan *)at);
		last = at;
	}
}

/* ---- trying ---- */

static int begin(struct uthread_case *cases, size_t n)
{
	struct uthread_case *c;

	if (n > CASES_MAX)
		return EINVAL;
	for (c = cases; c < cases + n; c++) {
		if (c->kind > UTHREAD_CASE_FD)
			return EINVAL;
		if (c->kind == UTHREAD_CASE_SEND && c->chan && !c->item &&
		    c->chan->item_size)
			return EINVAL;
		if (c->kind == UTHREAD_CASE_FD)
			own(c)->watch.gen = io_fd_gen(c->fd);
	}
	return 0;
}

static int try_locked(struct uthread_case *c)
{
	if (!has_chan(c))
		return EAGAIN;
	return c->kind == UTHREAD_CASE_SEND ? chan_put(c->chan, c->item) :
					      chan_get(c->chan, c->item);
}

static inline bool has_fd(const struct uthread_case *c)
{
	return c->kind == UTHREAD_CASE_FD && c->fd >= 0;
}

static int try_fd(struct uthread_case *c)
{
	struct pollfd p = { .fd = c->fd, .events = c->events };
	const int saved = errno;

	while (poll(&p, 1, 0) < 0 && errno == EINTR)
		;
	errno = saved;
	/* Closed since the call began: it may be another file's by now. */
	if (unlikely(io_fd_gen(c->fd) != own(c)->watch.gen))
		p.revents = POLLNVAL;
	if (!p.revents)
		return EAGAIN;
	c->revents = p.revents;
	return p.revents & POLLNVAL ? EBADF : 0;
}

static int try_alone(struct uthread_case *c)
{
	int err;

	if (has_fd(c))
		return try_fd(c);
	if (!has_chan(c))
		return EAGAIN;
	chan_lock(c->chan);
	err = try_locked(c);
	chan_unlock(c->chan);
	return err;
}

static int try_each(struct uthread_case *cases, uint32_t n, size_t *chosen,
		    int (*try)(struct uthread_case *c))
{
	uint32_t i;
	int err;

	for (i = 0; i < n; i++) {
		*chosen = own(&cases[i])->turn;
		err = try(&cases[*chosen]);
		if (err != EAGAIN)
			return err;
	}
	*chosen = n;
	return EAGAIN;
}

/* ---- waiting ---- */

static struct uthread_case *case_of(struct link *l)
{
	return (struct uthread_case *)(void *)((char *)l -
					       offsetof(struct uthread_case,
							_u) -
					       offsetof(struct own, link));
}

/* Watch the descriptors, too. 0: woken, or one of them is ready. *closed: which was
 * closed meanwhile; its number may be another file's by now. */
static int wait_with_fds(struct uthread_case *cases, uint32_t n,
			 struct waiter *w, uint64_t deadline, size_t *chosen,
			 uint32_t *closed)
{
	bool ready = false;
	int err = 0, waited = 0;
	uint32_t i, added;

	for (added = 0; added < n && !err; added++) {
		if (!has_fd(&cases[added]))
			continue;
		err = io_watch_add(
			&own(&cases[added])->watch, w, cases[added].fd,
			(uint32_t)(unsigned short)cases[added].events);
		/* Of these poll() says that they are ready, or nonsense. */
		if (err == EPERM || err == EBADF) {
			own(&cases[added])->watch.e = NULL;
			err = 0;
		} else if (err == EINVAL) {
			/* Closed, and the number is the epoll instance's. */
			*chosen = added;
			err = EBADF;
			break;
		} else if (err) {
			break;
		}
	}
	/* Once more: an edge before the watch was there is nobody's. */
	for (i = 0; i < added && !err && !ready; i++)
		ready = has_fd(&cases[i]) && try_fd(&cases[i]) != EAGAIN;
	/* Else it is woken already. */
	if ((!err && !ready) || !waiter_withdraw(w)) {
		waited = io_watch_wait(w, deadline);
		err = waited ? err : 0;
	}
	for (i = 0; i < added; i++) {
		if (!has_fd(&cases[i]))
			continue;
		io_watch_remove(&own(&cases[i])->watch);
		if (own(&cases[i])->watch.e &&
		    own(&cases[i])->watch.result == EBADF)
			*closed = i;
	}
	return err ? err : waited;
}

/* Under all locks, which it gives back. EAGAIN: a descriptor woke it. */
static int wait_at_all(struct uthread_case *cases, uint32_t n,
		       uint64_t deadline, size_t *chosen)
{
	REGION;
	bool fds = false;
	struct party p;
	uint32_t i, closed = n;
	int err;

	waiter_init_on(&p.waiter, WAITS_SELECT, cases);
	waiter_cancellable(&p.waiter);
	p.chosen = NULL;
	if (p.waiter.ut)
		uthread_become(p.waiter.ut, UT_WAITING);
	for (i = 0; i < n; i++) {
		fds |= has_fd(&cases[i]);
		if (has_chan(&cases[i]))
			link_queue(queue_of(&cases[i]), &own(&cases[i])->link,
				   &p, cases[i].item);
	}
	each_chan(cases, n, chan_unlock_away);
	err = fds ? wait_with_fds(cases, n, &p.waiter, deadline, chosen,
				  &closed) :
		    waiter_wait(&p.waiter, deadline);
	for (i = 0; i < n; i++)
		if (has_chan(&cases[i]))
			link_leave(cases[i].chan, queue_of(&cases[i]),
				   &own(&cases[i])->link);
	if (err)
		return err;
	if (!p.chosen && closed < n) {
		cases[closed].revents = POLLNVAL;
		*chosen = closed;
		return EBADF;
	}
	if (!p.chosen)
		return EAGAIN;
	*chosen = (size_t)(case_of(p.chosen) - cases);
	return p.err;
}

static int select_until(struct uthread_case *cases, uint32_t n, bool waits,
			uint64_t deadline, size_t *chosen)
{
	int err;

	sort(cases, n);
	each_chan(cases, n, chan_lock_away);
	err = try_each(cases, n, chosen, try_locked);
	if (err == EAGAIN && waits)
		return cancel_result(wait_at_all(cases, n, deadline, chosen));
	each_chan(cases, n, chan_unlock_away);
	return err;
}

static int try_all(struct uthread_case *cases, size_t n, size_t *chosen)
{
	shuffle(cases, (uint32_t)n);
	return try_each(cases, (uint32_t)n, chosen, try_alone);
}

/* A plain pthread cannot sleep for both channels and descriptors; a uthread does
 * it in its place. */
struct errand {
	struct uthread_case *cases;
	size_t n;
	const struct timespec *deadline;
	size_t *chosen;
	int err;
};

static void *run_errand(void *arg)
{
	struct errand *e = arg;

	e->err = uthread_select(e->cases, e->n, e->deadline, e->chosen);
	return NULL;
}

static int select_elsewhere(struct errand e)
{
	uthread_t t;
	int err = uthread_create(&t, NULL, run_errand, &e);

	if (err)
		return err;
	uthread_join(t, NULL);
	return e.err;
}

static bool any_fd(const struct uthread_case *cases, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++)
		if (has_fd(&cases[i]))
			return true;
	return false;
}

int uthread_select(struct uthread_case *cases, size_t n,
		   const struct timespec *deadline, size_t *chosen)
{
	uint64_t ns = NO_DEADLINE;
	size_t unwanted;
	int err;

	if (!chosen)
		chosen = &unwanted;
	*chosen = n;
	err = begin(cases, n);
	if (err)
		return err;
	cancel_point();
	for (;;) {
		err = try_all(cases, n, chosen);
		if (err != EAGAIN)
			return err;
		err = deadline ? deadline_ns(deadline, &ns) : 0;
		if (err)
			return err;
		if (!uthread_current() && any_fd(cases, n))
			return select_elsewhere((struct errand){
				cases, n, deadline, chosen, 0 });
		err = select_until(cases, (uint32_t)n, true, ns, chosen);
		if (err != EAGAIN)
			return err;
	}
}

int uthread_select_try(struct uthread_case *cases, size_t n, size_t *chosen)
{
	size_t unwanted;
	int err;

	if (!chosen)
		chosen = &unwanted;
	*chosen = n;
	err = begin(cases, n);
	if (err)
		return err;
	err = try_all(cases, n, chosen);
	if (err != EAGAIN || n < 2)
		return err;
	return select_until(cases, (uint32_t)n, false, 0, chosen);
}
