// SPDX-License-Identifier: GPL-2.0-only
/*
 * A run as a thing: its memory, its references, its state, why it failed; and
 * which one the module shows. supervisor.c says who performs it and what lives
 * how long; the experiments need no more of a run than what is here.
 */
#include <linux/slab.h>
#include <linux/vmalloc.h>

#include "kperf.h"

struct kperf kperf = {
	.lock = __MUTEX_INITIALIZER(kperf.lock),
	.done = __WAIT_QUEUE_HEAD_INITIALIZER(kperf.done),
};

/**
 * kperf_memory() - memory that belongs to a run, zeroed, for vfree()
 * @size:	bytes, as many as whoever loaded the module asked for
 *
 * A run that asks for more than there is has to fail; without the flag the
 * kernel would rather kill processes, or itself. Rejected: kvmalloc(), which
 * takes the same flag on the same way, but gives physically contiguous memory
 * one time and scattered pages the next, so that caches would differ from run
 * to run; and whose larger pieces no list of the kernel's shows to a test.
 *
 * Return: the memory or NULL.
 */
void *kperf_memory(size_t size)
{
	return __vmalloc(size, GFP_KERNEL | __GFP_ZERO | __GFP_RETRY_MAYFAIL |
				       __GFP_NOWARN);
}

static void kperf_free_run(struct kref *ref)
{
	struct kperf_run *run = container_of(ref, struct kperf_run, ref);

	vfree(run->overhead);
	vfree(run);
}

/**
 * kperf_run_put() - give back a reference
 * @run:	may be NULL
 */
void kperf_run_put(struct kperf_run *run)
{
	if (run)
		kref_put(&run->ref, kperf_free_run);
}

/**
 * kperf_run_get() - the run under way or the last one
 *
 * Return: a reference for kperf_run_put(), or NULL if there was no run.
 */
struct kperf_run *kperf_run_get(void)
{
	struct kperf_run *run;

	mutex_lock(&kperf.lock);
	run = kperf.run;
	if (run)
		kref_get(&run->ref);
	mutex_unlock(&kperf.lock);
	return run;
}

/**
 * kperf_run_state() - where a run is
 * @run:	may be NULL
 */
enum kperf_state kperf_run_state(const struct kperf_run *run)
{
	/* pairs with the release in kperf_finish() of supervisor.c */
	return run ? smp_load_acquire(&run->state) : KPERF_IDLE;
}

/**
 * kperf_run_fail() - note why there will be no result
 * @run:	the run
 * @error:	positive error number
 * @where:	what part, constant words
 * @what:	one clear line, constant words
 *
 * The first reason stays. Runs on the supervisor, or before it exists.
 */
void kperf_run_fail(struct kperf_run *run, int error, const char *where,
		    const char *what)
{
	if (run->error)
		return;
	run->error = error;
	run->where = where;
	run->what = what;
}
