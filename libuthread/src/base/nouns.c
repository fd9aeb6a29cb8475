/* SPDX-License-Identifier: Apache-2.0 */
/* nouns.c - the runtime's two variables that everybody knows. */
#include "base/nouns.h"

struct runtime rt;
struct uthread main_uthread;
uintptr_t main_tp;

__attribute__((constructor)) static void remember_main(void)
{
	main_tp = arch_tp();
}

__thread struct here uthread_here
	__attribute__((tls_model("initial-exec"), visibility("hidden")));

static void nothing(void)
{
}

void (*region_pending)(void) = nothing;
