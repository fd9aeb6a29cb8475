/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UTHREAD_TEST_NESTED_H
#define UTHREAD_TEST_NESTED_H

/* 0 + 1 + ... + (n - 1), and `each` n times. */
int nested_sum(int n, int each);

extern int nested_at_start; /* nested_sum(3, 1), from a constructor */

#endif
