// SPDX-License-Identifier: Apache-2.0
/* workers.c - the uthread runtime as a trial wants it, and what it counted. */
#include <errno.h>
#include <string.h>

#include "models/models.h"

/* In the order of the enums; 0 is the runtime's default. */
static const char *const sources[] = { "default", "worker", "process",
				       "monitor", NULL };
static const char *const mechanisms[] = { "default", "call", "frame", NULL };
static const char *const orders[] = { "fifo", "priority", "fair", NULL };
static const char *const modes[] = { "default", "own", "shared", NULL };

static int choice_or_default(json_t *trial, const char *field,
			     const char *const *names)
{
	return json_object_get(trial, field) ?
		       trial_choice(trial, field, names) :
		       0;
}

static uint64_t read_tick(json_t *trial)
{
	int64_t ns;

	if (!json_object_get(trial, "tick_ns"))
		return 0;
	ns = trial_int(trial, "tick_ns", 0, UTHREAD_TICK_MAX);
	if (ns && ns < UTHREAD_TICK_MIN)
		probe_fail(EINVAL, "tick_ns",
			   "tick_ns is 0 for none, or at least %u",
			   UTHREAD_TICK_MIN);
	return ns ? (uint64_t)ns : UTHREAD_TICK_OFF;
}

void workers_start(json_t *trial, const int *cpus, int ncpus)
{
	struct uthread_config config = {
		.size = sizeof(config),
		.workers = ncpus,
		.pin = 1,
		.cpus = cpus,
		.ncpus = ncpus,
		.tick_ns = read_tick(trial),
		.tick_source = (enum uthread_tick)choice_or_default(
			trial, "source", sources),
		.preempt = (enum uthread_preempt)choice_or_default(
			trial, "mechanism", mechanisms),
		.tls = (enum uthread_tls)choice_or_default(trial, "tls", modes),
		.policy = uthread_policy(
			orders[choice_or_default(trial, "order", orders)]),
		/* It only looks on, or is the other side of what is measured. */
		.main = UTHREAD_MAIN_PTHREAD,
	};
	int err = uthread_init(&config);

	if (err == ENOTSUP)
		probe_fail(
			err, "mechanism",
			"this processor cannot do what the trial asks of the runtime: mechanism %s, tls %s",
			mechanisms[config.preempt], modes[config.tls]);
	if (err)
		probe_fail(err, "model", "the uthread runtime cannot start: %s",
			   strerror(err));
	if (uthread_workers() != ncpus)
		probe_fail(EAGAIN, "cpus", "only %d of %d workers started",
			   uthread_workers(), ncpus);
}

void workers_stats(struct uthread_stats *s)
{
	uthread_stats(s, sizeof(*s));
}

static void set(json_t *o, const char *name, uint64_t value)
{
	json_object_set_new(o, name, json_integer((json_int_t)value));
}

void workers_record(json_t *o, const struct uthread_stats *before)
{
	static const char *const reasons[UTHREAD_DEFER_REASONS] = {
		[UTHREAD_DEFER_RUNTIME] = "deferred_runtime",
		[UTHREAD_DEFER_DISABLED] = "deferred_disabled",
		[UTHREAD_DEFER_LIBC] = "deferred_libc",
		[UTHREAD_DEFER_STACK] = "deferred_stack",
		[UTHREAD_DEFER_SIGNALS] = "deferred_signals",
		[UTHREAD_DEFER_ROOM] = "deferred_room",
		[UTHREAD_DEFER_TAKING] = "deferred_taking",
		[UTHREAD_DEFER_YOUNG] = "deferred_young",
	};
	struct uthread_stats s;
	int i;

	workers_stats(&s);
	set(o, "switches", s.switches - before->switches);
	set(o, "steals", s.steals - before->steals);
	set(o, "ticks", s.ticks - before->ticks);
	set(o, "preempted", s.preempted - before->preempted);
	set(o, "blocked", s.blocked - before->blocked);
	for (i = 0; i < UTHREAD_DEFER_REASONS; i++)
		if (reasons[i])
			set(o, reasons[i], s.deferred[i] - before->deferred[i]);
	set(o, "workers", s.workers);
	json_object_set_new(o, "source", json_string(sources[s.tick_source]));
	json_object_set_new(o, "mechanism", json_string(mechanisms[s.preempt]));
	json_object_set_new(o, "own_tls", json_boolean(s.own_tls));
}

uthread_t start_on(int worker, void *(*fn)(void *), void *arg)
{
	uthread_attr_t attr;
	uthread_t thread;
	int err;

	uthread_attr_init(&attr);
	uthread_attr_setworker(&attr, worker);
	err = uthread_create(&thread, &attr, fn, arg);
	if (err)
		probe_fail(err, "threads", "a uthread could not be created: %s",
			   strerror(err));
	uthread_attr_destroy(&attr);
	return thread;
}
