/* SPDX-License-Identifier: Apache-2.0 */
/* test_library.c - a library that has threads of its own comes and goes; it makes the
 * program's first one, or a thread opens it. */
#include <dlfcn.h>

#include "check.h"

static void *opens(void *arg)
{
	int (*wrong)(void), i;
	void *library;

	for (i = 0; i < 3; i++) {
		library = dlopen(LIBRARY_STARTS, RTLD_NOW);
		if (!library)
			fprintf(stderr, "%s\n", dlerror());
		CHECK(library);
		*(void **)&wrong = dlsym(library, "starts_wrong");
		IS(wrong(), 0);
		IS(dlclose(library), 0);
	}
	return arg;
}

int main(void)
{
	opens(NULL);
	IS(pthread_join(start(opens, NULL), NULL), 0);
	return 0;
}
