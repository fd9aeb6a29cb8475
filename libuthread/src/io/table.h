/* SPDX-License-Identifier: Apache-2.0 */
/*
 * table.h - the table of descriptors (table.c), for who waits there (ready.c).
 */
#ifndef UTHREAD_IO_TABLE_H
#define UTHREAD_IO_TABLE_H

#include "base/objects.h"
#include "io/io.h"

#pragma GCC visibility push(hidden)

#define FD_CHUNK 256
#define FD_CHUNKS 16384

extern struct io_fd *fd_chunks[FD_CHUNKS]; /* atomic; each aligned, of FD_CHUNK */

/* NULL: nobody has had that one or its neighbours. */
static inline struct io_fd *fd_find(int fd)
{
	struct io_fd *c;

	if (fd < 0 || fd >= FD_CHUNK * FD_CHUNKS)
		return NULL;
	c = load_acquire(&fd_chunks[fd / FD_CHUNK]);
	return c ? c + fd % FD_CHUNK : NULL;
}

static inline void fd_lock(struct io_fd *e)
{
	/* The table is the process's own (io_forked()). */
	if (unlikely(object_lock(&e->lock)))
		ut_panic("a descriptor's lock is of another process");
}

static inline void fd_unlock(struct io_fd *e)
{
	object_unlock(&e->lock);
}

/* Another file, or none: what is known of it, and edges, are over. Under the lock. */
void io_fd_clear(struct io_fd *e);

#pragma GCC visibility pop

#endif
