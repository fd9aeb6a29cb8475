/* SPDX-License-Identifier: Apache-2.0 */
/* What a kernel keeps back from real-time threads. See limits.c. */
#ifndef SWTCH_GUEST_LIMITS_H
#define SWTCH_GUEST_LIMITS_H

#include <stddef.h>

#define LIMITS_CPUS 64

struct limit {
	int cpu; /* of whom it is, or -1 */
	char path[64], value[32];
};

struct limits {
	size_t n;
	struct limit each[1 + LIMITS_CPUS];
};

/* What is in force now, of the CPUs in a list "0,2", or of all (NULL). */
void limits_read(struct limits *l, const char *cpus);

/* Nothing of it is kept back any more. */
void limits_lift(const struct limits *l);

/* As it was read; writes only what is different. */
void limits_give_back(const struct limits *l);

#endif
