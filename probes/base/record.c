// SPDX-License-Identifier: Apache-2.0
/* record.c - printing records, one line each. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/base.h"

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

void record_end(void)
{
	json_t *r = record_new("end");

	json_object_set_new(r, "samples", json_integer(1));
	record_print(r);
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
