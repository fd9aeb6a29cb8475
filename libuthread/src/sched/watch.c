/* SPDX-License-Identifier: Apache-2.0 */
/*
 * watch.c - which workers have something for others, as a mark for each.
 *
 * Who has nothing to do would have to look at the queue of every other worker: a cache
 * line each, on a hundred CPUs a hundred. So who adds work that any worker may do sets
 * its worker's bit in rt.marks, if somebody might look (rt.watched), and who looks, looks
 * there, and at a few beside (watch_victims()). One line is the marks of 512 workers.
 *
 * A mark may be there for nothing, since who takes the last uthread out of its own queue
 * leaves it: so a worker that switches all day writes to no line that others read. It is
 * taken away by
 *	a thief that leaves nothing, under the victim's bias lock;
 *	its worker, once that has nothing to do;
 *	who is about to sleep, from all: it fences, and looks at each that it took it from.
 * The last pairs with who adds work, and finds its mark set:
 *	adds:	count++; light fence; has the mark? else set it; light fence; wake
 *	sleeps:	nidle++; take the marks; heavy fence; count? give the mark back, stay
 * If who adds still saw the mark, then who sleeps sees the count. And one who took a mark
 * has what it was for in hand: another who looks meanwhile finds nothing, and may sleep.
 * So each mark that is set costs one look of one worker, however many there are.
 *
 * Invariant: while rt.watched is WATCH_MARKS, who has something for others has its mark,
 * or is about to set it and then to see whether anybody sleeps, or somebody who is awake
 * looks at it and will give it one.
 *
 * Where nobody looks there are no marks, and a look at rt.watched is all that who adds
 * work pays. The first to sleep, or nap, says so, fences, and goes through all workers
 * once. Who has added work as often as there are workers, and has seen nobody look, takes it
 * back, which idle_lock guards: so that look, too, costs a line for each that is added.
 *
 * A model of it: tests/relacy/watch.cc.
 *
 * Up to rt.few workers are looked at one by one as ever, which finds work of which no
 * mark is set, and costs no more than the marks.
 *
 * Rejected: a mark that is always true (two workers' own work would write one line, at
 * every switch); random victims only (with 128 workers who has something is found after
 * a hundred looks, while nobody is woken for it because somebody looks).
 */
#include "sched/runq.h"
#include "sched/watch.h"

#define MARKED_LOOKS 2 /* workers with marks, in one look; */
#define OTHER_LOOKS 1 /* and without, which may be worth waiting for */
#define UNMARKED_LOOKS \
	4 /* where there are no marks yet: before it sleeps it looks at all */

void watch_mark(const struct worker *v)
{
	if (!watch_marked(v))
		__atomic_fetch_or(&rt.marks[v->index / 64],
				  1ull << v->index % 64, __ATOMIC_SEQ_CST);
}

void watch_unmark(const struct worker *v)
{
	if (watch_marked(v))
		__atomic_fetch_and(&rt.marks[v->index / 64],
				   ~(1ull << v->index % 64), __ATOMIC_SEQ_CST);
}

/* In the words of so many workers. */
static int words_of(int workers)
{
	return (workers + 63) / 64;
}

/* ---- who adds work ---- */

void watch_added(struct worker *w)
{
	if (watch_has_marks() && stealable(w))
		watch_mark(w);
}

/* Nobody looks any more. */
static void stop_watching(struct worker *w)
{
	w->unseen = 0;
	spin_lock(&rt.idle_lock);
	if (!load_relaxed(&rt.nidle) && !load_relaxed(&rt.nspinning))
		store_relaxed(&rt.watched, WATCH_NONE);
	spin_unlock(&rt.idle_lock);
}

void poke_watched(void)
{
	struct worker *w = worker_current();

	watch_added(w);
	bias_light_fence(); /* pairs: go_idle(), who leaves rt.nspinning */
	if (load_relaxed(&rt.nspinning))
		return;
	if (load_relaxed(&rt.nidle))
		wake_some();
	else if (++w->unseen >= (uint32_t)load_relaxed(&rt.existing))
		stop_watching(w);
}

/* ---- who sleeps ---- */

bool watch_begin(void)
{
	const uint32_t want = load_acquire(&rt.existing) > rt.few ?
				      WATCH_MARKS :
				      WATCH_SLEEPERS;

	if (likely(rt.watched >= want))
		return false;
	store_relaxed(&rt.watched, want);
	return want == WATCH_MARKS;
}

void watch_end(void)
{
	if (!rt.nidle && rt.watched == WATCH_SLEEPERS)
		store_relaxed(&rt.watched, WATCH_NONE);
}

void watch_claim(struct watch *c, bool begins)
{
	const int n = words_of(load_acquire(&rt.existing));
	int i;

	c->marks = watch_has_marks();
	c->all = begins || !c->marks;
	for (i = 0; c->marks && i < n; i++)
		c->mine[i] = load_relaxed(&rt.marks[i]) ?
				     __atomic_exchange_n(&rt.marks[i], 0,
							 __ATOMIC_SEQ_CST) :
				     0;
}

/* True: `v` has something that is due. */
static bool see(const struct watch *c, const struct worker *v, uint64_t *late)
{
	uint64_t until;

	if (!stealable(v))
		return false;
	if (c->marks)
		watch_mark(v);
	until = late_until(v);
	if (!until)
		return true;
	if (until < *late && !sched_ticks_soon())
		*late = until;
	return false;
}

bool watch_due(struct watch *c, uint64_t *late)
{
	const int n = load_acquire(&rt.existing);
	bool due = false;
	uint64_t bits;
	int i;

	if (c->all) {
		for (i = 0; i < n; i++)
			due |= see(c, rt.workers[i], late);
		return due;
	}
	for (i = 0; i < words_of(n); i++) {
		/* Since then, too: who set it may have seen nobody asleep. */
		bits = c->mine[i] | load_relaxed(&rt.marks[i]);
		for (; bits; bits &= bits - 1)
			due |= see(c,
				   rt.workers[i * 64 + __builtin_ctzll(bits)],
				   late);
	}
	return due;
}

bool watch_before_nap(void)
{
	uint64_t late = NO_DEADLINE;
	struct watch c;
	bool begins;

	if (load_acquire(&rt.existing) <= rt.few || watch_has_marks())
		return false;
	spin_lock(&rt.idle_lock);
	begins = watch_begin();
	spin_unlock(&rt.idle_lock);
	if (!begins)
		return false;
	watch_claim(&c, true);
	bias_heavy_fence(); /* pairs with poke() */
	return watch_due(&c, &late);
}

/* ---- who looks ---- */

int watch_victims(const struct worker *w, struct worker **v)
{
	const int all = load_acquire(&rt.existing), words = words_of(all);
	const int first = (int)(w->rng % (uint32_t)all);
	const int proper = load_relaxed(&rt.nworkers) < all ?
				   load_relaxed(&rt.nworkers) :
				   all;
	const bool marks = watch_has_marks();
	const int others = marks ? OTHER_LOOKS : UNMARKED_LOOKS;
	struct worker *other;
	int n = 0, i, k;
	uint64_t bits;

	if (marks) {
		for (i = 0; i <= words; i++) {
			k = (first / 64 + i) % words;
			bits = load_relaxed(&rt.marks[k]);
			/* The first word twice: its end, and at last the rest. */
			if (i == 0)
				bits &= ~0ull << first % 64;
			else if (i == words)
				bits &= ~(~0ull << first % 64);
			for (; bits && n < MARKED_LOOKS; bits &= bits - 1)
				v[n++] = rt.workers[k * 64 +
						    __builtin_ctzll(bits)];
		}
	}
	/* Spares come behind, and most are not needed: those that are have marks. */
	for (i = 0; i < others && i < proper; i++) {
		other = rt.workers[(w->rng + (uint32_t)i) % (uint32_t)proper];
		if (!marks || !watch_marked(other))
			v[n++] = other; /* twice would be no two looks */
	}
	return n;
}
