/* SPDX-License-Identifier: Apache-2.0 */
/* filler_module.c - a library that is only there, to be looked through. */
int filler_here(void);

int filler_here(void)
{
	return 1;
}
