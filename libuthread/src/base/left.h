/* SPDX-License-Identifier: Apache-2.0 */
/* left.h - memory that the child of a fork gives back later (left.c). */
#ifndef UTHREAD_BASE_LEFT_H
#define UTHREAD_BASE_LEFT_H

/* Of malloc(), and at least a pointer large, or NULL. Written to. */
void left_add(void *p);
/* Once malloc() may be called again. */
void left_free(void);

#endif
