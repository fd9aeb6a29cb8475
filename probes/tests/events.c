// SPDX-License-Identifier: Apache-2.0
/*
 * events.c - measure/events.c against counters whose answer is known.
 *
 * usage: events CASE...
 *
 * Most machines that run the tests have no counters of the processor, so this
 * runs in an arm64 guest whose emulated processor has six, and counts its
 * instructions exactly (tests/test_events.py). ``software`` needs none.
 * Each case prints "ok CASE ..." with what it saw, or "not ok CASE: why"; one
 * that is refused here prints "skip CASE: why".
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "measure/measure.h"

#define PAGES 64
#define TURNS 1000000
/* Counts beside the loop's own: of the calls that begin and end a bout. */
#define ASIDE 20000

static const struct event_code hardware[EVENTS] = {
	{ PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS },
	{ PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES },
	{ PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS },
	/* No processor has it. */
	{ PERF_TYPE_HW_CACHE, 0xffffff },
};

static const struct event_code of_kernel[EVENTS] = {
	{ PERF_TYPE_SOFTWARE, PERF_COUNT_SW_TASK_CLOCK },
	{ PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS },
	{ PERF_TYPE_SOFTWARE, PERF_COUNT_SW_EMULATION_FAULTS },
	{ PERF_TYPE_SOFTWARE, ~0ULL },
};

static const char *name;

static _Noreturn void end(const char *word, const char *why)
{
	printf("%s %s: %s\n", word, name, why);
	exit(word[0] != 's');
}

#define MUST(cond)                            \
	do {                                  \
		if (!(cond))                  \
			end("not ok", #cond); \
	} while (0)

/* Two instructions a turn, and a few. */
static void turn(long turns)
{
#ifdef __aarch64__
	__asm__ volatile("1: subs %0, %0, #1\n b.ne 1b" : "+r"(turns) : : "cc");
#else
	__asm__ volatile("1: dec %0\n jne 1b" : "+r"(turns) : : "cc");
#endif
}

static void touch(void)
{
	long size = sysconf(_SC_PAGESIZE), i;
	char *p = mmap(NULL, (size_t)(PAGES * size), PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	MUST(p != MAP_FAILED);
	madvise(p, (size_t)(PAGES * size), MADV_NOHUGEPAGE);
	for (i = 0; i < PAGES; i++)
		p[i * size] = 1;
	munmap(p, (size_t)(PAGES * size));
}

static void must_open(struct events *e, const struct event_code *codes)
{
	events_open_codes(e, codes);
	if (e->leader < 0)
		end("skip", strerror(e->err));
}

static bool near(int64_t got, double wanted, double share)
{
	return (double)got > wanted * (1 - share) &&
	       (double)got < wanted * (1 + share);
}

/* Every member's count goes to its own place, and one that is not there stays 0. */
static void group(void)
{
	struct counts sum = { .running = 1 };
	struct events e;
	int bout;

	must_open(&e, hardware);
	MUST(e.kernel && e.open == 3 && e.fds[3] < 0);
	for (bout = 1; bout <= 3; bout++) {
		events_begin(&e);
		turn(TURNS);
		touch();
		events_end(&e, &sum);
		/* Bouts add up, and what lies between them is not counted. */
		turn(TURNS);
		MUST(sum.of[0] > 2L * TURNS * bout);
		MUST(sum.of[2] >= PAGES * bout && sum.of[2] < 3 * PAGES * bout);
	}
	MUST(sum.of[0] < 2L * TURNS * 4);
	MUST(sum.of[1] > 0 && sum.of[3] == 0 && sum.running == 1);
	events_close(&e);
	printf("ok group instructions=%lld cycles=%lld faults=%lld\n",
	       (long long)sum.of[0], (long long)sum.of[1],
	       (long long)sum.of[2]);
}

/* The lab's own events, whichever this processor has. */
static void own(void)
{
	struct counts sum = { .running = 1 };
	struct events e;
	int i;

	events_open(&e);
	if (e.leader < 0)
		end("skip", strerror(e.err));
	events_begin(&e);
	turn(TURNS);
	events_end(&e, &sum);
	MUST(!e.err && sum.of[0] >= 2L * TURNS);
	printf("ok own");
	for (i = 0; i < EVENTS; i++)
		if (e.fds[i] >= 0)
			printf(" %s=%lld", event_names[i],
			       (long long)sum.of[i]);
	printf("\n");
	events_close(&e);
}

/* Without the kernel, nothing but the loop and the ends of two calls. */
static void exactly(void)
{
	struct counts sum = { .running = 1 };
	struct events e;

	must_open(&e, hardware);
	MUST(!e.kernel);
	events_begin(&e);
	turn(TURNS);
	events_end(&e, &sum);
	MUST(sum.of[0] >= 2L * TURNS && sum.of[0] < 2L * TURNS + ASIDE);
	printf("ok user instructions=%lld\n", (long long)sum.of[0]);
}

/* More groups than the processor can count at once: each runs part of the time,
 * and is scaled up to the whole. */
static void scaled(void)
{
	enum { GROUPS = 12 };
	static const struct event_code two[EVENTS] = {
		{ PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS },
		{ PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS },
		{ PERF_TYPE_HW_CACHE, 0xffffff },
		{ PERF_TYPE_HW_CACHE, 0xffffff },
	};
	struct counts sums[GROUPS];
	struct events e[GROUPS];
	double wanted = 2.0 * TURNS * 400, least = 1;
	int i, shared = 0;

	for (i = 0; i < GROUPS; i++) {
		memset(&sums[i], 0, sizeof(sums[i]));
		sums[i].running = 1;
		must_open(&e[i], two);
		MUST(e[i].open == 2);
	}
	for (i = 0; i < GROUPS; i++)
		events_begin(&e[i]);
	turn(400L * TURNS);
	for (i = 0; i < GROUPS; i++)
		events_end(&e[i], &sums[i]);
	for (i = 0; i < GROUPS; i++) {
		if (e[i].err)
			end("not ok", "a group was never on");
		shared += sums[i].running < 0.9;
		if (sums[i].running < least)
			least = sums[i].running;
		if (!near(sums[i].of[0], wanted, 0.3) ||
		    !near(sums[i].of[1], wanted, 0.3))
			end("not ok", "a count was not scaled to the whole");
		events_close(&e[i]);
	}
	MUST(shared > GROUPS / 2);
	printf("ok scaled groups=%d shared=%d least=%.3f\n", GROUPS, shared,
	       least);
}

/* Who has the whole processor for itself keeps every other group off it. */
static void never(void)
{
	struct perf_event_attr attr = {
		.size = sizeof(attr),
		.type = PERF_TYPE_HARDWARE,
		.config = PERF_COUNT_HW_CPU_CYCLES,
		.pinned = 1,
		.exclusive = 1,
	};
	int holder = (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0UL);
	struct counts sum = { .running = 1 };
	struct events e;

	if (holder < 0)
		end("skip", strerror(errno));
	must_open(&e, hardware);
	events_begin(&e);
	turn(TURNS);
	events_end(&e, &sum);
	MUST(e.err == EBUSY && sum.of[0] == 0);
	close(holder);
	events_begin(&e);
	turn(TURNS);
	events_end(&e, &sum);
	MUST(sum.of[0] > 2L * TURNS);
	printf("ok never\n");
}

static void paranoid(const char *level)
{
	int fd = open("/proc/sys/kernel/perf_event_paranoid", O_WRONLY);

	if (fd < 0 || write(fd, level, strlen(level)) < 0)
		end("skip", "perf_event_paranoid cannot be set");
	close(fd);
}

/* Who may count without the kernel, */
static void user(void)
{
	paranoid("2");
	MUST(!setresuid(65534, 65534, 65534));
	exactly();
}

/* and who may not count at all. */
static void refused(void)
{
	struct counts sum = { .running = 1 };
	struct events e;

	paranoid("3");
	MUST(!setresuid(65534, 65534, 65534));
	events_open(&e);
	if (e.leader >= 0)
		end("skip", "this kernel has no level 3");
	MUST(e.err == EACCES || e.err == EPERM);
	MUST(!e.open);
	/* A trial goes on without. */
	events_begin(&e);
	events_end(&e, &sum);
	events_close(&e);
	MUST(sum.of[0] == 0);
	printf("ok refused\n");
}

static void software(void)
{
	struct counts sum = { .running = 1 };
	struct events e;

	must_open(&e, of_kernel);
	MUST(e.open == 3 && e.fds[3] < 0);
	events_begin(&e);
	touch();
	events_end(&e, &sum);
	touch();
	MUST(!e.err && sum.of[0] > 0);
	MUST(sum.of[1] >= PAGES && sum.of[1] < 2 * PAGES);
	MUST(sum.of[2] == 0);
	events_close(&e);
	printf("ok software faults=%lld\n", (long long)sum.of[1]);
}

static const struct {
	const char *name;
	void (*run)(void);
} cases[] = {
	{ "group", group },	  { "own", own },   { "scaled", scaled },
	{ "never", never },	  { "user", user }, { "refused", refused },
	{ "software", software },
};

int main(int argc, char **argv)
{
	int status = 0, got, i;
	unsigned k;

	setvbuf(stdout, NULL, _IOLBF, 0);
	for (i = 1; i < argc; i++)
		for (k = 0; k < sizeof(cases) / sizeof(*cases); k++)
			if (!strcmp(argv[i], cases[k].name)) {
				/* Each in a process of its own: some give up
				 * what the next needs. */
				name = argv[i];
				if (!fork()) {
					cases[k].run();
					exit(0);
				}
				wait(&got);
				status |= got != 0;
			}
	return status;
}
