/* SPDX-License-Identifier: Apache-2.0 */
/* One program in the guest: started, bounded, its output kept. See run.c. */
#ifndef SWTCH_GUEST_RUN_H
#define SWTCH_GUEST_RUN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define RUN_OUTPUT_MAX (4 << 20)
#define RUN_STDERR_TAIL 16384

struct run {
	long id; /* the request's; 0: none yet */
	pid_t pid; /* 0: not running */
	int in, out, err;
	int64_t deadline_ns;
	int64_t started_ns;
	int64_t elapsed_ns;
	uint64_t interrupts;
	uint64_t steal_ticks;
	int status; /* exit status, or -1 */
	int signal;
	bool timed_out;
	const char *failed; /* the step that failed at the start */
	int failed_errno;
};

/*
 * Starts what the request @json says: argv (NUL-separated, base64), stdin
 * (base64) or stdin_file, pad (size of SWTCH_PAD), timeout_ms. When it cannot,
 * the run is over at once and `failed` says why.
 */
void run_start(struct run *run, const char *json);

/* After SIGCHLD: reaps; true when the program itself has ended. */
bool run_reap(struct run *run);

/* Ends the program and everything it left behind. */
void run_kill(struct run *run);

/* Sends output and outcome of a run that is over. May be called again. */
void run_report(const struct run *run, int line);

int64_t run_now_ns(void);

#endif
