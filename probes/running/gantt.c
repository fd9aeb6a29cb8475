// SPDX-License-Identifier: Apache-2.0
/*
 * gantt.c - study 000, section VII: a few coroutines of different length
 * under one scheduler; who had which slot, who finished when. With the
 * future work it names: priority and time-slice order, a pool (the same set
 * is run twice, the second on the first's stacks), heap stacks, and an
 * overflow that is detected (in a child process, by its SIGSEGV).
 */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "coroutine.h"
#include "running/running.h"

#define TASKS_MAX 64
#define WORK_MAX 10000

struct gantt {
	json_t *slots, *finished;
	size_t ntasks;
	int64_t *work, *priorities, *slices;
	struct coroutine_config config;
	bool pool;
};

struct task {
	struct gantt *g;
	int index;
};

static void task_main(void *arg)
{
	struct task *t = arg;
	int64_t i, n = t->g->work[t->index];

	for (i = 1; i <= n; i++) {
		json_array_append_new(
			t->g->slots,
			json_pack("{s:I, s:i, s:I}", "slot",
				  (json_int_t)json_array_size(t->g->slots),
				  "task", t->index, "iteration",
				  (json_int_t)i));
		if (i < n)
			coroutine_yield();
	}
	json_array_append_new(t->g->finished, json_integer(t->index));
}

static void must(int err, const char *what)
{
	if (err)
		probe_fail(err, what, "%s: %s", what, strerror(err));
}

static void run_once(struct gantt *g, coroutine_scheduler_t *sched,
		     struct task *tasks)
{
	struct coroutine_attr attr = { .size = sizeof(attr) };
	size_t i;

	json_array_clear(g->slots);
	json_array_clear(g->finished);
	for (i = 0; i < g->ntasks; i++) {
		tasks[i] = (struct task){ .g = g, .index = (int)i };
		attr.priority = g->priorities ? (int)g->priorities[i] : 0;
		attr.slice = g->slices ? (unsigned)g->slices[i] : 1;
		must(coroutine_create(sched, NULL, &attr, task_main, &tasks[i]),
		     "coroutine_create");
	}
	must(coroutine_run(sched), "coroutine_run");
}

/* ---- overflow ---- */

static volatile char sink;

/* Deeper and deeper; the buffer keeps it from being a loop. */
static __attribute__((noinline)) int dig(int depth)
{
	volatile char hole[512];

	hole[0] = (char)depth;
	sink = hole[0];
	return depth == INT_MAX ? 0 : dig(depth + 1) + hole[0];
}

static void overflow_main(void *arg)
{
	(void)arg;
	dig(0);
}

/* In a child: a coroutine that overflows must die by SIGSEGV. */
static bool overflow_detected(const struct coroutine_config *config)
{
	static char altstack[65536];
	stack_t ss = { .ss_sp = altstack, .ss_size = sizeof(altstack) };
	struct rlimit no_core = { 0, 0 };
	coroutine_scheduler_t *sched;
	int status;
	pid_t pid = fork();

	if (pid < 0)
		return false;
	if (!pid) {
		setrlimit(RLIMIT_CORE, &no_core);
		sigaltstack(&ss, NULL);
		signal(SIGSEGV, SIG_DFL);
		if (coroutine_scheduler_init(&sched, config) ||
		    coroutine_create(sched, NULL, NULL, overflow_main, NULL))
			_exit(1);
		coroutine_run(sched);
		_exit(0);
	}
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return false;
	return WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV;
}

/* ---- the trial ---- */

static int64_t *per_task(json_t *trial, const char *field, size_t ntasks,
			 int64_t min, int64_t max)
{
	json_t *v = json_object_get(trial, field);
	int64_t *list;
	size_t n;

	if (!v || json_is_null(v) || (json_is_array(v) && !json_array_size(v)))
		return NULL;
	list = trial_ints(trial, field, &n, TASKS_MAX, min, max);
	if (n != ntasks)
		probe_fail(EINVAL, field, "%s has %zu entries for %zu tasks",
			   field, n, ntasks);
	return list;
}

static void read_gantt(json_t *trial, struct gantt *g)
{
	static const char *const models[] = { "coroutine", "ucontext", NULL };
	static const char *const orders[] = { "round-robin", "priority",
					      "time-slice", NULL };

	g->config.size = sizeof(g->config);
	g->config.backend =
		(enum coroutine_backend)trial_choice(trial, "model", models);
	g->config.order =
		(enum coroutine_order)trial_choice(trial, "order", orders);
	g->config.stack_size =
		(size_t)trial_int_or(trial, "stack_bytes", COROUTINE_STACK_MIN,
				     1 << 30, COROUTINE_STACK_DEFAULT);
	g->config.pool_max = TASKS_MAX;
	g->pool = !json_is_false(json_object_get(trial, "pool"));
	g->work = trial_ints(trial, "work", &g->ntasks, TASKS_MAX, 1, WORK_MAX);
	g->priorities = per_task(trial, "priorities", g->ntasks, -1000, 1000);
	g->slices = per_task(trial, "slices", g->ntasks, 1, WORK_MAX);
	g->slots = json_array();
	g->finished = json_array();
}

void probe_gantt(json_t *trial)
{
	struct gantt g = { 0 };
	struct task tasks[TASKS_MAX];
	coroutine_scheduler_t *sched;
	struct coroutine_stats st;
	int64_t start, wall;
	uint64_t switches_before = 0;
	bool overflow;
	json_t *o;

	read_gantt(trial, &g);
	overflow = overflow_detected(&g.config);
	must(coroutine_scheduler_init(&sched, &g.config), "stack_bytes");
	if (g.pool) {
		run_once(&g, sched, tasks);
		must(coroutine_stats(sched, &st, sizeof(st)),
		     "coroutine_stats");
		switches_before = st.switches;
	}
	start = clock_ns();
	run_once(&g, sched, tasks);
	wall = clock_ns() - start;
	must(coroutine_stats(sched, &st, sizeof(st)), "coroutine_stats");
	must(coroutine_scheduler_destroy(sched), "coroutine_scheduler_destroy");

	o = record_new("sample");
	json_object_set_new(o, "model",
			    json_string(trial_string(trial, "model")));
	json_object_set_new(o, "order",
			    json_string(trial_string(trial, "order")));
	json_object_set_new(o, "slots", g.slots);
	json_object_set_new(o, "finished", g.finished);
	json_object_set_new(
		o, "switches",
		json_integer((json_int_t)(st.switches - switches_before)));
	json_object_set_new(o, "stacks_created",
			    json_integer((json_int_t)st.stacks_created));
	json_object_set_new(o, "stacks_reused",
			    json_integer((json_int_t)st.stacks_reused));
	json_object_set_new(o, "wall_ns", json_integer(wall));
	json_object_set_new(o, "overflow_detected", json_boolean(overflow));
	record_print(o);
	record_end();
	free(g.work);
	free(g.priorities);
	free(g.slices);
}
