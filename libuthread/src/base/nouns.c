/* SPDX-License-Identifier: Apache-2.0 */
/* nouns.c - the runtime's two variables that everybody knows. */
#include "base/nouns.h"

struct runtime rt = { .kept = UINT64_MAX, .few = WORKERS_FEW };
struct uthread main_uthread;
uintptr_t main_tp;

AT_START static void remember_main(void)
{
	main_tp = arch_tp();
}

__thread struct here uthread_here
	__attribute__((tls_model("initial-exec"), visibility("hidden")));

void (*region_posts)(void);
void (*region_wakes)(void);

/* Before the runtime has started: plain pthreads have semaphores, too. */
static void only_posts(void)
{
	store_relaxed(&here_now()->pending, 0);
	if (region_posts)
		region_posts();
	if (region_wakes)
		region_wakes();
}

void (*region_pending)(void) = only_posts;
