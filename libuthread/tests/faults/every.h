/* SPDX-License-Identifier: Apache-2.0 */
/*
 * every.h - one program, with each of its calls failing once and for good.
 *
 * A program is run again and again, in a process of its own: first as it is,
 * then with its first call failing (faults.h), its second, and so on until it
 * ends before the call that was to fail; then all that again with every later
 * call of the same kind failing too. Whatever fails, it must get the error
 * number that the header names, or go on as the manual says; it must not crash,
 * hang, print anything but lines of the runtime, touch errno (ask.h), or hold
 * more at its end than a run without failures.
 *
 * FAULTS_EVERY=1: every call of the long programs, not each so-many-th.
 * FAULTS_AT=N or N+: only the N-th call (and all later ones of its kind).
 */
#ifndef UTHREAD_TEST_EVERY_H
#define UTHREAD_TEST_EVERY_H

#include "faults.h"

#include <sys/mman.h>

#include "preempt/spare.h"
#include "util.h"

/* For one run, on a slow machine. */
#define TIME_S (TEST_EMULATED || TEST_ASAN ? 60 : 20)
/* Calls passed over, where a run takes long and the code is the same. */
#define OMIT (TEST_EMULATED ? 6 : TEST_ASAN ? 2 : 0)

static struct shared {
	struct faults f;
	struct held held;
	uint32_t done;
} *shared;

static void (*program)(void);

/* The spares that the maker makes ahead: on a busy machine it begins late. */
static void until_all_made(void)
{
	bool makes;

	do {
		usleep(1000);
		spin_lock(&spares.lock);
		makes = spares.at_it || spare_need() != NOTHING;
		spin_unlock(&spares.lock);
	} while (makes);
}

static void run(void)
{
	/* Should once() not see it: it is earlier. */
	alarm(TIME_S + 4 * HUNG_ANSWER_S);
	faults = &shared->f;
	program();
	if (!shared->f.at) /* what others are compared with has them all */
		until_all_made();
	shared->held = faults_held();
	store(&shared->done, 1);
}

/* Nothing but lines of the runtime's. */
static bool all_ours(const char *err)
{
	const char *end;

	for (; *err; err = end + 1) {
		end = strchr(err, '\n');
		if (strncmp(err, "uthread: ", 9) || !end)
			return false;
	}
	return true;
}

/*
 * A spare worker has a timer, a mapping and two blocks, and may be made or not.
 * How many blocks the rest has depends on what failed: without own TLS fewer.
 */
static bool more(struct held now, struct held good)
{
	while (now.timers > good.timers && now.maps > good.maps) {
		now.timers--;
		now.maps--;
		now.blocks -= 2;
	}
	return now.blocks > good.blocks || now.maps > good.maps ||
	       now.timers > good.timers ||
	       now.files > good.files + 1; /* the monitor's, now and then */
}

static void print_held(const char *what, struct held h)
{
	fprintf(stderr,
		"  %s: %lld blocks, %lld mappings, %lld timers, %lld files\n",
		what, (long long)h.blocks, (long long)h.maps,
		(long long)h.timers, (long long)h.files);
}

/*
 * What is forgotten is forgotten each time; a spare that the end of the run
 * finds half made is not there again.
 */
#define LEAK_RUNS 5

static void once(uint32_t at, bool on, const struct held *good)
{
	char err[4096];
	int status, i;

	for (i = 0; i < LEAK_RUNS; i++) {
		memset(shared, 0, sizeof(*shared));
		shared->f.at = at;
		shared->f.on = on;
		status = in_child_within(TIME_S, 2, run, err, sizeof(err));
		if (!WIFEXITED(status) || WEXITSTATUS(status) ||
		    !load(&shared->done) || !(TEST_ASAN || all_ours(err)))
			break;
		if (!good || !more(shared->held, *good))
			return;
	}
	fprintf(stderr, "call %u (%s from %p)%s failed; status 0x%x%s\n%s", at,
		shared->f.kind ? shared->f.kind : "none", shared->f.site,
		on ? " and all later ones" : "", (unsigned)status,
		load(&shared->done) ? "" : ", not done", err);
	if (good) {
		print_held("held at the end", shared->held);
		print_held("without failures", *good);
	}
	_exit(1);
}

/* step: of the long programs the first STEP_AFTER calls, then each so-many-th. */
#define STEP_AFTER 100

/* `program` in every way; leaks: also look at what it holds at its end. */
static void every_fault(void (*fn)(void), uint32_t step, bool leaks)
{
	const char *only = getenv("FAULTS_AT");
	struct held good;
	uint32_t at, runs = 0;
	char *end;
	int on;

	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(shared != MAP_FAILED);
	program = fn;
	if (only) { /* here, for a debugger */
		shared->f.at = (uint32_t)strtoul(only, &end, 10);
		shared->f.on = *end == '+';
		run();
		return;
	}
	if (getenv("FAULTS_EVERY"))
		step = 1;
	once(0, false, NULL);
	CHECK(shared->f.calls > 0);
	good = shared->held;
	for (on = 0; on < 2; on++)
		for (at = 1;; at += at < STEP_AFTER ? 1 : step) {
			once(at, on, leaks ? &good : NULL);
			if (!shared->f.kind)
				break;
			at += OMIT;
			runs++;
		}
	printf("     %u runs with failures\n", runs);
	CHECK(runs > 4);
}

#endif
