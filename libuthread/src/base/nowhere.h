/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nowhere.h - pointers of the program's that point nowhere. Where the kernel would say EFAULT
 * of one, it is left to the kernel: only it finds all of them, and it is asked about none that
 * may be right. What else is not mapped faults here, as in libc's functions that look
 * for themselves.
 */
#ifndef UTHREAD_BASE_NOWHERE_H
#define UTHREAD_BASE_NOWHERE_H

#include <stdbool.h>
#include <stdint.h>

/* Nothing of a program lies in the first page, or in the kernel's half. */
static inline bool is_nowhere(const void *at)
{
	return (uintptr_t)at < 4096 || (intptr_t)at < 0;
}

/* The same, but for who is told nothing by NULL. */
static inline bool is_said_nowhere(const void *at)
{
	return at && is_nowhere(at);
}

#endif
