// SPDX-License-Identifier: Apache-2.0
/*
 * trial.c - reading a trial. Whatever is wrong with it ends the probe with
 * one line that names the field and what it may be.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"

json_t *trial_read(void)
{
	json_error_t e;
	json_t *t = json_loadf(stdin, JSON_REJECT_DUPLICATES, &e);
	int64_t schema;

	if (!t)
		probe_fail(EINVAL, "standard input",
			   "not a JSON trial: %s (line %d, column %d)", e.text,
			   e.line, e.column);
	if (!json_is_object(t))
		probe_fail(EINVAL, "standard input",
			   "a trial is one JSON object");
	schema = trial_int(t, "schema", 1, INT32_MAX);
	if (schema > PROBE_SCHEMA)
		probe_fail(EINVAL, "schema",
			   "this trial has schema %" PRId64
			   ", this probe reads up to %d; use a newer swtch",
			   schema, PROBE_SCHEMA);
	return t;
}

static json_t *field_of(json_t *trial, const char *field)
{
	json_t *v = json_object_get(trial, field);

	if (!v)
		probe_fail(EINVAL, field, "the trial has no %s", field);
	return v;
}

const char *trial_string(json_t *trial, const char *field)
{
	json_t *v = field_of(trial, field);

	if (!json_is_string(v))
		probe_fail(EINVAL, field, "%s is not a string", field);
	return json_string_value(v);
}

int trial_choice(json_t *trial, const char *field, const char *const *names)
{
	const char *s = trial_string(trial, field);
	char list[160] = "";
	int i;

	for (i = 0; names[i]; i++)
		if (!strcmp(s, names[i]))
			return i;
	for (i = 0; names[i]; i++) {
		strncat(list, i ? ", " : "", sizeof(list) - strlen(list) - 1);
		strncat(list, names[i], sizeof(list) - strlen(list) - 1);
	}
	probe_fail(EINVAL, field, "unknown %s '%.60s'; one of %s", field, s,
		   list);
}

static int64_t checked(json_t *v, const char *field, int64_t min, int64_t max)
{
	int64_t n;

	if (!json_is_integer(v))
		probe_fail(EINVAL, field, "%s is not a whole number", field);
	n = json_integer_value(v);
	if (n < min || n > max)
		probe_fail(EINVAL, field,
			   "%s is %" PRId64 ", not from %" PRId64
			   " to %" PRId64,
			   field, n, min, max);
	return n;
}

int64_t trial_int(json_t *trial, const char *field, int64_t min, int64_t max)
{
	return checked(field_of(trial, field), field, min, max);
}

int64_t trial_int_or(json_t *trial, const char *field, int64_t min, int64_t max,
		     int64_t missing)
{
	json_t *v = json_object_get(trial, field);

	return v ? checked(v, field, min, max) : missing;
}

int64_t *trial_ints(json_t *trial, const char *field, size_t *n, size_t max_n,
		    int64_t min, int64_t max)
{
	json_t *v = field_of(trial, field);
	int64_t *out;
	size_t i;

	if (!json_is_array(v) || !json_array_size(v) ||
	    json_array_size(v) > max_n)
		probe_fail(EINVAL, field,
			   "%s is not a list of 1 to %zu numbers", field,
			   max_n);
	*n = json_array_size(v);
	out = calloc(*n, sizeof(*out));
	if (!out)
		probe_fail(ENOMEM, field, "no memory");
	for (i = 0; i < *n; i++)
		out[i] = checked(json_array_get(v, i), field, min, max);
	return out;
}
