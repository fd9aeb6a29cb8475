/* SPDX-License-Identifier: Apache-2.0 */
/*
 * table.c - the table of descriptors: an entry for each number that somebody has used.
 *
 * Entries are never freed, so who found one may look at it without a lock. They come by
 * chunks, made when the first of one is asked for. In the child of a fork the table
 * begins anew: an entry's lock, and who waits there, are of threads that are not.
 */
#include <stdlib.h>
#include <string.h>

#include "base/left.h"
#include "io/backend.h"
#include "io/pool.h"
#include "io/table.h"

struct io_fd *fd_chunks[FD_CHUNKS] LARGE;

void io_fd_clear(struct io_fd *e)
{
	int way;

	for (way = 0; way < IO_WAYS; way++) {
		store_release(&e->seq[way], e->seq[way] + 1);
		store_relaxed(&e->empty[way], e->seq[way] - 1);
	}
	store_relaxed(&e->kind, IO_UNKNOWN);
	store_relaxed(&e->ended, 0);
	store_relaxed(&e->plain, 0);
	store_relaxed(&e->waited, 0);
	store_relaxed(&e->made, 0);
	store_relaxed(&e->blocks, 0);
	store_relaxed(&e->listens, 0);
	store_relaxed(&e->lost, 0);
}

/* A handler may jump out of the call that this is for, but not out of malloc(). */
static struct io_fd *make_chunk(struct io_fd **at)
{
	REGION;
	struct io_fd *c = NULL, *other = NULL;
	int i;

	if (posix_memalign((void **)&c, CACHE_LINE, FD_CHUNK * sizeof(*c)))
		return NULL;
	memset(c, 0, FD_CHUNK * sizeof(*c));
	for (i = 0; i < FD_CHUNK; i++) {
		c[i].lock = rt.generation;
		io_fd_clear(&c[i]);
	}
	if (__atomic_compare_exchange_n(at, &other, c, false, __ATOMIC_ACQ_REL,
					__ATOMIC_ACQUIRE))
		return c;
	free(c);
	return other;
}

struct io_fd *io_fd_find(int fd)
{
	return fd_find(fd);
}

uint32_t io_fd_gen(int fd)
{
	const struct io_fd *e = fd_find(fd);

	return e ? load_acquire(&e->gen) : 0;
}

struct io_fd *io_fd_get(int fd)
{
	struct io_fd *c = fd_find(fd);

	if (likely(c) || fd < 0 || fd >= FD_CHUNK * FD_CHUNKS)
		return c;
	c = make_chunk(&fd_chunks[fd / FD_CHUNK]);
	return c ? c + fd % FD_CHUNK : NULL;
}

bool io_fd_in_use(const struct io_fd *e)
{
	/* Who has been woken waits no more, and is about to try. */
	return load_relaxed(&e->registered) || load_relaxed(&e->waited);
}

int io_fd_next_in_use(int fd)
{
	struct io_fd *e;

	for (fd++; fd < FD_CHUNK * FD_CHUNKS; fd++) {
		e = fd_find(fd);
		if (!e)
			fd += FD_CHUNK - 1 - fd % FD_CHUNK;
		else if (io_fd_in_use(e))
			return fd;
	}
	return -1;
}

/* Who forks in a handler, as a plain pthread may, has interrupted a call that may have an
 * entry in hand, and looks at it when it comes back: then they stay. */
void io_forked(const struct uthread *me)
{
	const bool stay = !me || load_relaxed(&me->flags) & UT_MASK_UNSURE;
	int i;

	/* Written only where need be: other pages stay shared. */
	for (i = 0; i < FD_CHUNKS; i++) {
		if (!fd_chunks[i])
			continue;
		if (!stay)
			left_add(fd_chunks[i], NULL);
		fd_chunks[i] = NULL;
	}
	io_backend_forked();
	io_sweep_forked();
	io_pool_forked();
	io_streams_forked();
}
