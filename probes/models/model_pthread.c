// SPDX-License-Identifier: Apache-2.0
/* model_pthread.c - the scenario with POSIX threads, as study 000 has it. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "models/models.h"

struct shared {
	const struct scenario *s;
	pthread_barrier_t barrier;
	struct thread_result *results;
};

struct one {
	struct shared *sh;
	int index;
	pthread_t thread;
};

static void *body(void *arg)
{
	struct one *o = arg;

	scenario_body(o->sh->s, o->index, &o->sh->barrier,
		      &o->sh->results[o->index]);
	return NULL;
}

static void run(const struct scenario *s, struct scenario_result *r)
{
	struct shared sh = { .s = s, .results = r->threads };
	struct one *all = calloc((size_t)s->threads, sizeof(*all));
	int i, err;

	if (!all ||
	    pthread_barrier_init(&sh.barrier, NULL, (unsigned)s->threads))
		probe_fail(ENOMEM, "threads", "no memory");
	for (i = 0; i < s->threads; i++) {
		all[i].sh = &sh;
		all[i].index = i;
		err = pthread_create(&all[i].thread, NULL, body, &all[i]);
		if (err)
			probe_fail(err, "threads",
				   "pthread %d of %d could not be created: %s",
				   i, s->threads, strerror(err));
	}
	for (i = 0; i < s->threads; i++)
		pthread_join(all[i].thread, NULL);
	scenario_check_pins(s, r->threads);
	pthread_barrier_destroy(&sh.barrier);
	free(all);
}

const struct model_ops model_pthread = { .name = "pthread", .run = run };
