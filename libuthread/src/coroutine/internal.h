/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coroutine_internal.h - what coroutine.c, its two back ends and its stacks
 * share.
 */
#ifndef COROUTINE_INTERNAL_H
#define COROUTINE_INTERNAL_H

#include <errno.h>
#include <stdbool.h>
#include <ucontext.h>

#include "base/context.h"
#include "coroutine.h"
#include "stack/stack.h"

/* Where execution can be: a coroutine, or whoever called into the scheduler. */
struct co_context {
	struct context asm_ctx;
	ucontext_t *uc; /* ucontext back end only; malloced */
	const void *stack_low; /* its stack, for ASan and ticks */
	size_t stack_bytes;
	void *san_fake;
};

/* A back end: one file each. */
struct co_backend {
	/* Prepare a context that runs co_main() on the stack. */
	int (*make)(struct co_context *ctx, char *low, size_t bytes,
		    coroutine_t *co);
	/* Prepare the context of a caller. */
	int (*adopt)(struct co_context *ctx);
	void (*swap)(struct co_context *from, struct co_context *to);
	void (*drop)(struct co_context *ctx);
};

extern const struct co_backend co_backend_asm, co_backend_ucontext;

/* First code of a coroutine, on its stack. Never returns. */
void co_main(void *co);

/* ---- stacks: coroutine_stack.c ---- */

struct co_stack {
	struct co_stack *next; /* in the pool */
	char *guard;
	char *low; /* lowest usable address, above the guard */
	size_t bytes; /* usable */
	uintptr_t valgrind; /* its number there */
	struct stack_other other;
};

/* NULL: no memory, or no guard to be had. */
struct co_stack *co_stack_new(size_t bytes);
void co_stack_free(struct co_stack *s);

#endif
