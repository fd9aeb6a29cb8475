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
	return likely(load_acquire(&rt.started)) ? 0 : runtime_start(NULL);
}
/* In the child of a fork: nothing runs but the caller. */
void runtime_forked(struct uthread *me);

/* ---- fork.c ---- */
int fork_setup(void); /* EAGAIN: no memory */

/* ---- libc_signals.c ---- */
void libc_signals_setup(void); /* once a pthread exists */

#endif
