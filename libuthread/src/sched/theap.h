/* SPDX-License-Identifier: Apache-2.0 */
/* theap.h - a heap of deadlines; theap.c says how. The caller has its lock. */
#ifndef UTHREAD_SCHED_THEAP_H
#define UTHREAD_SCHED_THEAP_H

#include "sched/waiter.h"

#pragma GCC visibility push(hidden)

/* `w->deadline` is set, and `w` in no heap. */
void theap_add(struct theap *h, struct waiter *w);
/* It is in this one. */
void theap_remove(struct theap *h, struct waiter *w);

/* Those whose deadline is `now` or earlier, but so many at a time, out of the heap;
 * whom nobody has woken otherwise is in `due`. Returns how many are out. */
int theap_expire(struct theap *h, uint64_t now, struct uthread_list *due);
/* Make them ready, no lock held. True: there were any. */
bool theap_ready(struct uthread_list *due);

#pragma GCC visibility pop

#endif
