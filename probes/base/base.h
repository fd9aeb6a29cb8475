/* SPDX-License-Identifier: Apache-2.0 */
/*
 * base.h - what every probe begins and ends with: the trial that was read,
 * records that are printed, the CPUs and the policy, limits.
 *
 * The protocol is in docs/architecture.md. Everything a trial needs is
 * allocated before it starts; results are printed after it has ended.
 */
#ifndef SWTCH_PROBE_BASE_H
#define SWTCH_PROBE_BASE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#define PROBE_SCHEMA 1
#define PROBE_NAME "swtch-probe"

/* ---- records (record.c) ---- */

/* Print one record as one line, flushed; the reference is taken. */
void record_print(json_t *record);
/* {"kind":kind, "schema":1} */
json_t *record_new(const char *kind);
/* The last one: there was one sample. */
void record_end(void);
/* Print the error record and end with status 2. */
__attribute__((noreturn, format(printf, 3, 4))) void
probe_fail(int err, const char *where, const char *fmt, ...);

/* ---- reading a trial (trial.c): each ends the probe when it is wrong ---- */

json_t *trial_read(void);
const char *trial_string(json_t *trial, const char *field);
/* One of the NULL-ended names; its position. */
int trial_choice(json_t *trial, const char *field, const char *const *names);
int64_t trial_int(json_t *trial, const char *field, int64_t min, int64_t max);
/* As trial_int, but `missing` when the field is not there. */
int64_t trial_int_or(json_t *trial, const char *field, int64_t min, int64_t max,
		     int64_t missing);
/* An array of integers; *n of them, malloced. */
int64_t *trial_ints(json_t *trial, const char *field, size_t *n, size_t max_n,
		    int64_t min, int64_t max);

/* ---- CPUs and the policy (cpus.c) ---- */

/* The field cpus, malloced; each must be allowed to this process. */
int *trial_cpus(json_t *trial, int *ncpus);
/* The caller, and threads it makes later, only on these. */
void confine_to(const int *cpus, int ncpus);
/* Put the calling kernel thread on one CPU; false: cannot. */
bool pin_to(int cpu);

enum policy { POLICY_OTHER, POLICY_BATCH, POLICY_FIFO };

extern const char *const policy_names[];
/* Set the policy of the process, threads made later inherit it; ends the
 * probe when it is refused. */
void policy_set(enum policy policy);

/*
 * Timers of the calling kernel thread, and of all that it makes later, come at most
 * 1 ns late by the kernel's wish to save wake-ups (50 us by default): called before
 * any thread is made, it holds for every model, workers included.
 */
void timers_exact(void);
/* The slack of the calling kernel thread's timers, in ns. */
int64_t timer_slack(void);

/* ---- limits (limits.c) ---- */

/* Ends the probe when four fifths of the free memory do not hold n times
 * `each` bytes: a clear line instead of the kernel's killer. */
void need_memory(int64_t n, int64_t each, const char *what);
/* Ends the probe: thread number `made` of `n` could not be made, and which
 * limits there are. */
__attribute__((noreturn)) void no_more_threads(const char *model, int64_t made,
					       int64_t n, int err);
/* Kernel threads of this process. */
int64_t kernel_threads(void);

#endif
