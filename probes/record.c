// SPDX-License-Identifier: Apache-2.0
/* record.c - printing records, one line each. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "probe.h"

json_t *record_new(const char *kind)
{
	json_t *r = json_object();

	if (!r)
		abort();
	json_object_set_new(r, "kind", json_string(kind));
	json_object_set_new(r, "schema", json_integer(PROBE_SCHEMA));
	return r;
}

void record_print(json_t *record)
{
	if (json_dumpf(record, stdout, JSON_COMPACT) || putchar('\n') == EOF ||
	    fflush(stdout)) {
		perror(PROBE_NAME ": standard output");
		exit(1);
	}
	json_decref(record);
}

static void set_usage(json_t *o, const struct usage *u)
{
	json_object_set_new(o, "nvcsw", json_integer(u->nvcsw));
	json_object_set_new(o, "nivcsw", json_integer(u->nivcsw));
	json_object_set_new(o, "utime_ns", json_integer(u->utime_ns));
	json_object_set_new(o, "stime_ns", json_integer(u->stime_ns));
	json_object_set_new(o, "cpu_ns", json_integer(u->cpu_ns));
}

json_t *record_thread(int index, const struct thread_result *t)
{
	json_t *o = json_object();

	json_object_set_new(o, "index", json_integer(index));
	json_object_set_new(o, "pid", json_integer(t->pid));
	json_object_set_new(o, "tid", json_integer(t->tid));
	json_object_set_new(o, "cpu", json_integer(t->cpu));
	json_object_set_new(o, "cpu_end", json_integer(t->cpu_end));
	json_object_set_new(o, "start_ns", json_integer(t->start_ns));
	json_object_set_new(o, "end_ns", json_integer(t->end_ns));
	if (t->has_usage)
		set_usage(o, &t->usage);
	return o;
}

json_t *record_carrier(int index, const struct carrier_result *c)
{
	json_t *o = json_object();

	json_object_set_new(o, "index", json_integer(index));
	json_object_set_new(o, "tid", json_integer(c->tid));
	json_object_set_new(o, "cpu", json_integer(c->cpu));
	set_usage(o, &c->usage);
	return o;
}

void probe_fail(int err, const char *where, const char *fmt, ...)
{
	json_t *r = record_new("error");
	char what[256];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(what, sizeof(what), fmt, ap);
	va_end(ap);
	json_object_set_new(r, "errno", json_integer(err));
	json_object_set_new(r, "where", json_string(where));
	/* A hostile field may hold half a character. */
	json_object_set_new(r, "what",
			    json_string(what) ?: json_string("not UTF-8"));
	record_print(r);
	exit(2);
}
