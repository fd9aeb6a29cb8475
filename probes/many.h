/* SPDX-License-Identifier: Apache-2.0 */
/*
 * many.h - what the probes of study 003 share: the uthread runtime as a trial
 * wants it, memory and limits of very many threads, distributions.
 */
#ifndef SWTCH_PROBE_MANY_H
#define SWTCH_PROBE_MANY_H

#include "probe.h"
#include "uthread.h"

/* ---- the runtime (workers.c) ---- */

/*
 * Start one worker for each CPU, pinned to it. From the trial, each optional:
 * tick_ns (0: no ticks), source, mechanism, tls and order by their names;
 * otherwise the runtime's defaults.
 */
void workers_start(json_t *trial, const int *cpus, int ncpus);
void workers_stats(struct uthread_stats *s);
/* What it counted since `before`, and how it makes ticks. */
void workers_record(json_t *o, const struct uthread_stats *before);
/* One uthread bound to worker `worker`; ends the probe when there is none. */
uthread_t start_on(int worker, void *(*fn)(void *), void *arg);

/* ---- limits (limits.c) ---- */

/* Ends the probe when four fifths of the free memory do not hold n times
 * `each` bytes: a clear line instead of the kernel's killer. */
void need_memory(int64_t n, int64_t each, const char *what);
/* Ends the probe: thread number `made` of `n` could not be made, and which
 * limits there are. */
__attribute__((noreturn)) void no_more_threads(const char *model, int64_t made,
					       int64_t n, int err);
/* Kernel threads of this process. */
int64_t kernel_threads(void);

/* ---- distributions (dist.c) ---- */

/* Values up to a number known beforehand; later ones are only counted. */
struct dist {
	int64_t *v;
	size_t n, max, lost;
};

void dist_init(struct dist *d, size_t max);
static inline void dist_add(struct dist *d, int64_t v)
{
	if (d->n < d->max)
		d->v[d->n++] = v;
	else
		d->lost++;
}
/* All of `from` go to `d`. */
void dist_merge(struct dist *d, const struct dist *from);
/*
 * NAME_n, NAME_p10_ns, _p50_, _p90_, _p99_, _p999_ and _max_ns, and
 * NAME_quantiles, a list of [probability, value]. Sorts; nothing is recorded of
 * an empty one.
 */
void dist_record(json_t *o, const char *name, struct dist *d);
/* The value below which a share p of them lies; 0 of none. Sorts. */
int64_t dist_quantile(struct dist *d, double p);
/*
 * Of values that are each the time of `per` things: NAME_p10_ns, _p50_, _p90_
 * and _p99_ of one, with fractions. Sorts.
 */
void dist_record_each(json_t *o, const char *name, struct dist *d, int64_t per);

void probe_scaling(json_t *trial);
void probe_preemption(json_t *trial);
void probe_floor(json_t *trial);
void probe_starvation(json_t *trial);
void probe_locks(json_t *trial);
void probe_ring(json_t *trial);
void probe_calls(json_t *trial);
void probe_sync(json_t *trial);
void probe_queue(json_t *trial);
void probe_wakeup(json_t *trial);
void probe_io(json_t *trial);
void probe_token(json_t *trial);

#endif
