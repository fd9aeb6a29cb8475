/* SPDX-License-Identifier: Apache-2.0 */
/*
 * faults.h - every call by which the runtime asks for something can fail.
 *
 * The library under test is the one of the release, linked into one object in
 * which the names of these calls are replaced (faulty.sh): the release pays
 * nothing, the test's own calls are not touched, and libc's inner ones
 * neither, but for _dl_allocate_tls(), which the runtime looks up. What a
 * kernel with no memory, a full table of processes or timers, an old kernel
 * or a seccomp filter would say is said by faults.c instead.
 *
 * The calls are counted in the order they happen; the `at`-th fails, and if
 * `on` is set all later ones of its kind too. What the runtime holds (blocks,
 * mappings, timers, descriptors) is counted as well: what an error path forgot
 * is held at the end and was not in a run without failures.
 *
 * Rejected: LD_PRELOAD (the test's and libc's calls fail as well, and a
 * preloaded malloc is another malloc); a layer of function pointers inside the
 * library (every call would pay); the kernel's own fail-nth (needs a debug
 * kernel, and knows nothing of malloc).
 */
#ifndef UTHREAD_TEST_FAULTS_H
#define UTHREAD_TEST_FAULTS_H

#include <stdbool.h>
#include <stdint.h>

/* Shared by the one who chooses and the process that suffers. */
struct faults {
	uint32_t calls; /* so far */
	uint32_t at; /* 0: none */
	bool on; /* and all later ones of that kind */
	uint32_t failed; /* calls that did */
	const char *kind; /* what the first of them was; NULL: none failed */
	const char *site; /* where it was called from: address, */
};

extern struct faults *faults;

/* What the runtime has asked for and not given back, in this process. */
struct held {
	int64_t blocks, maps, timers, files;
};

struct held faults_held(void);

#endif
