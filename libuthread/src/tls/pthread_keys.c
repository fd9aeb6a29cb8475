/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pthread_keys.c - thread-specific data of libraries: values of pthread keys,
 * and of C11's tss_t, which is one.
 *
 * Destructors are read from glibc's own table when a uthread ends, as glibc
 * does at the end of a pthread, so all keys are known, by whomever and whenever
 * they were made. The table is exported for debuggers, with its layout, and
 * is proved on a key before it is used.
 *
 * Rejected: remember destructors in a pthread_key_create() of our own, which
 * libc's tss_create() does not call, nor who was bound to libc's before us.
 */
#include <string.h>

#include "tls/tls.h"

/* A value in a block of SPECIFIC_LEVEL2, and a key in the table. `seq` is odd
 * while the key exists. */
struct key_value {
	uintptr_t seq;
	void *value;
};

struct key_entry {
	uintptr_t seq;
	void (*destructor)(void *);
};

static const struct key_entry *table;

static inline struct key_value *values(char *pd, size_t i)
{
	return ((struct key_value **)(pd + tls_layout.specific_off))[i];
}

static inline char *used(char *pd)
{
	return pd + tls_layout.specific_off + SPECIFIC_USED;
}

/* As in glibc the flag says whether a value was set. */
void pthread_keys_round(char *pd)
{
	void (*destructor)(void *);
	struct key_value *v;
	uintptr_t seq;
	void *value;
	size_t i, j;

	*used(pd) = 0;
	for (i = 0; i < SPECIFIC_LEVEL1; i++) {
		v = values(pd, i);
		for (j = 0; v && j < SPECIFIC_LEVEL2; j++) {
			const struct key_entry *key =
				&table[i * SPECIFIC_LEVEL2 + j];

			value = v[j].value;
			if (!value)
				continue;
			v[j].value = NULL;
			seq = load_acquire(&key->seq);
			destructor = load_relaxed(&key->destructor);
			if (seq == v[j].seq && destructor)
				destructor(value);
		}
	}
}

void pthread_keys_drop(char *pd)
{
	struct key_value *v;
	size_t i;

	for (i = 0; i < SPECIFIC_LEVEL1; i++) {
		v = values(pd, i);
		if (v)
			memset(v, 0, SPECIFIC_LEVEL2 * sizeof(*v));
	}
	*used(pd) = 0;
}

/* ---- finding and proving the table ---- */

static void no_destructor(void *value)
{
	(void)value;
}

/* Is a new key with this value where we look for it? */
static bool is_there(char *pd, pthread_key_t key, const void *value)
{
	const struct key_value *v = values(pd, key / SPECIFIC_LEVEL2);

	if (!v)
		return false;
	v += key % SPECIFIC_LEVEL2;
	return *used(pd) == 1 && v->value == value && v->seq & 1 &&
	       table[key].seq == v->seq &&
	       table[key].destructor == no_destructor;
}

const char *pthread_keys_setup(char *pd)
{
	const uint32_t *size, *array;
	size_t seq_off, destr_off;
	uintptr_t seq;
	pthread_key_t key;
	char before = *used(pd);
	bool good;

	table = tls_symbol("__pthread_keys");
	array = tls_symbol("_thread_db___pthread_keys");
	size = tls_symbol("_thread_db_sizeof_pthread_key_struct");
	if (!table || !array || !size ||
	    !tls_db_field("_thread_db_pthread_key_struct_seq", &seq_off) ||
	    !tls_db_field("_thread_db_pthread_key_struct_destr", &destr_off))
		return "this glibc lacks the symbols needed";
	if (*size != sizeof(*table) ||
	    array[1] != SPECIFIC_LEVEL1 * SPECIFIC_LEVEL2 ||
	    seq_off != offsetof(struct key_entry, seq) ||
	    destr_off != offsetof(struct key_entry, destructor))
		return "the table of pthread keys is not where it should be";
	/* None is left, or no memory: the symbols must do. */
	if (pthread_key_create(&key, no_destructor))
		return NULL;
	good = pthread_setspecific(key, &key) || is_there(pd, key, &key);
	pthread_setspecific(key, NULL);
	seq = table[key].seq;
	pthread_key_delete(key);
	*used(pd) = before;
	if (!good || table[key].seq == seq)
		return "the table of pthread keys is not where it should be";
	return NULL;
}
