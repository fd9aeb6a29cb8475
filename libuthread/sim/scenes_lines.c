/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scenes_lines.c - the same operation on every worker, while lines.c counts which cache
 * lines travel. Each place has its worker and its objects; operations begin when there is
 * somebody at each, and are counted once all are warm.
 */
#include "scenarios.h"

#include "uthread.h"
#include "uthread/channel.h"
#include "uthread/sync.h"

#include "sched/sched.h"

#define WARM \
	70 /* operations of each before any is counted: channels are at home */
#define COUNTED 40

struct place {
	int index; /* of its worker */
	uthread_mutex_t lock;
	uthread_sem_t ping, pong;
	uthread_chan_t chan;
	uint32_t done;
} __attribute__((aligned(CACHE_LINE)));

static struct place *places;
static int nplaces, nwarm, nplaced;
static void (*operation)(struct place *p, int side);
static int sides;
static bool stays; /* each side is bound to its place's worker */
static bool
	company; /* side 1 only keeps a worker busy: nothing of it is counted */

/* All that is not the runtime's is not seen: neither a point nor a line. */
#define UNSEEN __attribute__((no_sanitize("thread"), noinline))

static UNSEEN bool all_placed(bool one_more)
{
	nplaced += one_more;
	if (nplaced == nplaces * sides)
		lines_begin();
	return nplaced >= nplaces * sides;
}

static UNSEEN void one_is_warm(void)
{
	if (++nwarm == nplaces * sides)
		lines_count(
			(uint64_t)(nplaces * (company ? 1 : sides) * COUNTED));
}

static UNSEEN bool goes_on(void)
{
	return !lines_done();
}

struct side {
	struct place *place;
	int side;
};

static void *side_of(void *arg)
{
	const struct side s = *(struct side *)arg;
	int i;

	/* Each where it was made: no worker is ever without somebody to run. */
	for (all_placed(true); !all_placed(false);)
		uthread_yield();
	for (i = 0; i < WARM; i++)
		operation(s.place, s.side);
	one_is_warm();
	while (goes_on()) {
		operation(s.place, s.side);
		if (!company || !s.side)
			lines_operation();
	}
	/* Whoever waits for one that is done: a neighbour, at the most. */
	for (i = 0; i < 2; i++) {
		struct place *p = i ? s.place : &places[s.place->index & ~1];

		uthread_sem_post(&p->ping);
		uthread_sem_post(&p->pong);
	}
	return NULL;
}

static void *place_one(void *arg)
{
	struct place *p = arg;
	struct side s[2] = { { p, 0 }, { p, 1 } };
	uthread_attr_t a;
	uthread_t t[2];
	int i;

	uthread_attr_init(&a);
	if (stays)
		MUST(!uthread_attr_setworker(&a, uthread_worker()));
	for (i = 0; i < sides; i++)
		MUST(!uthread_create(&t[i], &a, side_of, &s[i]));
	join_some(t, sides);
	return NULL;
}

/* On the first `count` workers, or (apart: 2) on every second one of so many. */
static void on_workers(void (*fn)(struct place *p, int side), int n, int count,
		       int apart)
{
	uthread_attr_t a;
	uthread_t t[256];
	int i;

	operation = fn;
	sides = n;
	nplaces = count;
	places = sim_alloc((size_t)nplaces * sizeof(places[0]));
	for (i = 0; i < nplaces; i++) {
		places[i].index = i;
		lines_region(&places[i], sizeof(places[i]), "its object", i);
		MUST(!uthread_chan_create(&places[i].chan, sizeof(int), 1));
		uthread_attr_init(&a);
		MUST(!uthread_attr_setworker(&a, i * apart));
		MUST(!uthread_create(&t[i], &a, place_one, &places[i]));
	}
	runtime_workers_go();
	join_some(t, nplaces);
}

static void on_all_workers(void (*fn)(struct place *p, int side), int n)
{
	on_workers(fn, n, rt.nworkers, 1);
}

static void op_yield(struct place *p, int side)
{
	(void)p;
	(void)side;
	uthread_yield();
}

void scene_lines_yield(void)
{
	on_all_workers(op_yield, 2);
}

static void op_mutex(struct place *p, int side)
{
	(void)side;
	uthread_mutex_lock(&p->lock);
	uthread_mutex_unlock(&p->lock);
}

void scene_lines_mutex(void)
{
	on_all_workers(op_mutex, 1);
}

static void *nothing(void *arg)
{
	return arg;
}

static void op_create(struct place *p, int side)
{
	uthread_t t;

	(void)p;
	(void)side;
	uthread_create(&t, NULL, nothing, NULL);
	uthread_join(t, NULL);
}

void scene_lines_create(void)
{
	on_all_workers(op_create, 1);
}

static void op_wake(struct place *p, int side)
{
	uthread_sem_post(side ? &p->ping : &p->pong);
	uthread_sem_wait(side ? &p->pong : &p->ping);
}

void scene_lines_wake(void)
{
	on_all_workers(op_wake, 2);
}

static void op_chan(struct place *p, int side)
{
	int item = side;

	uthread_chan_send(p->chan, &item);
	uthread_chan_recv(p->chan, &item);
}

void scene_lines_chan(void)
{
	on_all_workers(op_chan, 1);
}

static void op_sleep(struct place *p, int side)
{
	(void)p;
	(void)side;
	uthread_sleep(1);
}

void scene_lines_sleep(void)
{
	on_all_workers(op_sleep, 2);
}

/* The same where no worker is ever without somebody else to run. */
static void op_sleep_busy(struct place *p, int side)
{
	if (side)
		uthread_yield();
	else
		op_sleep(p, side);
}

void scene_lines_sleep_busy(void)
{
	company = true;
	on_all_workers(op_sleep_busy, 2);
}

/* Two neighbours wake each other. */
static void op_across(struct place *p, int side)
{
	struct place *even = &places[p->index & ~1];

	(void)side;
	if (nplaces % 2 && p->index == nplaces - 1)
		return;
	if (p->index & 1) {
		uthread_sem_post(&even->pong);
		uthread_sem_wait(&even->ping);
	} else {
		uthread_sem_wait(&even->pong);
		uthread_sem_post(&even->ping);
	}
}

void scene_lines_across(void)
{
	stays = true;
	on_all_workers(op_across, 1);
}

/* The same where no worker is ever without somebody else to run: none looks for work. */
static void op_across_busy(struct place *p, int side)
{
	if (side)
		uthread_yield();
	else
		op_across(p, side);
}

void scene_lines_across_busy(void)
{
	stays = true;
	company = true;
	on_all_workers(op_across_busy, 2);
}

/* Half of the workers have nothing to do, and look. */
void scene_lines_beside(void)
{
	on_workers(op_yield, 2, (rt.nworkers + 1) / 2, 2);
}

/* They take what the others, which compute, have made. */
static void *says_done(void *arg)
{
	store_release((uint32_t *)arg, 1);
	return NULL;
}

static void op_steal(struct place *p, int side)
{
	uthread_t t;

	(void)side;
	store_relaxed(&p->done, 0);
	uthread_create(&t, NULL, says_done, &p->done);
	spin_until(&p->done, 1);
	uthread_join(t, NULL);
}

void scene_lines_steal(void)
{
	on_workers(op_steal, 1, (rt.nworkers + 1) / 2, 2);
}
