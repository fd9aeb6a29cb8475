/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bounded_buffer.h - the text book's producer and consumer: a ring, a mutex, two
 * condition variables. producer_consumer.c includes it twice, with THREAD(x) as
 * pthread_x and as uthread_x: porting is a rename. No guard, for that reason.
 */

struct THREAD(buffer) {
	THREAD(mutex_t) lock;
	THREAD(cond_t) not_full, not_empty;
	uint64_t *ring;
	size_t room, count, first;
	uint64_t items;
	uint64_t sum; /* the consumer's */
};

static void *THREAD(produce)(void *arg)
{
	struct THREAD(buffer) *b = arg;

	for (uint64_t i = 1; i <= b->items; i++) {
		THREAD(mutex_lock)(&b->lock);
		while (b->count == b->room)
			THREAD(cond_wait)(&b->not_full, &b->lock);
		b->ring[(b->first + b->count++) % b->room] = i;
		THREAD(cond_signal)(&b->not_empty);
		THREAD(mutex_unlock)(&b->lock);
	}
	return NULL;
}

static void *THREAD(consume)(void *arg)
{
	struct THREAD(buffer) *b = arg;

	for (uint64_t i = 1; i <= b->items; i++) {
		THREAD(mutex_lock)(&b->lock);
		while (!b->count)
			THREAD(cond_wait)(&b->not_empty, &b->lock);
		b->sum += b->ring[b->first];
		b->first = (b->first + 1) % b->room;
		b->count--;
		THREAD(cond_signal)(&b->not_full);
		THREAD(mutex_unlock)(&b->lock);
	}
	return NULL;
}

/* The consumer's sum. */
static uint64_t THREAD(run)(uint64_t *ring, size_t room, uint64_t items)
{
	struct THREAD(buffer)
		b = { .ring = ring, .room = room, .items = items };
	THREAD(t) producer, consumer;
	int error;

	THREAD(mutex_init)(&b.lock, NULL);
	THREAD(cond_init)(&b.not_full, NULL);
	THREAD(cond_init)(&b.not_empty, NULL);
	error = THREAD(create)(&producer, NULL, THREAD(produce), &b);
	if (!error)
		error = THREAD(create)(&consumer, NULL, THREAD(consume), &b);
	if (error) {
		errno = error;
		err(1, "no thread can be had");
	}
	THREAD(join)(producer, NULL);
	THREAD(join)(consumer, NULL);
	THREAD(cond_destroy)(&b.not_empty);
	THREAD(cond_destroy)(&b.not_full);
	THREAD(mutex_destroy)(&b.lock);
	return b.sum;
}
