/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * JSON, written in one place (json.c).
 */
#ifndef KTHREAD_PERF_JSON_H
#define KTHREAD_PERF_JSON_H

#include <linux/types.h>

struct seq_file;

/**
 * struct kperf_json - where JSON goes, and whether a comma comes first
 * @m:		the file
 * @more:	the object or list that is open has something in it
 */
struct kperf_json {
	struct seq_file *m;
	bool more;
};

void kperf_json_open(struct kperf_json *j, const char *key, char bracket);
void kperf_json_close(struct kperf_json *j, char bracket);
void kperf_json_line(struct kperf_json *j, const char *kind);
void kperf_json_u64(struct kperf_json *j, const char *key, u64 value);
void kperf_json_s64(struct kperf_json *j, const char *key, s64 value);
void kperf_json_bool(struct kperf_json *j, const char *key, bool value);
void kperf_json_null(struct kperf_json *j, const char *key);
void kperf_json_text(struct kperf_json *j, const char *key, const char *words);
void kperf_json_digest(struct kperf_json *j, const char *key, u32 value);
void kperf_json_part(struct kperf_json *j, const char *of, const char *key,
		     u64 value);
void kperf_json_checked(struct kperf_json *j, const char *key, int key_size,
			const char *value, int value_size);

#endif
