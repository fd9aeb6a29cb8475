/* SPDX-License-Identifier: Apache-2.0 */
/*
 * key.c - thread-specific data.
 *
 * A key is a slot and the sequence number of its creation, so that a value
 * stored under a deleted key does not appear under its successor. Values
 * lie in blocks of 16, made when first written; a uthread frees its blocks
 * at its end, a plain pthread through a pthread key.
 */
#include <stdlib.h>

#include "tls/tls.h"

#define BLOCK 16
#define BLOCKS (UTHREAD_KEYS_MAX / BLOCK)

struct keyblock {
	struct {
		uint32_t seq;
		void *value;
	} slot[BLOCK];
};

/* seq is odd while the key exists. Guarded by key_lock for writing. */
static uint32_t key_lock;
static struct {
	uint32_t seq; /* atomic */
	void (*destructor)(void *);
} keys[UTHREAD_KEYS_MAX] LARGE;

/* Values of plain pthreads. */
static pthread_mutex_t foreign_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_key_t foreign_key;
static uint32_t foreign_made; /* atomic */

static void free_blocks(struct keyblock **blocks)
{
	int i;

	for (i = 0; i < BLOCKS; i++)
		free(blocks[i]);
	free(blocks);
}

static void foreign_free(void *blocks)
{
	free_blocks(blocks);
}

/* False: no pthread key is left, for now. */
static bool foreign_setup(void)
{
	bool made;

	if (load_acquire(&foreign_made))
		return true;
	pthread_mutex_lock(&foreign_lock);
	made = foreign_made || !pthread_key_create(&foreign_key, foreign_free);
	store_release(&foreign_made, made);
	pthread_mutex_unlock(&foreign_lock);
	return made;
}

static struct keyblock **blocks_of(struct uthread *me)
{
	if (me)
		return me->keys;
	return load_acquire(&foreign_made) ? pthread_getspecific(foreign_key) :
					     NULL;
}

int uthread_key_create(uthread_key_t *key, void (*destructor)(void *))
{
	uint32_t i;

	spin_lock_gated(&key_lock);
	for (i = 0; i < UTHREAD_KEYS_MAX; i++) {
		if (keys[i].seq & 1)
			continue;
		keys[i].destructor = destructor;
		store_release(&keys[i].seq, keys[i].seq + 1);
		*key = i;
		break;
	}
	spin_unlock(&key_lock);
	return i < UTHREAD_KEYS_MAX ? 0 : EAGAIN;
}

int uthread_key_delete(uthread_key_t key)
{
	int err = EINVAL;

	if (key >= UTHREAD_KEYS_MAX)
		return EINVAL;
	spin_lock_gated(&key_lock);
	if (keys[key].seq & 1) {
		store_release(&keys[key].seq, keys[key].seq + 1);
		err = 0;
	}
	spin_unlock(&key_lock);
	return err;
}

/* The block of that key, made if need be; NULL: no memory, or no pthread key
 * for the blocks of plain pthreads. */
static struct keyblock *block_for(uthread_key_t key)
{
	struct uthread *me = uthread_current();
	struct keyblock **blocks = blocks_of(me), **b;

	if (!blocks) {
		if (!me && !foreign_setup())
			return NULL;
		blocks = calloc(BLOCKS, sizeof(struct keyblock *));
		if (!blocks)
			return NULL;
		if (me) {
			me->keys = blocks;
		} else if (pthread_setspecific(foreign_key, blocks)) {
			free(blocks);
			return NULL;
		}
	}
	b = &blocks[key / BLOCK];
	if (!*b)
		*b = calloc(1, sizeof(struct keyblock));
	return *b;
}

int uthread_setspecific(uthread_key_t key, const void *value)
{
	struct keyblock *b;
	int saved = errno;
	uint32_t seq;

	if (key >= UTHREAD_KEYS_MAX)
		return EINVAL;
	seq = load_acquire(&keys[key].seq);
	if (!(seq & 1))
		return EINVAL;
	b = block_for(key);
	errno = saved;
	if (!b)
		return ENOMEM;
	b->slot[key % BLOCK].seq = seq;
	b->slot[key % BLOCK].value = (void *)(uintptr_t)value;
	return 0;
}

void *uthread_getspecific(uthread_key_t key)
{
	struct keyblock **blocks, *b;

	if (key >= UTHREAD_KEYS_MAX)
		return NULL;
	blocks = blocks_of(uthread_current());
	b = blocks ? blocks[key / BLOCK] : NULL;
	if (!b || b->slot[key % BLOCK].seq != load_acquire(&keys[key].seq))
		return NULL;
	return b->slot[key % BLOCK].value;
}

/* One round of destructors; true: some ran, and may have set values. */
static bool run_destructors(struct keyblock **blocks)
{
	void (*destructor)(void *);
	bool ran = false;
	uint32_t i;
	void *v;

	for (i = 0; i < UTHREAD_KEYS_MAX; i++) {
		struct keyblock *b = blocks[i / BLOCK];

		if (!b) {
			i += BLOCK - 1;
			continue;
		}
		v = b->slot[i % BLOCK].value;
		if (!v || b->slot[i % BLOCK].seq != load_acquire(&keys[i].seq))
			continue;
		b->slot[i % BLOCK].value = NULL;
		destructor = keys[i].destructor;
		if (destructor) {
			destructor(v);
			ran = true;
		}
	}
	return ran;
}

void keys_drop(struct uthread *ut)
{
	if (likely(!ut->keys))
		return;
	free_blocks(ut->keys);
	ut->keys = NULL;
}

bool keys_round(struct uthread *ut)
{
	if (run_destructors(ut->keys))
		return true;
	keys_drop(ut);
	return false;
}

void keys_adopt(struct uthread *ut)
{
	ut->keys = blocks_of(NULL);
	if (ut->keys)
		pthread_setspecific(foreign_key, NULL);
}

void keys_fork_lock(void)
{
	pthread_mutex_lock(&foreign_lock);
	spin_lock(&key_lock);
}

void keys_fork_unlock(void)
{
	pthread_mutex_unlock(&foreign_lock);
	spin_unlock(&key_lock);
}
