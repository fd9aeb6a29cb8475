/* SPDX-License-Identifier: Apache-2.0 */
/* asleep.h - who a tick finds asleep in the kernel. All from the tick's handler. */
#ifndef UTHREAD_PREEMPT_ASLEEP_H
#define UTHREAD_PREEMPT_ASLEEP_H

#include <ucontext.h>

#include "base/nouns.h"
#include "preempt/decide.h"

/* Behind a call of the kernel or in libc. True: a spare stands in. False: f->asleep says
 * whether it was found asleep all the same. */
bool asleep_stands_in(struct found *f, struct worker *w,
		      const struct uthread *me, ucontext_t *uc);

/* A call that this tick found asleep for nobody is begun anew. */
void asleep_goes_on(const struct here *h, ucontext_t *uc);

#endif
