/* SPDX-License-Identifier: Apache-2.0 */
/* io_table.h - the faults of input and output that are tried (io_table.c). */
#ifndef UTHREAD_TEST_IO_TABLE_H
#define UTHREAD_TEST_IO_TABLE_H

#include <stdbool.h>

#include "io_calls.h"

#define ERRORS_MAX 26

struct io_row {
	enum io_call call;
	bool silent; /* the runtime has other ways: nobody is told */
	bool once; /* in a process: a new one for each fault */
	bool early; /* when the runtime starts */
	int errors[ERRORS_MAX]; /* or SHORT; 0: the end */
};

extern const struct io_row io_table[];
extern const int io_rows;
extern bool io_of_files; /* the scene's: EAGAIN of these may be seen */

int io_row_of(enum io_call call);
/* A call of ours said that error, so often in a row: ends the process if that is not
 * the fault, or oftener than it. */
void io_may_say(const char *what, int err, int often);

/* Until it is done. */
#define DONE(call)                                                 \
	({                                                         \
		long got_;                                         \
		int often_ = 0;                                    \
		while ((got_ = (long)(call)) < 0)                  \
			io_may_say(#call, test_errno(), ++often_); \
		got_;                                              \
	})

/* What cannot be done again. */
#define ONCE(call)                                          \
	do {                                                \
		if ((call) < 0)                             \
			io_may_say(#call, test_errno(), 1); \
	} while (0)

#endif
