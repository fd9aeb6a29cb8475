/* SPDX-License-Identifier: Apache-2.0 */
/* attr.h - what lies behind the words of uthread_attr_t. */
#ifndef UTHREAD_ATTR_H
#define UTHREAD_ATTR_H

#include <string.h>

#include "base/nouns.h"

#define ATTR_MAGIC 0x75744131u /* an initialised attribute object */

struct attr {
	uint32_t magic;
	int32_t worker;
	uint64_t stack_size; /* usable bytes; 0: the default */
	int32_t detached;
	int32_t tls; /* enum uthread_tls */
	char name[UTHREAD_NAME_MAX];
	int32_t priority;
	uint32_t weight; /* 0: the default */
	uint32_t class; /* of the slot that stack_size was found in; 0: none was */
};

static inline struct attr *attr_of(uthread_attr_t *attr)
{
	struct attr *a = (struct attr *)(void *)attr;

	return a && a->magic == ATTR_MAGIC ? a : NULL;
}

static inline const struct attr *attr_of_const(const uthread_attr_t *attr)
{
	const struct attr *a = (const struct attr *)(const void *)attr;

	return a && a->magic == ATTR_MAGIC ? a : NULL;
}

/* A thread's may be asked for while it is set: each byte is of the one or the other,
 * and the last ends it whatever is before. */
static inline int name_copy(char to[UTHREAD_NAME_MAX], const char *name)
{
	const size_t len = name ? strlen(name) : 0;
	size_t i;

	if (len >= UTHREAD_NAME_MAX)
		return ERANGE;
	for (i = 0; i < UTHREAD_NAME_MAX; i++)
		store_relaxed(&to[i], i < len ? name[i] : '\0');
	return 0;
}

static inline void name_read(char to[UTHREAD_NAME_MAX],
			     const char from[UTHREAD_NAME_MAX])
{
	int i;

	for (i = 0; i < UTHREAD_NAME_MAX; i++)
		to[i] = load_relaxed(&from[i]);
}

#endif
