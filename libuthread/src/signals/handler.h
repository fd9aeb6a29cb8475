/* SPDX-License-Identifier: Apache-2.0 */
/*
 * handler.h - what the two ways share in which a handler of the program's is called: by the
 * kernel (handler.c), and as a function at the end of a region (kept.c). Within signals/.
 */
#ifndef UTHREAD_HANDLER_H
#define UTHREAD_HANDLER_H

#include "sched/sched.h"
#include "signals/signals.h"

#ifndef SS_AUTODISARM
#define SS_AUTODISARM (1u << 31) /* Linux 4.7; libc does not say it */
#endif

typedef void handler_fn(int sig, siginfo_t *si, void *uc);

static inline bool is_within(const void *p, const void *low, size_t size)
{
	return (uintptr_t)p - (uintptr_t)low < size;
}

static inline handler_fn *handler_function(const struct action *a)
{
	return *(handler_fn *const *)&a->handler;
}

/* What a handler has blocked where the mask was `mask`. */
static inline uint64_t handler_mask(const struct action *a, int sig,
				    uint64_t mask)
{
	return mask | a->mask | (a->flags & SA_NODEFER ? 0 : KSIG_BIT(sig));
}

/* What it calls now. False: that only passes it on, to who is to handle it. */
bool handler_take(int sig, const siginfo_t *si, struct action *a);
/* It was a handler's when the signal came, and is not any more; or its default action
 * was held. */
bool handler_is_gone(const struct action *a, int sig);

/* Is a handler to hear of a stack that overflows there? In the runtime's own code nobody's
 * runs: it may jump. */
bool handler_awaits_overflow(int sig, const void *uc);

/* In `ss_flags`: a handler runs, and SS_AUTODISARM says that there is none meanwhile. What
 * lies there is known all the same: frames are looked for there, and ticks come. */
#define ALT_DISARMED (1 << 30)

/* As the program is told of it. */
static inline stack_t alt_said(const struct uthread *me)
{
	if (me->alt.ss_size && !(me->alt.ss_flags & ALT_DISARMED))
		return me->alt;
	return (stack_t){ .ss_flags = SS_DISABLE };
}

/* A handler begins; where it ends, what there was comes back, as by the kernel. */
static inline stack_t alt_disarm(struct uthread *me)
{
	const stack_t was = me->alt;

	if (was.ss_flags & (int)SS_AUTODISARM)
		me->alt.ss_flags |= ALT_DISARMED;
	return was;
}

/* Where a uthread is that a handler interrupts, at `sp`. */
struct interrupted {
	uintptr_t sp, lookup_sp; /* the latter an outer handler's */
	struct call *call;
	bool looks_up, sure, taking, in_libc, sigwaits;
};

/* Before anything is looked up. */
struct interrupted handler_interrupts(struct uthread *me, uintptr_t sp);
/* `mask` comes back behind the outermost handler. */
void handler_mask_is_unsure(struct uthread *me, const struct interrupted *was,
			    uint64_t mask);
/* `handles`: it does not only pass it on. */
void handler_begins(struct uthread *me, const struct action *a, bool handles,
		    const struct interrupted *was);
/* Also of one that was gone. */
void handler_ends(struct uthread *me, const struct interrupted *was);

/* ---- kept.c ---- */
/* It came in a region: it waits for its end, as `whose`, or NULL: the process's. */
void kept_add(struct worker *w, struct here *h, int sig, const siginfo_t *si,
	      ucontext_t *uc, struct uthread *whose);
/* At the end of a region. */
void kept_run(void);
/* In the base context, where nothing is held. */
void kept_in_base(struct worker *w);

/* ---- kept_plain.c: in a plain pthread ---- */
/* It came in a region. False: it is to be handled at once. */
bool kept_plain_add(struct here *h, int sig, siginfo_t *si, ucontext_t *uc);
/* At the end of that. */
void kept_plain_end(void);

#endif
