/* SPDX-License-Identifier: Apache-2.0 */
/* text_end.c - the last; see text_begin.c. */
#include "base/nouns.h"

void text_end(void)
{
	__asm__ volatile("");
}
