/* SPDX-License-Identifier: Apache-2.0 */
/*
 * blocked.c - what workers sleep in while somebody waits for them: counted by
 * system call, and said when no spare stands in any more.
 *
 * A call has its place by its number; what is unknown, or beyond, shares one.
 * The time is what a stand-in was there for: from when the worker was found
 * stuck until it came back to the scheduler.
 *
 * One line for each call at most, and one in SAY_EVERY_NS: the handler that
 * finds out makes a note, and the monitor writes it.
 */
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>

#include "base/clock.h"
#include "preempt/spare.h"

#define CALLS_COUNTED 512 /* more than Linux has */
#define SAY_EVERY_NS 1000000000u

static struct {
	/* Guarded by spares.lock. */
	uint64_t all, refused;
	struct {
		uint64_t count, ns, refused;
		bool said;
	} calls[CALLS_COUNTED + 1]; /* [0]: unknown */
	int64_t last;
	uint32_t last_id, most;
	char last_name[UTHREAD_NAME_MAX];
	bool to_say; /* atomic */
	uint64_t next; /* not before */
	long say_call;
	uint32_t say_id;
	char say_name[UTHREAD_NAME_MAX];
} bl = { .last = -1 };

static unsigned place(long nr)
{
	return nr < 0 || nr >= CALLS_COUNTED ? 0 : (unsigned)nr + 1;
}

void blocked_begin(struct worker *w, const struct uthread *ut, long nr)
{
	const unsigned i = place(nr);

	bl.all++;
	bl.calls[i].count++;
	bl.last = nr;
	bl.last_id = ut ? ut->id : 0;
	if (ut)
		memcpy(bl.last_name, ut->name, sizeof(bl.last_name));
	w->stuck_call = (int)i;
	w->stuck_since = now_ns();
	if (spares.active > bl.most)
		bl.most = spares.active;
}

void blocked_end(struct worker *w)
{
	bl.calls[w->stuck_call].ns += now_ns() - w->stuck_since;
}

void blocked_refuse(const struct uthread *ut, long nr)
{
	const unsigned i = place(nr);
	uint64_t now;

	bl.refused++;
	bl.calls[i].refused++;
	/* None at all was the program's wish. */
	if (bl.calls[i].said || bl.to_say || !spares.limit)
		return;
	now = now_ns();
	if (now < bl.next)
		return;
	bl.next = now + SAY_EVERY_NS;
	bl.calls[i].said = true;
	bl.say_call = nr;
	bl.say_id = ut ? ut->id : 0;
	memset(bl.say_name, 0, sizeof(bl.say_name));
	if (ut)
		memcpy(bl.say_name, ut->name, sizeof(bl.say_name));
	store_relaxed(&bl.to_say, true);
}

bool blocked_to_say(void)
{
	return load_relaxed(&bl.to_say);
}

void blocked_say(void)
{
	char call[UTHREAD_CALL_NAME_MAX], name[UTHREAD_NAME_MAX];
	uint32_t id, limit;
	long nr;

	if (likely(!blocked_to_say()))
		return;
	spin_lock(&spares.lock);
	store_relaxed(&bl.to_say, false);
	nr = bl.say_call;
	id = bl.say_id;
	limit = spares.limit;
	memcpy(name, bl.say_name, sizeof(name));
	spin_unlock(&spares.lock);
	call_name(nr, call);
	name[sizeof(name) - 1] = 0;
	ut_warn("all %u spare workers stand in for uthreads that sleep in the kernel; uthread %u%s%s%s in %s, and others after it, go on slowly: UTHREAD_SPARES=%u or more, up to %d, allows more",
		limit, id, *name ? " '" : "", name, *name ? "'" : "", call,
		limit * 2 < SPARES_MAX ? limit * 2 : SPARES_MAX, SPARES_MAX);
}

/* ---- what the program is told ---- */

void spare_stats(struct uthread_stats *s)
{
	spin_lock(&spares.lock);
	s->blocked = bl.all;
	s->spares = spares.made;
	s->spares_used = spares.active;
	s->blocked_call = bl.last;
	memcpy(s->blocked_name, bl.last_name, sizeof(s->blocked_name));
	s->blocked_id = bl.last_id;
	s->spares_limit = spares.limit;
	s->spares_most = bl.most;
	s->blocked_refused = bl.refused;
	spin_unlock(&spares.lock);
}

/* Those that are still asleep count up to now. */
static uint64_t still_asleep(unsigned call, uint64_t now)
{
	uint64_t ns = 0;
	struct worker *w;
	int i;

	for (i = 0; i < load_acquire(&rt.existing); i++) {
		w = rt.workers[i];
		if (worker_is_stuck(w) && w->stuck_call == (int)call &&
		    now > w->stuck_since)
			ns += now - w->stuck_since;
	}
	return ns;
}

/* Where it belongs in list[0..n), the most frequent first; n: nowhere. */
static int rank(const struct uthread_blocked *list, int n, uint64_t count)
{
	int i = 0;

	while (i < n && list[i].count >= count)
		i++;
	return i;
}

int blocked_list(struct uthread_blocked *list, int n)
{
	struct uthread_blocked b;
	int have = 0, all = 0, at;
	unsigned i;

	for (i = 0; i <= CALLS_COUNTED; i++) {
		spin_lock(&spares.lock);
		b = (struct uthread_blocked){
			.call = (int64_t)i - 1,
			.count = bl.calls[i].count,
			.ns = bl.calls[i].ns,
			.refused = bl.calls[i].refused,
		};
		if (b.count)
			b.ns += still_asleep(i, now_ns());
		spin_unlock(&spares.lock);
		if (!b.count && !b.refused)
			continue;
		all++;
		at = rank(list, have, b.count);
		if (at >= n)
			continue;
		call_name((long)b.call, b.name);
		if (have < n)
			have++;
		memmove(list + at + 1, list + at,
			(size_t)(have - 1 - at) * sizeof(*list));
		list[at] = b;
	}
	return all;
}

void blocked_forked(void)
{
	store_relaxed(&bl.to_say, false);
	bl.next = 0;
}
