// SPDX-License-Identifier: Apache-2.0
/*
 * events.c - the processor's own counters by perf_event_open(2): instructions,
 * and load misses of L1i, L1d and dTLB, of the calling kernel thread alone.
 *
 * All are one group, so that they count at the same time or not at all. Where
 * the processor has too few counters for the group, the kernel never runs it;
 * where others use them too, it runs part of the time, and counts are scaled up
 * and marked with the share. Each thread opens a group of its own: a group that
 * children inherit cannot be read as one.
 *
 * The kernel's share is counted where perf_event_paranoid allows. Without any
 * counter (most clouds) the reason is kept and the trial goes on without.
 */
#include <errno.h>
#include <linux/perf_event.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "measure/measure.h"

const char *const event_names[] = { "instructions", "l1i", "l1d", "dtlb" };

#define LOAD_MISSES(cache)                            \
	((cache) | PERF_COUNT_HW_CACHE_OP_READ << 8 | \
	 PERF_COUNT_HW_CACHE_RESULT_MISS << 16)

static const struct event_code processor[EVENTS] = {
	[EVENT_INSTRUCTIONS] = { PERF_TYPE_HARDWARE,
				 PERF_COUNT_HW_INSTRUCTIONS },
	[EVENT_L1I] = { PERF_TYPE_HW_CACHE,
			LOAD_MISSES(PERF_COUNT_HW_CACHE_L1I) },
	[EVENT_L1D] = { PERF_TYPE_HW_CACHE,
			LOAD_MISSES(PERF_COUNT_HW_CACHE_L1D) },
	[EVENT_DTLB] = { PERF_TYPE_HW_CACHE,
			 LOAD_MISSES(PERF_COUNT_HW_CACHE_DTLB) },
};

static int open_one(const struct event_code *code, int leader, bool kernel)
{
	struct perf_event_attr attr = {
		.size = sizeof(attr),
		.type = code->type,
		.config = code->config,
		.read_format = PERF_FORMAT_GROUP | PERF_FORMAT_ID |
			       PERF_FORMAT_TOTAL_TIME_ENABLED |
			       PERF_FORMAT_TOTAL_TIME_RUNNING,
		.disabled = leader < 0,
		.exclude_kernel = !kernel,
		.exclude_hv = 1,
	};

	return (int)syscall(SYS_perf_event_open, &attr, 0, -1, leader, 0UL);
}

void events_open(struct events *e)
{
	events_open_codes(e, processor);
}

void events_open_codes(struct events *e, const struct event_code codes[EVENTS])
{
	int i;

	memset(e, 0, sizeof(*e));
	for (i = 0; i < EVENTS; i++)
		e->fds[i] = -1;
	e->kernel = true;
	e->leader = open_one(&codes[EVENT_INSTRUCTIONS], -1, true);
	if (e->leader < 0 && (errno == EACCES || errno == EPERM)) {
		e->kernel = false;
		e->leader = open_one(&codes[EVENT_INSTRUCTIONS], -1, false);
	}
	if (e->leader < 0) {
		e->err = errno;
		return;
	}
	for (i = 0; i < EVENTS; i++) {
		e->fds[i] = i == EVENT_INSTRUCTIONS ?
				    e->leader :
				    open_one(&codes[i], e->leader, e->kernel);
		if (e->fds[i] < 0)
			continue; /* this processor has no such event */
		ioctl(e->fds[i], PERF_EVENT_IOC_ID, &e->ids[i]);
		e->open++;
	}
}

void events_begin(struct events *e)
{
	if (!e->open)
		return;
	ioctl(e->leader, PERF_EVENT_IOC_RESET, PERF_IOC_FLAG_GROUP);
	ioctl(e->leader, PERF_EVENT_IOC_ENABLE, PERF_IOC_FLAG_GROUP);
}

void events_end(struct events *e, struct counts *sum)
{
	struct {
		uint64_t n, enabled, running;
		struct {
			uint64_t value, id;
		} of[EVENTS];
	} got;
	double share;
	uint64_t i;
	int k;

	if (!e->open)
		return;
	ioctl(e->leader, PERF_EVENT_IOC_DISABLE, PERF_IOC_FLAG_GROUP);
	if (read(e->leader, &got, sizeof(got)) <= 0 || !got.running) {
		/* They were never on. */
		e->err = EBUSY;
		return;
	}
	share = (double)got.running / (double)got.enabled;
	if (share < sum->running)
		sum->running = share;
	for (i = 0; i < got.n && i < EVENTS; i++)
		for (k = 0; k < EVENTS; k++)
			if (e->fds[k] >= 0 && e->ids[k] == got.of[i].id)
				sum->of[k] +=
					(int64_t)((double)got.of[i].value /
						  share);
}

void events_close(struct events *e)
{
	int i;

	for (i = 0; i < EVENTS; i++)
		if (e->fds[i] >= 0)
			close(e->fds[i]);
}
