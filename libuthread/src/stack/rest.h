/* SPDX-License-Identifier: Apache-2.0 */
/* rest.h - between pool.c and rest.c; of one kind are slots of one size that have a TLS
 * block, or have none. */
#ifndef UTHREAD_STACK_REST_H
#define UTHREAD_STACK_REST_H

#include "base/nouns.h"

#define MAGAZINE 128 /* slots, at most */

/*
 * A magazine is a list of slots, linked by `next`, whose first one says how many they are
 * and which magazine comes after: in what its last uthread was given and has left.
 */
static inline void magazine_is(struct uthread *first, uint32_t count)
{
	first->value = (void *)(uintptr_t)count;
}

static inline uint32_t magazine_count(const struct uthread *first)
{
	return (uint32_t)(uintptr_t)first->value;
}

/* To all. `deep`: it is worth while to trim them now. In a region of a worker false, and
 * nothing done, while there is a fork. */
bool rest_put(struct uthread *magazine, unsigned kind, bool deep,
	      bool in_region);
/* A magazine for the worker in whose region this is. NULL: none, or not now. *last: there
 * are no more. */
struct uthread *rest_get(unsigned kind, bool *last);
/* A slot, not in a region. NULL: none. */
struct uthread *rest_get_one(unsigned kind);

#endif
