// SPDX-License-Identifier: Apache-2.0
/*
 * main.c - swtch-probe: one trial in, JSON lines out, once.
 *
 * usage: swtch-probe < trial.json
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "io/io.h"
#include "running/running.h"
#include "switching/switching.h"
#include "waiting/waiting.h"

static const struct {
	const char *name;
	void (*run)(json_t *trial);
} probes[] = {
	{ "scenario", probe_scenario },
	{ "gantt", probe_gantt },
	{ "scaling", probe_scaling },
	{ "preemption", probe_preemption },
	{ "floor", probe_floor },
	{ "starvation", probe_starvation },
	{ "locks", probe_locks },
	{ "ring", probe_ring },
	{ "calls", probe_calls },
	{ "sync", probe_sync },
	{ "queue", probe_queue },
	{ "plain", probe_plain },
	{ "wakeup", probe_wakeup },
	{ "io", probe_io },
	{ "io-echo", probe_echo },
	{ "pair-overhead", probe_pair },
	{ "interrupt-overhead", probe_interrupt },
	{ "token", probe_token },
};

int main(int argc, char **argv)
{
	const char *name;
	char known[400] = "";
	json_t *trial, *hello;
	size_t i;

	if (argc > 1) {
		fprintf(stderr, "usage: %s < trial.json\n", argv[0]);
		return 2;
	}
	hello = record_new("hello");
	json_object_set_new(hello, "probe", json_string(PROBE_NAME));
	json_object_set_new(hello, "version", json_string(UTHREAD_VERSION));
	json_object_set_new(hello, "pid", json_integer(getpid()));
	record_print(hello);

	trial = trial_read();
	name = trial_string(trial, "probe");
	for (i = 0; i < sizeof(probes) / sizeof(probes[0]); i++) {
		if (strcmp(name, probes[i].name))
			continue;
		probes[i].run(trial);
		json_decref(trial);
		return 0;
	}
	for (i = 0; i < sizeof(probes) / sizeof(probes[0]); i++) {
		strncat(known, i ? ", " : "",
			sizeof(known) - strlen(known) - 1);
		strncat(known, probes[i].name,
			sizeof(known) - strlen(known) - 1);
	}
	probe_fail(22, "probe", "unknown probe '%.60s'; one of %s", name,
		   known);
}
