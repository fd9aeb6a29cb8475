// SPDX-License-Identifier: Apache-2.0
/*
 * dist.c - a distribution of one invocation: kept whole, told by quantiles.
 *
 * A quantile is a value that occurred, the first one that at least a share p
 * of all are not above. Rejected: a histogram (its buckets decide what a tail
 * looks like), all values in the sample (a megabyte each).
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "measure/measure.h"

void dist_init(struct dist *d, size_t max)
{
	d->n = d->lost = 0;
	d->max = max;
	d->v = malloc(max * sizeof(*d->v));
	if (!d->v)
		probe_fail(ENOMEM, "samples", "no memory for %zu values", max);
	/* Page faults of its own would be measured. */
	memset(d->v, 0, max * sizeof(*d->v));
}

void dist_merge(struct dist *d, const struct dist *from)
{
	size_t i;

	for (i = 0; i < from->n; i++)
		dist_add(d, from->v[i]);
	d->lost += from->lost;
}

static int ascending(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

static int64_t at(const struct dist *d, double p)
{
	double rank = p * (double)d->n;
	size_t i = (size_t)rank;

	if ((double)i == rank && i)
		i--;
	return d->v[i < d->n ? i : d->n - 1];
}

int64_t dist_quantile(struct dist *d, double p)
{
	if (!d->n)
		return 0;
	qsort(d->v, d->n, sizeof(*d->v), ascending);
	return at(d, p);
}

static void set(json_t *o, const char *name, const char *suffix, int64_t value)
{
	char key[64];

	snprintf(key, sizeof(key), "%s_%s", name, suffix);
	json_object_set_new(o, key, json_integer(value));
}

void dist_record(json_t *o, const char *name, struct dist *d)
{
	static const double shares[] = {
		0,   0.01, 0.02, 0.05, 0.1,  0.15, 0.2,	  0.25,	 0.3,	0.35,
		0.4, 0.45, 0.5,	 0.55, 0.6,  0.65, 0.7,	  0.75,	 0.8,	0.85,
		0.9, 0.93, 0.95, 0.97, 0.98, 0.99, 0.995, 0.998, 0.999, 1,
	};
	char key[64];
	json_t *list;
	size_t i;

	set(o, name, "n", (int64_t)(d->n + d->lost));
	if (!d->n)
		return;
	qsort(d->v, d->n, sizeof(*d->v), ascending);
	set(o, name, "p10_ns", at(d, 0.1));
	set(o, name, "p50_ns", at(d, 0.5));
	set(o, name, "p90_ns", at(d, 0.9));
	set(o, name, "p99_ns", at(d, 0.99));
	set(o, name, "p999_ns", at(d, 0.999));
	set(o, name, "max_ns", d->v[d->n - 1]);
	list = json_array();
	for (i = 0; i < sizeof(shares) / sizeof(shares[0]); i++)
		json_array_append_new(list,
				      json_pack("[f, I]", shares[i],
						(json_int_t)at(d, shares[i])));
	snprintf(key, sizeof(key), "%s_quantiles", name);
	json_object_set_new(o, key, list);
}

void dist_record_each(json_t *o, const char *name, struct dist *d, int64_t per)
{
	static const struct {
		const char *suffix;
		double share;
	} told[] = {
		{ "p10_ns", 0.1 },
		{ "p50_ns", 0.5 },
		{ "p90_ns", 0.9 },
		{ "p99_ns", 0.99 },
	};
	char key[64];
	size_t i;

	for (i = 0; i < sizeof(told) / sizeof(told[0]); i++) {
		snprintf(key, sizeof(key), "%s_%s", name, told[i].suffix);
		json_object_set_new(
			o, key,
			json_real((double)dist_quantile(d, told[i].share) /
				  (double)per));
	}
}
