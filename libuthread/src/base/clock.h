/* SPDX-License-Identifier: Apache-2.0 */
/* clock.h - the time, and sleeping in the kernel until a word changes. */
#ifndef UTHREAD_BASE_CLOCK_H
#define UTHREAD_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

#define NO_DEADLINE UINT64_MAX

uint64_t now_ns(void);
/* Absolute CLOCK_MONOTONIC in ns; EINVAL for a malformed one. */
int deadline_ns(const struct timespec *ts, uint64_t *ns);

/* Sleep while *word == value, until the deadline (NO_DEADLINE: for ever). */
int futex_wait(uint32_t *word, uint32_t value, uint64_t deadline);
void futex_wake(uint32_t *word, int count);

#endif
