/* SPDX-License-Identifier: Apache-2.0 */
/* config.h - what the runtime shall be like; filled in by process/config.c. */
#ifndef UTHREAD_BASE_CONFIG_H
#define UTHREAD_BASE_CONFIG_H

#include "base/nouns.h"

struct config {
	int workers;
	bool fixed; /* as many as somebody said */
	int pin;
	int ncpus;
	int *cpus; /* malloced */
	size_t stack_slot;
	enum uthread_tls tls;
	uint64_t tick_ns;
	enum uthread_tick tick_source;
	int tick_signal; /* 0: nobody chose */
	enum uthread_preempt mechanism;
	int spares;
	enum uthread_main main;
	enum uthread_io io; /* 0: default */
	const struct uthread_policy *policy;
};

#endif
