/* SPDX-License-Identifier: Apache-2.0 */
/* pool.h - calls that helpers make for uthreads (pool.c). */
#ifndef UTHREAD_IO_POOL_H
#define UTHREAD_IO_POOL_H

#include "sched/waiter.h"

#pragma GCC visibility push(hidden)

enum io_pool {
	POOL_FILES, /* what a disk does: soon over */
	POOL_LONG, /* what may take as long as others like */
	POOLS,
};

/* One call. Begins zeroed but for fn and what fn needs. */
struct io_job {
	/* On a helper, a plain pthread. Its result is what fn leaves in the job,
	 * with errno as it likes. */
	void (*fn)(struct io_job *job);
	/* NULL: it lies on the stack of who waits, who therefore waits for the end
	 * of what has begun. Else it is malloced, and if nobody waits any more, begun
	 * or not, this gives back what it has and itself. */
	void (*abandoned)(struct io_job *job);
	/* It may wait for what somebody behind it in the queue would do: there is
	 * a helper for each such. */
	bool endless;
	/* pool.c's. */
	struct io_job *next;
	struct waiter *waiter;
	int state;
	bool detached;
};

/* Wait until it is done. 0; ETIMEDOUT, ECANCELED: it has not been done, or, if it
 * can be abandoned, was: it is not the caller's any more; EAGAIN: no helper can be
 * had, and it was not done. A plain pthread does it itself, but for
 * what can be abandoned at a deadline. */
int io_pool_do(enum io_pool which, struct io_job *job, uint64_t deadline);
/* Nobody waits for it, and `abandoned` is its end. EAGAIN: as above. */
int io_pool_start(enum io_pool which, struct io_job *job);
/* Helpers that exist. */
int io_pool_threads(void);
/* Those that have begun, and how many that has been at a time. */
uint32_t io_pool_there(uint32_t *at_most);
void io_pool_forked(void);

#pragma GCC visibility pop

#endif
