// SPDX-License-Identifier: Apache-2.0
/*
 * model_process.c - the scenario with processes: the same body as a pthread's,
 * in address spaces of their own. What they share, and nothing else, is one
 * mapping: counter, barrier, results.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

#include "models/models.h"

struct shared {
	struct counter counter;
	struct scenario scenario;
	pthread_barrier_t barrier;
	struct thread_result results[];
};

static void body(void *arg, int index)
{
	struct shared *sh = arg;

	scenario_body(&sh->scenario, index, &sh->barrier, &sh->results[index]);
}

static void run(const struct scenario *s, struct scenario_result *r)
{
	size_t results = (size_t)s->threads * sizeof(*r->threads);
	struct shared *sh = map_shared(sizeof(*sh) + results);
	pthread_barrierattr_t attr;

	sh->scenario = *s;
	sh->scenario.counter = &sh->counter;
	pthread_barrierattr_init(&attr);
	pthread_barrierattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	pthread_barrier_init(&sh->barrier, &attr, (unsigned)s->threads);
	pthread_barrierattr_destroy(&attr);

	processes_run(s->threads, body, sh);
	scenario_check_pins(s, sh->results);
	s->counter->value = sh->counter.value;
	memcpy(r->threads, sh->results, results);
	pthread_barrier_destroy(&sh->barrier);
	munmap(sh, sizeof(*sh) + results);
}

const struct model_ops model_process = { .name = "process", .run = run };
