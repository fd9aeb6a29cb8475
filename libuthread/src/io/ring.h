/* SPDX-License-Identifier: Apache-2.0 */
/* ring.h - the ring that is shared with the kernel (ring.c), for uring.c. */
#ifndef UTHREAD_IO_RING_H
#define UTHREAD_IO_RING_H

#include <linux/io_uring.h>

#include "base/nouns.h"

#pragma GCC visibility push(hidden)

/* What has come of a request. */
struct ring_event {
	uint64_t data; /* the request's user_data */
	int32_t result;
	uint32_t flags; /* IORING_CQE_F_* */
};

/* 0, or an error. *fd: its descriptor; it may move before it is set. */
int ring_open(int *fd);
void ring_set_fd(int fd);
/* Forget it, but for the descriptor. */
void ring_drop(void);

/*
 * All of these by any kernel thread, in a region, in handlers too; none leaves
 * another errno behind.
 */

/* The kernel gets it with the next ring_flush(), of anybody. False: there is no room,
 * and the kernel takes no more now. */
bool ring_push(const struct io_uring_sqe *s);
void ring_flush(void);
/* The same, until it has it, if the poller sleeps, who would do it else. */
void ring_flush_for_poller(void);
/* Wait until there is an event, for ns at most, or less; flushes first. */
void ring_wait(uint64_t ns);
/* Take events; how many. */
int ring_take(struct ring_event *events, int room);
/* There are some. */
bool ring_has_events(void);
/* There are requests of which the kernel has not been told. */
bool ring_has_requests(void);

#pragma GCC visibility pop

#endif
