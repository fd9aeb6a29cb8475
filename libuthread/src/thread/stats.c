/* SPDX-License-Identifier: Apache-2.0 */
/* stats.c - the counters, summed over the workers. */
#include <string.h>

#include "base/nouns.h"
#include "io/io.h"
#include "io/pool.h"
#include "preempt/preempt.h"
#include "stack/stack.h"
#include "thread/thread.h"
#include "tls/tls.h"

#define BLOCKED_MAX 32 /* different calls; they are on the caller's stack */

void stats_io(struct uthread_stats *s)
{
	int i;

	for (i = 0; i < load_acquire(&rt.existing); i++) {
		const struct worker_stats *w = &rt.workers[i]->stats;

		s->io_at_once += load_relaxed(&w->io_at_once);
		s->io_waits += load_relaxed(&w->io_waits);
		s->io_retries += load_relaxed(&w->io_retries);
		s->io_expired += load_relaxed(&w->io_expired);
		s->io_cancelled += load_relaxed(&w->io_cancelled);
		s->io_closed += load_relaxed(&w->io_closed);
		s->io_polls += load_relaxed(&w->io_polls);
		s->io_events += load_relaxed(&w->io_events);
		s->io_enters += load_relaxed(&w->io_enters);
		s->io_requests += load_relaxed(&w->io_requests);
		s->io_jobs += load_relaxed(&w->io_jobs);
	}
	s->helpers = io_pool_there(&s->helpers_most);
}

int uthread_stats(struct uthread_stats *stats, size_t size)
{
	struct uthread_stats s = { 0 };
	uint64_t ended = 0;
	int i, r;

	if (!stats || size < sizeof(uint64_t))
		return EINVAL;
	s.created = load_relaxed(&rt.pthread_created);
	for (i = 0; i < load_acquire(&rt.existing); i++) {
		const struct worker_stats *w = &rt.workers[i]->stats;

		s.created += load_relaxed(&w->created);
		ended += load_relaxed(&w->ended);
		s.switches += load_relaxed(&w->switches);
		s.yields += load_relaxed(&w->yields);
		s.parks += load_relaxed(&w->parks);
		s.steals += load_relaxed(&w->steals);
		s.idles += load_relaxed(&w->idles);
		s.stack_reuses += load_relaxed(&w->reuses);
		s.donated += load_relaxed(&w->donated);
		s.ticks += load_relaxed(&w->ticks);
		s.preempted += load_relaxed(&w->preempted);
		for (r = 0; r < UTHREAD_DEFER_REASONS; r++)
			s.deferred[r] += load_relaxed(&w->deferred[r]);
	}
	s.live = s.created > ended ? s.created - ended : 0;
	s.stacks = stack_count();
	s.tls_blocks = tls_count();
	s.workers = (uint32_t)load_relaxed(&rt.nworkers);
	s.own_tls = !*tls_reason();
	s.guard = (uint32_t)stack_guard_kind();
	s.tick_ns = rt.tick_ns;
	s.tick_source = rt.tick_source;
	s.preempt = rt.tick_ns ? rt.mechanism : 0;
	spare_stats(&s);
	s.io = io_chosen();
	stats_io(&s);
	/* A caller of another version gets what both know. */
	memset(stats, 0, size);
	memcpy(stats, &s, size < sizeof(s) ? size : sizeof(s));
	return 0;
}

int uthread_blocked_calls(struct uthread_blocked *list, size_t size, int n)
{
	/* A caller of another version gets what both know. */
	struct uthread_blocked known[BLOCKED_MAX];
	char *at = (char *)list;
	int all, i;

	if (!list || size < sizeof(uint64_t) || n < 0)
		n = 0;
	if (n > BLOCKED_MAX)
		n = BLOCKED_MAX;
	all = blocked_list(known, n);
	for (i = 0; i < n && i < all; i++, at += size) {
		memset(at, 0, size);
		memcpy(at, &known[i],
		       size < sizeof(known[i]) ? size : sizeof(known[i]));
	}
	return all;
}

const char *uthread_tls_reason(void)
{
	return tls_reason();
}
