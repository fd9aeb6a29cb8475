// SPDX-License-Identifier: GPL-2.0-only
/*
 * JSON, written: every brace, comma and quote of this module's is put here.
 *
 * Nothing is escaped, because nothing is text from outside but what peer.c has checked
 * and hands over as it was written: keys and words are the module's own constants. A key
 * of NULL is an item of a list.
 */
#include <linux/seq_file.h>

#include "json.h"

static void kperf_json_key(struct kperf_json *j, const char *key)
{
	if (j->more)
		seq_putc(j->m, ',');
	j->more = true;
	if (key)
		seq_printf(j->m, "\"%s\":", key);
}

/**
 * kperf_json_open() - begin an object or a list
 * @j:		where to
 * @key:	its name, or NULL in a list and at the top
 * @bracket:	'{' or '['
 */
void kperf_json_open(struct kperf_json *j, const char *key, char bracket)
{
	kperf_json_key(j, key);
	seq_putc(j->m, bracket);
	j->more = false;
}

/**
 * kperf_json_close() - end it
 * @j:		where to
 * @bracket:	'}' or ']'
 */
void kperf_json_close(struct kperf_json *j, char bracket)
{
	seq_putc(j->m, bracket);
	j->more = true;
}

/**
 * kperf_json_line() - begin an object of the probe protocol
 * @j:		where to; nothing is open
 * @kind:	what it is
 */
void kperf_json_line(struct kperf_json *j, const char *kind)
{
	j->more = false;
	kperf_json_open(j, NULL, '{');
	kperf_json_text(j, "kind", kind);
	kperf_json_u64(j, "schema", 1);
}

/* A member each, of the type that the name says. */

void kperf_json_u64(struct kperf_json *j, const char *key, u64 value)
{
	kperf_json_key(j, key);
	seq_printf(j->m, "%llu", value);
}

void kperf_json_s64(struct kperf_json *j, const char *key, s64 value)
{
	kperf_json_key(j, key);
	seq_printf(j->m, "%lld", value);
}

void kperf_json_bool(struct kperf_json *j, const char *key, bool value)
{
	kperf_json_key(j, key);
	seq_puts(j->m, value ? "true" : "false");
}

void kperf_json_null(struct kperf_json *j, const char *key)
{
	kperf_json_key(j, key);
	seq_puts(j->m, "null");
}

void kperf_json_text(struct kperf_json *j, const char *key, const char *words)
{
	kperf_json_key(j, key);
	seq_printf(j->m, "\"%s\"", words);
}

void kperf_json_digest(struct kperf_json *j, const char *key, u32 value)
{
	kperf_json_key(j, key);
	seq_printf(j->m, "\"%08x\"", value);
}

/**
 * kperf_json_part() - a number with a name of two parts, `of_key`
 * @j:		where to
 * @of:		the first part
 * @key:	the second
 * @value:	the number
 */
void kperf_json_part(struct kperf_json *j, const char *of, const char *key,
		     u64 value)
{
	kperf_json_key(j, NULL);
	seq_printf(j->m, "\"%s_%s\":%llu", of, key, value);
}

/**
 * kperf_json_checked() - a member that is JSON already
 * @j:		where to
 * @key:	its name, without quotes
 * @key_size:	bytes of that
 * @value:	a number, or a string with its quotes
 * @value_size:	bytes of that
 */
void kperf_json_checked(struct kperf_json *j, const char *key, int key_size,
			const char *value, int value_size)
{
	kperf_json_key(j, NULL);
	seq_printf(j->m, "\"%.*s\":%.*s", key_size, key, value_size, value);
}
