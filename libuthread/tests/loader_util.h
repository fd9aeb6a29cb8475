/* SPDX-License-Identifier: Apache-2.0 */
/* loader_util.h - a library of the tests' own, opened. */
#ifndef UTHREAD_TEST_LOADER_UTIL_H
#define UTHREAD_TEST_LOADER_UTIL_H

#include <dlfcn.h>

#include "util.h"

static inline void *opened(const char *name, int how)
{
	void *handle = dlopen(name, how);

	if (!handle) {
		fprintf(stderr, "%s\n", dlerror());
		_exit(1);
	}
	return handle;
}

#endif
