/* SPDX-License-Identifier: Apache-2.0 */
/* rest.h - between pool.c and rest.c; `c` is a slot's class less STACK_CLASS_MIN. */
#ifndef UTHREAD_STACK_REST_H
#define UTHREAD_STACK_REST_H

#include "base/nouns.h"

#define REST_AT_ONCE 64 /* slots for a worker's pool beside the one it needs */

static inline void pool_push(struct pool *p, struct uthread *ut)
{
	ut->next = p->head;
	store_relaxed(&p->head, ut);
	p->count++;
}

/* A list, linked by `next`. `deep`: it is worth while to trim them now. In a region of a
 * worker false, and nothing done, while there is a fork. */
bool rest_put(struct uthread *first, unsigned c, unsigned own, bool deep,
	      bool in_region);
/* One, and some for the pool, which is the worker's in whose region this is; without a
 * pool not in a region. NULL: none, or not now. *last: there are no more. */
struct uthread *rest_get(struct pool *more, unsigned c, unsigned own,
			 bool *last);

#endif
