/* SPDX-License-Identifier: Apache-2.0 */
/* process.h - the runtime as a part of a process: its start and its fork. */
#ifndef UTHREAD_PROCESS_PROCESS_H
#define UTHREAD_PROCESS_PROCESS_H

#include "base/config.h"
#include "base/nouns.h"

/* ---- config.c ---- */
int config_load(struct config *c, const struct uthread_config *user);

/* ---- start.c ---- */
int runtime_start(const struct uthread_config *user);
static inline int runtime_ensure(void)
{
	return likely(load_acquire(&rt.started) == STARTED) ?
		       0 :
		       runtime_start(NULL);
}
/* In the child of a fork: nothing runs but the caller. */
void runtime_forked(struct uthread *me);
/* Across a fork, one at a time: a start is whole, or has not begun, and so is
 * a change of the list of modules. Not in a region. */
void runtime_fork_lock(void);
bool runtime_fork_trylock(void);
void runtime_fork_unlock(void);

/* ---- fork.c ---- */
int fork_setup(void); /* EAGAIN: no memory */

/* To run on the TLS block that glibc knows for this kernel thread; in a region,
 * or in a handler that no tick interrupts. */
struct libc_block {
	uintptr_t mine;
	struct uthread *self; /* of that block */
	bool away; /* it is not the one we are on */
};
void libc_block_enter(struct libc_block *b);
void libc_block_leave(const struct libc_block *b);

/* ---- libc_signals.c ---- */
void libc_signals_setup(void); /* once a pthread exists */

#endif
