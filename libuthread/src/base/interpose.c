/* SPDX-License-Identifier: Apache-2.0 */
/* interpose.c - the essay is in interpose.h. */
#include "base/interpose.h"

#include <stddef.h>
#include <unistd.h>

#include "base/nouns.h"
#include "base/spin.h"

/* By the linker; none if no such function is linked in. */
extern struct next_one __start_uthread_next[]
	__attribute__((weak, visibility("hidden")));
extern struct next_one __stop_uthread_next[]
	__attribute__((weak, visibility("hidden")));

AT_START static void look(void)
{
	struct next_one *n;
	bool found = &__start_uthread_next[0] == &__stop_uthread_next[0];

	for (n = __start_uthread_next; n < __stop_uthread_next; n++) {
		*n->var = dlsym(RTLD_NEXT, n->name);
		found = found || *n->var;
	}
	/* It would crash in the first of them that is called, as abort() does. */
	if (!found) {
		ut_warn("a program that is wholly static is not supported: link it without -static");
		_exit(127); /* as the loader does that cannot begin a program */
	}
}
