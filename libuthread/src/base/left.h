/* SPDX-License-Identifier: Apache-2.0 */
/* left.h - memory that the child of a fork gives back later (left.c). */
#ifndef UTHREAD_BASE_LEFT_H
#define UTHREAD_BASE_LEFT_H

/* In the child: of malloc(), at least two pointers large and perhaps written to, or
 * NULL. `give` gives it back, NULL: free(). */
void left_add(void *p, void (*give)(void *p));
/* Where malloc() may be called, and there is use for the memory. */
void left_give(void);
/* The same, if there is more than a few blocks. */
void left_trim(void);

#endif
