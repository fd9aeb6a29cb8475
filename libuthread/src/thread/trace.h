/* SPDX-License-Identifier: Apache-2.0 */
/* trace.h - where everybody is: for this room. */
#ifndef UTHREAD_THREAD_TRACE_H
#define UTHREAD_THREAD_TRACE_H

#include "base/nouns.h"

#pragma GCC visibility push(hidden)

#define TRACE_FRAMES 48
#define TRACES_MAX 4096

enum trace_end {
	TRACE_WHOLE,
	TRACE_LONGER, /* there are more frames */
	TRACE_NEW, /* it has not begun */
	TRACE_UNKNOWN, /* it ran, and did not say where */
};

struct trace {
	const struct uthread *ut;
	enum trace_end end;
	int frames;
	/* Innermost first, each in the instruction that calls or is next. */
	uintptr_t pc[TRACE_FRAMES];
};

/* ---- trace.c ---- */
/* Once, before the first; on the thread that will ask for them. False: it cannot
 * be had. */
bool traces_setup(void);
/* Of all uthreads, which are stopped for it. The same memory each time; *n: how many;
 * `silent`: workers that did not stop. */
const struct trace *traces_take(int *n, int *silent);
/* In the child of a fork. */
void traces_forked(void);

/* ---- symbol.c ---- */
struct symbol {
	const char *file; /* NULL: unknown */
	uintptr_t offset; /* as addr2line(1) wants it */
	const char *name; /* NULL: the file tells none */
	uintptr_t beyond; /* it, in bytes */
};

void symbols_setup(void);
bool symbol_known(uintptr_t pc);
void symbol_of(uintptr_t pc, struct symbol *s);

/* ---- dump.c ---- */
/* uthread_dump(), with these. */
void dump_traces(int fd, const struct trace *traces, int n, int silent);

#pragma GCC visibility pop

#endif
