/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sized.h - a caller's struct whose first field is its size.
 *
 * The caller may have been built with an older or a newer header. Older: what
 * it does not have is zero, the default; no version is smaller than the first.
 * Newer: what we do not know must be zero, as nothing is asked for then. A new
 * field goes behind the padding of the version before, which nobody clears.
 */
#ifndef UTHREAD_BASE_SIZED_H
#define UTHREAD_BASE_SIZED_H

#include <errno.h>
#include <stddef.h>
#include <string.h>

#define SIZED_MAX 4096 /* a larger one is rather not filled in */

/* 0, or EINVAL: smaller than `first`, or E2BIG: it asks for what we have not. */
static inline int sized_load(void *to, size_t known, const void *from,
			     size_t first)
{
	const unsigned char *bytes = from;
	size_t size, i;

	memcpy(&size, from, sizeof(size));
	if (size < first)
		return EINVAL;
	if (size > SIZED_MAX)
		return E2BIG;
	for (i = known; i < size; i++)
		if (bytes[i])
			return E2BIG;
	memset(to, 0, known);
	memcpy(to, from, size < known ? size : known);
	memcpy(to, &known, sizeof(known));
	return 0;
}

#endif
