/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coroutine_backend.c - the two ways to exchange coroutine contexts.
 *
 * asm: the switch that uthreads use (context.h). All contexts carry TLS base
 * 0, so the thread pointer is never exchanged.
 *
 * ucontext: swapcontext(3), which also saves the signal mask with two system
 * calls a switch. It is kept for comparison: study 000 is built on it.
 */
#include <stdint.h>
#include <stdlib.h>

#include "coroutine/internal.h"
#include "base/san.h"

/* ---- asm ---- */

static int asm_make(struct co_context *ctx, char *low, size_t bytes,
		    coroutine_t *co)
{
	context_make(&ctx->asm_ctx, low + bytes, co_main, co);
	ctx->asm_ctx.tp = 0;
	return 0;
}

static int asm_adopt(struct co_context *ctx)
{
	ctx->asm_ctx.tp = 0;
	ctx->asm_ctx.busy = 1;
	return 0;
}

static void asm_swap(struct co_context *from, struct co_context *to)
{
	to->asm_ctx.busy = 1;
	context_switch(&from->asm_ctx, &to->asm_ctx);
}

static void asm_drop(struct co_context *ctx)
{
	(void)ctx;
}

const struct co_backend co_backend_asm = {
	.make = asm_make,
	.adopt = asm_adopt,
	.swap = asm_swap,
	.drop = asm_drop,
};

/* ---- ucontext ---- */

/* makecontext() passes ints, so the pointer travels in two halves. */
static void uc_start(unsigned high, unsigned low)
{
	co_main((void *)(((uintptr_t)high << 32) | low));
}

static int uc_adopt(struct co_context *ctx)
{
	if (!ctx->uc)
		ctx->uc = malloc(sizeof(*ctx->uc));
	return ctx->uc ? 0 : ENOMEM;
}

static int uc_make(struct co_context *ctx, char *low, size_t bytes,
		   coroutine_t *co)
{
	uintptr_t p = (uintptr_t)co;

	if (uc_adopt(ctx))
		return ENOMEM;
	if (getcontext(ctx->uc))
		return errno;
	ctx->uc->uc_stack.ss_sp = low;
	ctx->uc->uc_stack.ss_size = bytes;
	ctx->uc->uc_link = NULL; /* co_main() never returns */
	makecontext(ctx->uc, (void (*)(void))uc_start, 2, (unsigned)(p >> 32),
		    (unsigned)p);
	return 0;
}

static void uc_swap(struct co_context *from, struct co_context *to)
{
	swapcontext(from->uc, to->uc);
}

static void uc_drop(struct co_context *ctx)
{
	free(ctx->uc);
	ctx->uc = NULL;
}

const struct co_backend co_backend_ucontext = {
	.make = uc_make,
	.adopt = uc_adopt,
	.swap = uc_swap,
	.drop = uc_drop,
};
