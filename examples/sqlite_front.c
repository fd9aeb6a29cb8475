/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sqlite-front PORT FILE: notes in an SQLite database, over HTTP on 127.0.0.1.
 *
 *     POST /notes      the body is a new note; replies with its number
 *     GET /notes       how many there are
 *     GET /notes/N     one of them
 *
 * Behind http.c and server.c, a uthread a request; here is how to live with a
 * library that knows nothing of uthreads:
 *
 * - Its locks are pthread mutexes, in which a uthread holds its worker. So few use
 *   it at once: the connections to the database are in channels, one for writing, as
 *   SQLite has one writer, and a few for reading. Who has a request takes one, and
 *   puts it back; hundreds wait in the channel, for free.
 * - Another process writes: SQLite asks what to do (the busy handler), and the
 *   answer is a sleep of the uthread, not of its worker.
 * - It must not be left in the middle of a call: no cancellation in there. The reply,
 *   where a slow client is waited for, comes when the connection is back.
 */
#include <err.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uthread.h>

#include "http.h"

#define READERS 3
#define BUSY_NS 1000000
#define BUSY_MOST 10000 /* times that: 10 s */

static uthread_chan_t readers, writer; /* of sqlite3 * */

static int on_busy(void *unused, int times)
{
	(void)unused;
	uthread_sleep(BUSY_NS);
	return times < BUSY_MOST;
}

static sqlite3 *open_handle(const char *file)
{
	sqlite3 *db;
	char *why = NULL;

	if (sqlite3_open(file, &db))
		errx(1, "%s: %s", file, sqlite3_errmsg(db));
	sqlite3_busy_handler(db, on_busy, NULL);
	if (sqlite3_exec(db,
			 "PRAGMA journal_mode = WAL;"
			 "CREATE TABLE IF NOT EXISTS notes"
			 "(id INTEGER PRIMARY KEY, text BLOB NOT NULL)",
			 NULL, NULL, &why))
		errx(1, "%s: %s", file, why);
	return db;
}

/* Run a statement with ?1 the number, and ?2 the body: SQLite's result. *text: the
 * first column of its first row, which the caller frees. */
static int query(sqlite3 *db, const char *sql, struct conn *c, long long id,
		 char **text, int *length)
{
	sqlite3_stmt *s = NULL;
	int result = sqlite3_prepare_v2(db, sql, -1, &s, NULL);

	if (!result) {
		sqlite3_bind_int64(s, 1, id);
		sqlite3_bind_blob(s, 2, c->length ? c->body : "",
				  (int)c->length, SQLITE_STATIC);
		result = sqlite3_step(s);
	}
	if (result == SQLITE_ROW) {
		*length = sqlite3_column_bytes(s, 0);
		*text = malloc((size_t)*length + 1);
		if (*text && *length)
			memcpy(*text, sqlite3_column_blob(s, 0),
			       (size_t)*length);
		if (sqlite3_step(s) != SQLITE_DONE) /* so that it counts */
			result = SQLITE_ERROR;
	}
	sqlite3_finalize(s);
	return result;
}

static bool answer(struct conn *c)
{
	const char *sql, *status = "200 OK";
	char *text = NULL, *end = c->path;
	int length = 0, result, old;
	uthread_chan_t handles = readers;
	long long id = 0;
	sqlite3 *db;
	bool good;

	if (!strcmp(c->path, "/notes") && !strcmp(c->method, "POST")) {
		sql = "INSERT INTO notes(text) SELECT ?2 WHERE ?1 = 0 "
		      "RETURNING CAST(id AS TEXT)";
		status = "201 Created";
		handles = writer;
	} else if (!strcmp(c->path, "/notes") && !strcmp(c->method, "GET")) {
		sql = "SELECT CAST(count(*) AS TEXT) FROM notes";
	} else if (!strncmp(c->path, "/notes/", 7) &&
		   !strcmp(c->method, "GET")) {
		sql = "SELECT text FROM notes WHERE id = ?1";
		id = strtoll(c->path + 7, &end, 10);
		if (*end || end == c->path + 7)
			return http_reply(c, "404 Not Found", 0, NULL);
	} else {
		return http_reply(c, "405 Method Not Allowed", 0, NULL);
	}
	uthread_setcancelstate(UTHREAD_CANCEL_DISABLE, &old);
	uthread_chan_recv(handles, &db);
	result = query(db, sql, c, id, &text, &length);
	uthread_chan_send(handles, &db);
	if (result == SQLITE_DONE)
		good = http_reply(c, "404 Not Found", 0, NULL);
	else if (result != SQLITE_ROW || !text)
		good = http_reply(c, "503 Service Unavailable", 0, NULL);
	else
		good = http_reply(c, status, length, text);
	free(text);
	uthread_setcancelstate(old, NULL);
	return good;
}

int main(int argc, char **argv)
{
	uthread_chan_t handles;
	sqlite3 *db;
	int status;

	if (argc != 3)
		errx(2, "usage: sqlite-front PORT FILE");
	if (uthread_chan_create(&readers, sizeof(db), READERS) ||
	    uthread_chan_create(&writer, sizeof(db), 1))
		errx(1, "no memory");
	for (int i = 0; i <= READERS; i++) {
		db = open_handle(argv[2]);
		uthread_chan_send(i ? readers : writer, &db);
	}
	status = server_run(argv[1], answer);
	for (int i = 0; i <= READERS; i++) {
		handles = i ? readers : writer;
		uthread_chan_recv(handles, &db);
		sqlite3_close(db);
	}
	uthread_chan_destroy(readers);
	uthread_chan_destroy(writer);
	return status;
}
