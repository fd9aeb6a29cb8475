/* SPDX-License-Identifier: Apache-2.0 */
/* opens.c - a program that knows nothing of uthreads, and opens a library that does.
 * Who has the loader's lock meanwhile waits for its threads (begins.c). */
#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char **argv)
{
	if (argc == 2 && dlopen(argv[1], RTLD_NOW))
		return 0;
	fprintf(stderr, "%s\n", argc == 2 ? dlerror() : "opens LIBRARY");
	return 1;
}
