/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sqlite_threads.c THREADS TOTAL: threads insert TOTAL rows into one table in memory
 * and read them back, by one connection in SQLite's serialized mode: its mutex is what
 * they wait for. For `uthread-run`; it checks what it has done, exit status 1: wrong.
 */
#include <pthread.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>

static sqlite3 *db;
static long each;
static int wrong; /* atomic */

static void check(int good)
{
	if (!good)
		__atomic_store_n(&wrong, 1, __ATOMIC_RELAXED);
}

static void *run(void *arg)
{
	const long me = (long)arg;
	sqlite3_stmt *put, *get;
	long i;

	check(sqlite3_prepare_v2(db, "insert into t values (?, ?)", -1, &put,
				 NULL) == SQLITE_OK);
	check(sqlite3_prepare_v2(db, "select value from t where key = ?", -1,
				 &get, NULL) == SQLITE_OK);
	for (i = me * each; i < (me + 1) * each; i++) {
		sqlite3_bind_int64(put, 1, i);
		sqlite3_bind_int64(put, 2, 3 * i);
		check(sqlite3_step(put) == SQLITE_DONE);
		sqlite3_reset(put);
		sqlite3_bind_int64(get, 1, i);
		check(sqlite3_step(get) == SQLITE_ROW &&
		      sqlite3_column_int64(get, 0) == 3 * i);
		sqlite3_reset(get);
	}
	sqlite3_finalize(put);
	sqlite3_finalize(get);
	return NULL;
}

static long number(const char *query)
{
	sqlite3_stmt *get;
	long value = -1;

	if (sqlite3_prepare_v2(db, query, -1, &get, NULL) == SQLITE_OK &&
	    sqlite3_step(get) == SQLITE_ROW)
		value = (long)sqlite3_column_int64(get, 0);
	sqlite3_finalize(get);
	return value;
}

int main(int argc, char *argv[])
{
	const long n = argc > 1 ? atol(argv[1]) : 200;
	const long total = argc > 2 ? atol(argv[2]) : 100000;
	pthread_t *thread;
	long i;

	if (n < 1 || total < n) {
		fprintf(stderr, "usage: sqlite_threads THREADS TOTAL\n");
		return 2;
	}
	each = total / n;
	thread = calloc((size_t)n, sizeof(*thread));
	if (!thread ||
	    sqlite3_open_v2(":memory:", &db,
			    SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE |
				    SQLITE_OPEN_FULLMUTEX,
			    NULL) != SQLITE_OK)
		return 1;
	check(sqlite3_exec(db,
			   "create table t (key integer primary key, value)",
			   NULL, NULL, NULL) == SQLITE_OK);
	for (i = 0; i < n; i++)
		if (pthread_create(&thread[i], NULL, run, (void *)i))
			return 1;
	for (i = 0; i < n; i++)
		pthread_join(thread[i], NULL);
	check(number("select count(*) from t") == each * n);
	check(number("select count(*) from t where value != 3 * key") == 0);
	sqlite3_close(db);
	free(thread);
	return wrong;
}
