/* SPDX-License-Identifier: Apache-2.0 */
/* stats.c - the counters, summed over the workers. */
#include <string.h>

#include "base/nouns.h"
#include "preempt/preempt.h"
#include "stack/stack.h"
#include "tls/tls.h"

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
	s.workers = (uint32_t)rt.nworkers;
	s.own_tls = !*tls_reason();
	s.guard = (uint32_t)stack_guard_kind();
	s.tick_ns = rt.tick_ns;
	s.tick_source = rt.tick_source;
	s.preempt = rt.tick_ns ? rt.mechanism : 0;
	spare_stats(&s);
	/* A caller of another version gets what both know. */
	memset(stats, 0, size);
	memcpy(stats, &s, size < sizeof(s) ? size : sizeof(s));
	return 0;
}

const char *uthread_tls_reason(void)
{
	return tls_reason();
}
