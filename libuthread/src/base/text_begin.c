/* SPDX-License-Identifier: Apache-2.0 */
/*
 * text_begin.c, text_end.c - the first and the last of the runtime's code, which the
 * linker lays out in the order of the files (meson.build): what lies between is ours,
 * in a library of its own and in a program that has us linked in. Parts that a
 * compiler sets apart because they end the process lie elsewhere.
 */
#include "base/nouns.h"

void text_begin(void)
{
	__asm__ volatile("");
}
